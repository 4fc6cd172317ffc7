package config

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// maxFailures bounds the limits of failures per minute.
const maxFailures = 1_000_000

// maxZone is the longest name of a zone. It is part of tags and labels, whose values are bounded.
const maxZone = 63

var zoneName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// check reports all values that cannot work, among the settings that are used. Commands on
// several machines share a file, and a value that is wrong for one of them must not stop
// another.
func (c *Config) check(uses func(name string) bool) error {
	return fault.Violated(slices.DeleteFunc(c.violations(uses), func(v fault.Violation) bool { return unused(v.Path, uses) }))
}

// unused reports whether nothing of a setting or section is used.
func unused(path string, uses func(name string) bool) bool {
	known, used := false, uses == nil
	for _, k := range Table {
		if within(k.Name, path) {
			known, used = true, used || uses(k.Name)
		}
	}
	return known && !used
}

// violations returns all values that cannot work. Only ports of settings that are used can
// clash.
func (c *Config) violations(uses func(name string) bool) []fault.Violation {
	var vs []fault.Violation
	bad := func(path, format string, args ...any) {
		vs = append(vs, fault.Violation{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	oneOf := func(path, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			bad(path, "must be one of %s", strings.Join(allowed, ", "))
		}
	}
	oneOf("mode", c.Mode, Modes...)
	oneOf("environment", c.Environment, Environments...)
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	oneOf("log.format", c.Log.Format, "text", "json")
	oneOf("store.type", c.Store.Type, "sqlite", "memory")
	if c.Store.Standby && c.Store.Type == "memory" {
		bad("store.standby", "must be false while store.type is memory: there is nothing to take over")
	}
	for _, p := range c.ports() {
		if p.port < 0 || p.port > 65535 {
			bad(p.name, "must be a port")
		}
		if net.ParseIP(p.listen) == nil {
			bad(strings.Split(p.name, ".")[0]+".listen", "must be an IP address")
		}
	}
	if ip := net.ParseIP(c.Diagnostics.Listen); ip != nil && !ip.IsLoopback() {
		bad("diagnostics.listen", "must be a loopback address, because this API has no authentication")
	}
	if ip := net.ParseIP(c.Admin.Listen); ip != nil && !ip.IsLoopback() && !c.Admin.Protected() && !c.Access.IdentityNeeded() {
		bad("admin.listen", "must be a loopback address unless admin.token or admin.tokenFile is set, access.roles is set or access.anonymous is false, because this API would have no authentication")
	}
	vs = append(vs, c.checkAccess()...)
	if c.Admin.Token != "" && c.Admin.TokenFile != "" {
		bad("admin.tokenFile", "cannot be set beside admin.token")
	}
	if _, err := c.Trusted(); err != nil {
		bad("gateway.trustedIPs", "%v", err)
	}
	if _, err := c.Workload.Networks(); err != nil {
		bad("workload.address", "%v", err)
	}
	if c.Cache.Grace < 0 || c.Cache.NegativeTTL < 0 || c.Cache.MaxBytes < 0 {
		bad("cache", "values must not be negative")
	}
	if n := c.OAuth.FailuresPerClient; n < 1 || n > maxFailures {
		bad("oauth.failuresPerClient", "must be between 1 and %d", maxFailures)
	}
	if n := c.OAuth.FailuresPerAddress; n < 0 || n > maxFailures {
		bad("oauth.failuresPerAddress", "must be between 0 and %d", maxFailures)
	}
	if c.Dataplane.RemoveAfter <= 0 {
		bad("dataplane.removeAfter", "must be positive")
	}
	if len(c.Zone.Name) > maxZone || c.Zone.Name != "" && !zoneName.MatchString(c.Zone.Name) {
		bad("zone.name", "must be up to %d lower-case letters, digits and dashes, the first and last of them no dash", maxZone)
	}
	if c.Drain.Delay < 0 || c.Drain.Timeout < 0 {
		bad("drain", "values must not be negative")
	}
	vs = append(vs, c.Backup.check(c.Store.Type)...)
	vs = append(vs, c.AccessLog.check()...)
	vs = append(vs, c.Filter.check()...)
	if c.Changes.Keep < time.Hour {
		bad("changes.keep", "must be at least 1h")
	}
	if c.Changes.Max < 1000 {
		bad("changes.max", "must be at least 1000")
	}
	vs = append(vs, c.Tracing.check()...)
	vs = append(vs, c.checkCloud()...)
	return append(vs, c.clashes(uses)...)
}

// minBackup is the shortest interval between two backups: their names distinguish only
// seconds, and each backup reads the whole database.
const minBackup = time.Minute

// check reports values of the backup schedule that cannot work.
func (b *Backup) check(storeType string) (vs []fault.Violation) {
	switch {
	case b.Every == 0:
	case b.Every < minBackup:
		vs = append(vs, fault.Violation{Path: "backup.every", Message: "must be 0 or at least 1m"})
	case storeType == "memory":
		vs = append(vs, fault.Violation{Path: "backup.every", Message: "must be 0 while store.type is memory: there is nothing to back up"})
	}
	if b.Keep < 1 {
		vs = append(vs, fault.Violation{Path: "backup.keep", Message: "must be at least 1"})
	}
	return vs
}

type namedPort struct {
	name, listen string
	port         int
}

func (c *Config) ports() []namedPort {
	return []namedPort{
		{"dataPlane.port", c.DataPlane.Listen, c.DataPlane.Port},
		{"diagnostics.port", c.Diagnostics.Listen, c.Diagnostics.Port},
		{"mesh.port", c.Mesh.Listen, c.Mesh.Port},
		{"mesh.tlsPort", c.Mesh.Listen, c.Mesh.TLSPort},
		{"admin.port", c.Admin.Listen, c.Admin.Port},
		{"admin.tlsPort", c.Admin.Listen, c.Admin.TLSPort},
		{"cloud.port", CloudHTTP, c.Cloud.Port},
		{"cloud.tlsPort", c.Cloud.Listen, c.Cloud.TLSPort},
		{"gateway.httpPort", c.Gateway.Listen, c.Gateway.HTTPPort},
		{"gateway.httpsPort", c.Gateway.Listen, c.Gateway.HTTPSPort},
		{"status.port", c.Status.Listen, c.Status.Port},
	}
}

// clashes reports ports that two settings use, with the names of both. Port 0 means a free
// port and never clashes.
func (c *Config) clashes(uses func(name string) bool) []fault.Violation {
	var vs []fault.Violation
	owner := map[int]string{}
	for _, p := range c.ports() {
		if uses != nil && !uses(p.name) {
			continue
		}
		if first, taken := owner[p.port]; taken && p.port != 0 {
			vs = append(vs, fault.Violation{Path: p.name, Message: fmt.Sprintf("port %d is also %s", p.port, first)})
		}
		owner[p.port] = p.name
	}
	return vs
}

// Trusted parses gateway.trustedIPs.
func (c *Config) Trusted() ([]netip.Prefix, error) { return networks(c.Gateway.TrustedIPs) }

// mappedBits is how many bits stand before an IPv4 address in IPv6 notation (RFC 4291 section 2.5.5.2).
const mappedBits = 96

// networks parses addresses and networks, separated by commas.
func networks(text string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, f := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		if a, err := netip.ParseAddr(f); err == nil && a.Zone() == "" {
			a = a.Unmap()
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(f)
		if err != nil {
			return nil, fmt.Errorf("%q is neither an address nor a network", f)
		}
		if p.Addr().Is4In6() { // addresses are compared in their plain form
			if p.Bits() < mappedBits {
				return nil, fmt.Errorf("%q is more than the IPv4 addresses in IPv6 notation: name the networks apart", f)
			}
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// nearest returns the known key with the most similar spelling.
func nearest(key string) string {
	names := make([]string, len(Table))
	for i, k := range Table {
		names[i] = k.Name
	}
	return fault.Nearest(key, names)
}

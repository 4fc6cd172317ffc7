package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/fault"
)

// Cloud says where the cloud API listens, and which part of it this process serves.
type Cloud struct {
	// Listen is for TLSPort. Port is on loopback only: all callers show tokens, which could be
	// overheard.
	Listen  string `koanf:"listen"`
	Port    int    `koanf:"port"`
	TLSPort int    `koanf:"tlsPort"`
	// Roles are [CloudGlobal] and [CloudRegional], separated by commas.
	Roles  string `koanf:"roles"`
	Region string `koanf:"region"`
	// PortalDomain is the domain below which portals have their names.
	PortalDomain string `koanf:"portalDomain"`
	// Hosts are names of this control plane that no portal takes.
	Hosts string `koanf:"hosts"`
	// TrustedIPs are proxies that say for which clients they speak.
	TrustedIPs string `koanf:"trustedIPs"`
}

// Trusted parses TrustedIPs.
func (c *Cloud) Trusted() ([]netip.Prefix, error) { return networks(c.TrustedIPs) }

// CloudHTTP is the address of the cloud API over HTTP.
const CloudHTTP = "127.0.0.1"

// CloudHosts returns the host names under which the cloud API is reached, in lower case: those of the
// certificates, and those of a load balancer in front of it.
func (c *Config) CloudHosts() []string {
	list := trimmed([]string{c.DataPlane.Names, c.Cloud.Hosts})
	for i := range list {
		list[i] = strings.TrimSuffix(strings.ToLower(list[i]), ".")
	}
	return list
}

// The parts of the cloud API: what exists once, such as destinations and tokens, and what exists in
// each region, such as portals and control planes.
const (
	CloudGlobal   = "global"
	CloudRegional = "regional"
)

// Serves reports whether this process serves a part of the API.
func (c *Cloud) Serves(role string) bool { return slices.Contains(trimmed([]string{c.Roles}), role) }

// Alone says what a process cannot do that serves one part of the API only, and whose store nobody shares;
// empty if it serves both, or none.
func (c *Cloud) Alone() string {
	switch global, regional := c.Serves(CloudGlobal), c.Serves(CloudRegional); {
	case global && !regional:
		return "cloud.roles has no regional: this process has no portals and control planes of the cloud API, and its access tokens and destinations are known to no other process"
	case regional && !global:
		return "cloud.roles has no global: access tokens and destinations of other processes are not known here; what this process needs of them is made at its local socket"
	}
	return ""
}

// Audit says how events of the audit log leave the control plane.
type Audit struct {
	// AllowedNetworks are reached although they are private or of this machine.
	AllowedNetworks string `koanf:"allowedNetworks"`
	// Gzip compresses what is sent.
	Gzip bool `koanf:"gzip"`
	// Syslog lists targets that get all events by syslog.
	Syslog string `koanf:"syslog"`
	// ControlPlane sends these targets the audit log of the control plane itself, too.
	ControlPlane bool `koanf:"controlPlane"`
	// Vendor and Host are named in each event.
	Vendor string `koanf:"vendor"`
	Host   string `koanf:"host"`
}

// Networks returns the networks of AllowedNetworks.
func (a *Audit) Networks() ([]netip.Prefix, error) { return networks(a.AllowedNetworks) }

// Sinks returns the targets of Syslog.
func (a *Audit) Sinks() (list []syslog.Target, err error) {
	for _, text := range trimmed([]string{a.Syslog}) {
		t, err := syslog.Parse(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(list, t) {
			list = append(list, t)
		}
	}
	if len(list) > maxSinks {
		return nil, fmt.Errorf("there are more than %d", maxSinks)
	}
	return list, nil
}

// maxSinks bounds the targets: each of them gets every event.
const maxSinks = 16

// cloudKeys are the rows of [Table] for [Cloud] and [Audit].
var cloudKeys = []Key{
	{"cloud.listen", "127.0.0.1", "address of the cloud API over HTTPS; over HTTP it is on loopback only", false},
	{"cloud.port", 5690, "port of the cloud API over HTTP, on loopback", false},
	{"cloud.tlsPort", 5691, "port of the cloud API over HTTPS", false},
	{"cloud.roles", CloudGlobal + "," + CloudRegional, "comma-separated parts of the cloud API that this process serves: global (destinations, access tokens) and regional (portals, control planes)", false},
	{"cloud.region", "us", "name of the region, such as us, au or eu, which GET /v2/organizations/me shows", false},
	{"cloud.portalDomain", "portals.localhost", "domain below which each portal gets its host name", false},
	{"cloud.hosts", "", "comma-separated host names under which a load balancer leads to the cloud API: no portal takes them as its domain, nor those in dataPlane.names", false},
	{"cloud.trustedIPs", "", "comma-separated addresses and networks of proxies before the cloud API whose X-Forwarded-For is believed, in audit logs and in what bounds logins of an address; empty: none", false},
	{"audit.allowedNetworks", "", "comma-separated addresses and networks that audit logs may be sent to although they are private, or of this machine (docs/cloud.md)", false},
	{"audit.gzip", false, "compress the bodies of audit logs, for receivers that understand Content-Encoding: gzip", false},
	{"audit.syslog", "", "comma-separated syslog collectors that get the events of all portals: tcp://host:port or udp://host:port; without a port: 8071", false},
	{"audit.controlPlane", false, "send the syslog collectors the audit log of the control plane itself, too: changes of its resources and refused calls of its APIs", false},
	{"audit.vendor", "Meshgate", "vendor that events of the audit log name", false},
	{"audit.host", "", "host that events in CEF begin with; empty: the name of this machine", false},
}

// regionName is a label of a host name.
var regionName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// domainName is a host name of at least one label, in lower case.
var domainName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)

// maxPortalDomain leaves room for the label of a portal.
const maxPortalDomain = 180

// maxHost is the length of a host name.
const maxHost = 253

// checkCloud reports what cannot work.
func (c *Config) checkCloud() (vs []fault.Violation) {
	bad := func(path, format string, args ...any) {
		vs = append(vs, fault.Violation{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	for _, role := range trimmed([]string{c.Cloud.Roles}) {
		if role != CloudGlobal && role != CloudRegional {
			bad("cloud.roles", "%q is neither %s nor %s", role, CloudGlobal, CloudRegional)
		}
	}
	if !regionName.MatchString(c.Cloud.Region) {
		bad("cloud.region", "must be up to 63 lower-case letters, digits and dashes, the first and last of them no dash")
	}
	if d := c.Cloud.PortalDomain; len(d) > maxPortalDomain || !domainName.MatchString(d) {
		bad("cloud.portalDomain", "must be a host name in lower case")
	}
	for _, host := range trimmed([]string{c.Cloud.Hosts}) {
		if len(host) > maxHost || !domainName.MatchString(host) {
			bad("cloud.hosts", "%q is no host name in lower case, without a port", host)
		}
	}
	if _, err := c.Cloud.Trusted(); err != nil {
		bad("cloud.trustedIPs", "%v", err)
	}
	if _, err := c.Audit.Networks(); err != nil {
		bad("audit.allowedNetworks", "%v", err)
	}
	if _, err := c.Audit.Sinks(); err != nil {
		bad("audit.syslog", "%v", err)
	}
	if v := c.Audit.Vendor; v == "" || strings.ContainsAny(v, "|\\\r\n") {
		bad("audit.vendor", "must be a name without | and \\")
	}
	return vs
}

package mesh

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/hostname"
)

const (
	textCrossProtocol   = "protocol is not supported with crossMesh"
	textCrossClash      = "crossMesh conflicts with other listeners on this port"
	textCrossHost       = "must not be localhost or end in .mesh with crossMesh: each mesh has such names of its own"
	textNoUDP           = "UDP is not supported. Use TCP, TLS, HTTP or HTTPS"
	textTLSOnPlain      = "only listeners of HTTPS and TLS have it"
	textOnlySecret      = "is not supported here: name a secret of the mesh, which can be exchanged without closing connections"
	textProtocolClash   = "protocol conflicts with other listeners on this port"
	textHostTwice       = "multiple listeners for hostname on this port"
	textLimitClash      = "conflicting values for this port"
	textNoHosts         = "TCP has no host names: leave it out, or use TLS"
	maxGatewayListeners = 256
	textManyListeners   = "must not have more than 256 elements"
)

// reservedGatewayTags are what a gateway does not say of itself.
var reservedGatewayTags = []string{TagService, TagProtocol, TagZone, "mesh.io/external-service-name"}

func (g *MeshGateway) validate() []fault.Violation {
	var vs violations
	vs.join(ValidateSelectors("selectors", g.Selectors, SelectService))
	if g.Crosses() && len(g.Selectors) > 1 {
		vs.add(indexed("selectors", 1), "there can be at most one selector")
	}
	vs.gatewayTags("tags", g.Tags)
	if g.Conf == nil {
		vs.add("conf", textEmpty)
		return vs
	}
	const path = "conf.listeners"
	switch n := len(g.Conf.Listeners); {
	case n == 0:
		vs.add(path, textEmpty)
	case n > maxGatewayListeners:
		vs.add(path, textManyListeners)
		return vs
	}
	for i := range g.Conf.Listeners {
		vs.gatewayListener(indexed(path, i), &g.Conf.Listeners[i])
	}
	vs.collapsible(path, g.Conf.Listeners)
	return vs
}

// gatewayTags checks tags that are added to those of a dataplane.
func (vs *violations) gatewayTags(path string, tags Tags) {
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		if slices.Contains(reservedGatewayTags, k) {
			vs.add(keyed(path, k), `tag name must not be "`+k+`"`)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		vs.tagName(path, k)
		vs.tagValue(path, k, tags[k], gatewayValue, textGatewayValue)
	}
}

// gatewayValue permits slashes, because the tags of listeners are only selected.
var gatewayValue = regexp.MustCompile(`^[a-zA-Z0-9.\-_:/]*$`)

const textGatewayValue = "tag value must consist of alphanumeric characters, dots, dashes, slashes and underscores"

func (vs *violations) gatewayListener(path string, l *GatewayListener) {
	vs.wildcardHost(path+".hostname", l.Hostname)
	vs.port(path+".port", l.Port)
	switch l.Protocol {
	case "":
		vs.add(path+".protocol", textEmpty)
	case "UDP":
		vs.add(path+".protocol", textNoUDP)
	case ListenerHTTPS:
		if l.CrossMesh {
			vs.add(path+".protocol", textCrossProtocol)
		}
		if l.TLS == nil {
			vs.add(path+".tls", textEmpty)
		} else if l.TLS.Mode == TLSPassthrough {
			vs.add(path+".tls.mode", "mode is not supported on HTTPS listeners")
		}
	case ListenerTLS:
		if l.TLS == nil && !l.CrossMesh {
			vs.add(path+".tls", textEmpty)
		}
	case ListenerTCP:
		if l.Host() != AnyHost {
			vs.add(path+".hostname", textNoHosts)
		}
		fallthrough
	default:
		if l.TLS != nil && !l.CrossMesh {
			vs.add(path+".tls", textTLSOnPlain)
		}
	}
	switch {
	case l.CrossMesh && l.TLS != nil:
		vs.add(path+".tls", "must be empty with crossMesh")
	case l.TLS != nil:
		vs.gatewayTLS(path+".tls", l.TLS)
	}
	if l.CrossMesh {
		vs.crossListener(path, l)
	}
	vs.gatewayTags(path+".tags", l.Tags)
}

// crossListener checks what only a listener for other meshes must not have.
func (vs *violations) crossListener(path string, l *GatewayListener) {
	if l.Protocol == ListenerTLS || l.Protocol == ListenerTCP {
		vs.add(path+".protocol", textCrossProtocol)
	}
	if name := strings.TrimPrefix(l.Hostname, "*."); "."+name == HostSuffix || strings.HasSuffix(name, HostSuffix) || l.Hostname != "" && hostname.IsLocal(name) {
		vs.add(path+".hostname", textCrossHost)
	}
}

func (vs *violations) gatewayTLS(path string, t *GatewayTLS) {
	at := path + ".certificates"
	switch {
	case t.Mode == "":
		vs.add(path+".mode", textEmpty)
	case t.Mode == TLSTerminate && len(t.Certificates) == 0:
		vs.add(at, "cannot be empty in TLS termination mode")
	case t.Mode == TLSPassthrough && len(t.Certificates) > 0:
		vs.add(at, "must be empty in TLS passthrough mode")
	}
	if len(t.Certificates) > 2 {
		vs.add(at, "cannot have more than 2 certificates")
		return
	}
	for i := range t.Certificates {
		c, at := &t.Certificates[i], indexed(at, i)
		switch {
		case c.Secret != "" && c.File == "" && len(c.Inline) == 0 && c.InlineString == nil:
		case c.Secret != "":
			vs.add(at, textOneSource)
		case c.File == "" && len(c.Inline) == 0 && c.InlineString == nil:
			vs.add(at, textEmptySource)
		default:
			vs.add(at, textOnlySecret)
		}
	}
}

// wildcardHost checks a host name that may begin with *.
func (vs *violations) wildcardHost(path, host string) {
	switch name, wild := strings.CutPrefix(host, "*."); {
	case host == "" || host == AnyHost:
	case wild && (!dnsName.MatchString(name) || len(host) > maxHost || host != foldHost(host)):
		vs.add(path, "invalid wildcard domain")
	case !wild && (!dnsName.MatchString(host) || len(host) > maxHost || host != foldHost(host)):
		vs.add(path, "invalid hostname")
	}
}

// collapsible checks that listeners with one port can share it.
func (vs *violations) collapsible(path string, ls []GatewayListener) {
	for i := range ls {
		l, at := &ls[i], indexed(path, i)
		clash, twice, limits, crosses := false, false, false, false
		for j := range ls[:i] {
			o := &ls[j]
			if o.Port != l.Port {
				continue
			}
			clash = clash || o.Protocol != l.Protocol
			twice = twice || o.Host() == l.Host()
			crosses = crosses || o.CrossMesh != l.CrossMesh
			limits = limits || o.limit() != 0 && l.limit() != 0 && o.limit() != l.limit()
		}
		if clash {
			vs.add(at, textProtocolClash)
		}
		if twice {
			vs.add(at, textHostTwice)
		}
		if crosses {
			vs.add(at, textCrossClash)
		}
		if limits {
			vs.add(at+".resources.connectionLimit", textLimitClash)
		}
	}
}

func (l *GatewayListener) limit() uint32 {
	if l.Resources == nil {
		return 0
	}
	return l.Resources.ConnectionLimit
}

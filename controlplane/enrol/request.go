package enrol

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Types of proxies in an enrolment.
const (
	typeDataplane = "dataplane"
	typeSidecar   = "sidecar" // the name on the command line
)

// Proxy is what a proxy of a mesh says about itself. Unknown members are refused: otherwise
// a proxy with a mistyped dataplaneResource or instance would be taken for one without it.
type Proxy struct {
	Mesh      string `json:"mesh"`
	Name      string `json:"name"`
	ProxyType string `json:"proxyType,omitempty"`
	// Token is the dataplane token, unless it is in the Authorization header.
	Token string `json:"dataplaneToken,omitempty"`
	// Instance distinguishes an agent from others with the same name, so that it removes
	// only what it has registered itself. It is empty for an Envoy without an agent and for
	// older agents.
	Instance string `json:"instance,omitempty"`
	// Leaving says that the proxy is about to drain. The request then does nothing else.
	Leaving bool `json:"leaving,omitempty"`
	// Starting says that the Envoy of an egress does not listen yet. Its agent registers again when it
	// does.
	Starting bool `json:"starting,omitempty"`
	// Resource is the Dataplane, ZoneIngress or ZoneEgress, as JSON or YAML text; the proxy then owns it.
	Resource string `json:"dataplaneResource,omitempty"`
	// Version, Features, WorkDir and Dynamic become metadata of the node.
	Version  map[string]any    `json:"version,omitempty"`
	Features []string          `json:"features,omitempty"`
	WorkDir  string            `json:"workdir,omitempty"`
	Dynamic  map[string]string `json:"dynamicMetadata,omitempty"`
	// Relay is set by an agent. Without it the bootstrap is for an Envoy without an agent.
	Relay *Relay `json:"relay,omitempty"`
}

// Relay says where an agent serves configuration, and where it wants the admin interface.
type Relay struct {
	// Socket is the path of the Unix socket of the agent's ADS.
	Socket string `json:"socket"`
	// AdminSocket is the path of the admin interface, unless AdminPort is set.
	AdminSocket string `json:"adminSocket,omitempty"`
	// AdminPort is a port on 127.0.0.1 for the admin interface.
	AdminPort uint32 `json:"adminPort,omitempty"`
}

// ofZone reports whether the proxy is one of a zone, which belongs to no mesh.
func (p *Proxy) ofZone() bool { return mesh.ZoneKind(p.ProxyType) != nil }

// node returns the id of the proxy.
func (p *Proxy) node() string {
	if p.ofZone() {
		return mesh.ZoneNodeID(p.ProxyType, p.Name)
	}
	return mesh.NodeID(p.Mesh, p.Name)
}

// isProxy distinguishes the two forms: a gateway instance has none of these members.
func isProxy(o *model.Object) bool {
	return o.Has("mesh") || o.Has("proxyType") || o.Has("proxy_type") || o.Has("name")
}

// maxInstance bounds the name of an instance.
const maxInstance = 64

// isInstance reports whether a text can be an instance label.
func isInstance(s string) bool {
	return len(s) <= maxInstance && !strings.ContainsFunc(s, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// maxName keeps node ids short enough for certificates and paths.
const maxName = 253

// MaxSocketPath is the longest path of a Unix socket on Linux in bytes, without
// its terminating zero.
const MaxSocketPath = 107

// tolerated are members that other clients of this endpoint send. They have no effect here.
var tolerated = []string{
	"dataplaneTokenPath", "caCert", "certBytes", "host", "dnsPort", "emptyDnsPort", "readinessPort", "operatingSystem", "resources",
	"metricsResources", "accessLogSocketPath", "systemCaPath", "ipv6Enabled",
}

// readProxy reads the request of a proxy. It also returns the unknown members, which are
// violations if the request is read strictly.
func readProxy(o *model.Object, how httpkit.Strictness) (in *Proxy, unknown []fault.Violation, err error) {
	in = new(Proxy)
	if unknown, err = o.Read(in, tolerated...); err != nil {
		return nil, nil, notValid(err)
	}
	var vs []fault.Violation
	if how == httpkit.Strict {
		vs = unknown
	}
	add := func(path, message string) { vs = append(vs, fault.Violation{Path: path, Message: message}) }
	// Node ids are split at their first dot, so the name of a mesh has none.
	for path, name := range map[string]string{"mesh": in.Mesh, "name": in.Name} {
		switch {
		case path == "mesh" && in.ofZone():
			if name != "" {
				add(path, "must not be set: a proxy of a zone belongs to no mesh")
			}
		case name == "":
			add(path, "cannot be empty")
		case len(name) > maxName || strings.ContainsAny(name, "/\x00") || path == "mesh" && strings.Contains(name, "."):
			add(path, "must be a name")
		}
	}
	if t := in.ProxyType; t != "" && t != typeDataplane && t != typeSidecar && !in.ofZone() {
		add("proxyType", "must be dataplane, ingress or egress")
	}
	if !isInstance(in.Instance) {
		add("instance", "must be at most 64 of a-z, 0-9 and '-'")
	}
	if r := in.Relay; r != nil {
		if r.Socket == "" {
			add("relay.socket", "cannot be empty")
		}
		for path, socket := range map[string]string{"relay.socket": r.Socket, "relay.adminSocket": r.AdminSocket} {
			if len(socket) > MaxSocketPath {
				add(path, "is longer than a path of a Unix socket may be")
			}
		}
		if r.AdminPort > 65535 {
			add("relay.adminPort", "must be a port")
		}
		if r.AdminSocket == "" && r.AdminPort == 0 {
			add("relay.adminSocket", "cannot be empty without adminPort")
		}
	}
	sortViolations(vs)
	return in, unknown, fault.Violated(vs)
}

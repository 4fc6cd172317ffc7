package mesh

import (
	"maps"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// MeshGateway is the spec of what builtin gateways listen to (requirement "MeshGateway"). The
// gateway of a Dataplane is the one whose selectors match the tags of the Dataplane best.
type MeshGateway struct { //nolint:revive // documents have this name
	model.Labelled
	Selectors []Selector `json:"selectors,omitempty"`
	// Tags are added to those of the dataplane. Routes and policies select the result.
	Tags Tags             `json:"tags,omitempty"`
	Conf *MeshGatewayConf `json:"conf,omitempty"`
}

// MeshGatewayConf lists the listeners.
type MeshGatewayConf struct { //nolint:revive // documents have this name
	Listeners []GatewayListener `json:"listeners,omitempty"`
}

// The protocols of listeners.
const (
	ListenerTCP   = "TCP"
	ListenerTLS   = "TLS"
	ListenerHTTP  = "HTTP"
	ListenerHTTPS = "HTTPS"
)

// The modes of TLS.
const (
	TLSTerminate   = "TERMINATE"
	TLSPassthrough = "PASSTHROUGH"
)

// GatewayListener is one host name on one port. Listeners with one port share it.
type GatewayListener struct {
	// Hostname is a name, *.<name>, or * for every host, which is the default.
	Hostname string `json:"hostname,omitempty"`
	Port     uint32 `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty" jsonschema:"enum=NONE,enum=TCP,enum=UDP,enum=TLS,enum=HTTP,enum=HTTPS"`
	// TLS is for HTTPS and TLS.
	TLS *GatewayTLS `json:"tls,omitempty"`
	// Tags are added to those of the gateway.
	Tags Tags `json:"tags,omitempty"`
	// CrossMesh lets proxies of all meshes call the listener, and nobody else.
	CrossMesh bool `json:"crossMesh,omitempty"`
	// Resources bound the listener.
	Resources *GatewayResources `json:"resources,omitempty"`
}

// Host returns the host name of a listener, * for every host.
func (l *GatewayListener) Host() string { return or(l.Hostname, AnyHost) }

// ListenerOf is the key by which targets select the listeners of a MeshGateway by its name. It is no
// name of a tag, so targets with it match no proxy and no inbound.
const ListenerOf = "listener of"

// AnyHost is the host name that every host matches.
const AnyHost = "*"

// GatewayTLS says who ends TLS, and what the gateway presents if it does.
type GatewayTLS struct {
	Mode string `json:"mode,omitempty" jsonschema:"enum=NONE,enum=TERMINATE,enum=PASSTHROUGH"`
	// Certificates are one or two, for different sorts of keys. Each is a secret of the mesh
	// that holds a certificate chain and its key in PEM.
	Certificates []DataSource `json:"certificates,omitempty"`
}

// GatewayResources are limits of a listener.
type GatewayResources struct {
	// ConnectionLimit is how many connections the listener takes at a time, 0 for 10,000.
	ConnectionLimit uint32 `json:"connectionLimit,omitempty"`
}

// MeshGateways describes the resources.
var MeshGateways = model.Describe(MeshGateway{}, model.Kind{
	Name: "mesh_gateway", Path: "meshgateways", Scoping: model.Mesh, Class: model.Config,
	Document: &model.Document{
		Type: "MeshGateway", Singular: "Mesh Gateway", Plural: "Mesh Gateways", Listed: true,
		Validate: func(spec any) []fault.Violation { return spec.(*MeshGateway).validate() },
	},
})

// SelectedSources implements model.Selecting: a gateway has no sources.
func (g *MeshGateway) SelectedSources() []map[string]string { return nil }

// SelectedDestinations implements model.Selecting.
func (g *MeshGateway) SelectedDestinations() []map[string]string { return Matched(g.Selectors) }

// Listeners returns the listeners of a gateway.
func (g *MeshGateway) Listeners() []GatewayListener {
	if g.Conf == nil {
		return nil
	}
	return g.Conf.Listeners
}

// ListenerTags returns the tags by which routes and policies select a listener: those of the
// dataplane, of the gateway and of the listener. The later ones win.
func (g *MeshGateway) ListenerTags(dataplane Tags, l *GatewayListener) Tags {
	out := Tags{}
	for _, tags := range []Tags{dataplane, g.Tags, l.Tags} {
		maps.Copy(out, tags)
	}
	return out
}

// SecretNames are the secrets of the mesh that the listeners present.
func (g *MeshGateway) SecretNames() (names []string) {
	for _, l := range g.Listeners() {
		if l.TLS == nil {
			continue
		}
		for _, c := range l.TLS.Certificates {
			if c.Secret != "" {
				names = append(names, c.Secret)
			}
		}
	}
	return names
}

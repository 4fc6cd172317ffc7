package mesh

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Crossing says what other meshes know of a mesh with mutual TLS: its roots, and the listeners of
// its gateways that they may call. The control plane keeps one for each such mesh, under the mesh's
// name, while any mesh has a listener with crossMesh. Nothing else of a mesh is in the view of
// another. It is not part of an API, and holds nothing secret.
//
// The roots are those of the [Trust]. A step of a rotation changes both in one transaction.
type Crossing struct {
	Mesh string `json:"mesh"`
	// Roots and Withdrawn are those of the [Trust].
	Roots     []byte `json:"roots"`
	Withdrawn uint64 `json:"withdrawn,omitempty"`
	// Listeners are ordered by service and port.
	Listeners []CrossListener `json:"listeners,omitempty"`
	// Taken are those hosts of the listeners, ordered, that another mesh had before: only in this
	// mesh they lead to its gateways.
	Taken []string `json:"taken,omitempty"`
	// Full says that the mesh has more listeners, hosts or endpoints than fit.
	Full bool `json:"full,omitempty"`
}

// The bounds of what one mesh lets others know. Proxies of all meshes get what is in them.
const (
	// MostCrossRoots bounds the bytes of the roots. A mesh that has more is not known to others.
	MostCrossRoots     = 64 << 10
	mostCrossListeners = 256
	mostCrossHosts     = 1024
	mostCrossEndpoints = 4096
)

// CrossListener is one port of the gateways with one service.
type CrossListener struct {
	Service string `json:"service"`
	Port    uint32 `json:"port"`
	// Hosts are the names for which the port is called, ordered. Wildcards are not among them.
	Hosts []string `json:"hosts,omitempty"`
	// Endpoints are ordered by address and tags.
	Endpoints []CrossEndpoint `json:"endpoints,omitempty"`
}

// CrossEndpoint is a listener at one gateway. Tags are those by which routes select the listener,
// without the service.
type CrossEndpoint struct {
	Address string `json:"address"`
	Tags    Tags   `json:"tags,omitempty"`
}

// Crossings are what other meshes know of meshes.
var Crossings = model.Describe(Crossing{}, model.Kind{
	Name: "mesh_crossing", Path: "mesh-crossings", Scoping: model.Global, Class: model.Config, ReadOnly: true,
})

// crossed parts the service from the mesh in the name of a service of another mesh. No tag and no
// name of a mesh contains it.
const crossed = "@@"

// TagPort is the tag of the port of a listener. It is no name of a tag, so nobody else has it.
const TagPort = "@port"

// CrossService returns the name by which a service of gateways is known in other meshes.
func CrossService(mesh, service string) string { return service + crossed + mesh }

// ParseCrossService returns what [CrossService] was made of.
func ParseCrossService(name string) (mesh, service string, ok bool) {
	service, mesh, ok = strings.Cut(name, crossed)
	return mesh, service, ok
}

// AcrossMeshes returns the tags by which a destination is known that has the tag of a mesh: those of
// a service of gateways of that mesh. Other tags stay as they are.
func AcrossMeshes(tags Tags) Tags {
	of, ok := tags[TagMesh]
	if !ok || tags.Service() == "" {
		return tags
	}
	out := maps.Clone(tags)
	delete(out, TagMesh)
	out[TagService] = CrossService(of, tags.Service())
	return out
}

// callable are the listeners that others may call: none of a mesh without roots. Callers could not judge
// who answers, and their clusters would wait for roots that do not come.
func (c *Crossing) callable() []CrossListener {
	if len(c.Roots) == 0 {
		return nil
	}
	return c.Listeners
}

// Locates returns where the listeners are that others may call, each under the service of its gateways.
// One without a gateway has an endpoint that is not ready, so that its protocol is known.
func (c *Crossing) Locates() (out []Endpoint) {
	listeners := c.callable()
	for i := range listeners {
		l := &listeners[i]
		of := func(own Tags) Tags {
			tags := maps.Clone(own)
			if tags == nil {
				tags = Tags{}
			}
			maps.Copy(tags, c.tags(l))
			tags[TagProtocol] = ProtocolHTTP
			return tags
		}
		for _, e := range l.Endpoints {
			out = append(out, Endpoint{Address: e.Address, Port: l.Port, Tags: of(e.Tags), Ready: true})
		}
		if len(l.Endpoints) == 0 {
			out = append(out, Endpoint{Address: "0.0.0.0", Port: l.Port, Tags: of(nil)})
		}
	}
	return out
}

// tags select a listener.
func (c *Crossing) tags(l *CrossListener) Tags {
	return Tags{TagService: CrossService(c.Mesh, l.Service), TagPort: strconv.FormatUint(uint64(l.Port), 10)}
}

// CrossHosts returns the names for which the listeners are called that others may call.
func (c *Crossing) CrossHosts() (out []Name) {
	listeners := c.callable()
	for i := range listeners {
		l := &listeners[i]
		for _, host := range l.Hosts {
			out = append(out, Name{Host: host, Port: l.Port, Tags: c.tags(l)})
		}
	}
	return out
}

// Offered are those of [Crossing.CrossHosts] that other meshes get.
func (c *Crossing) Offered() []Name {
	return slices.DeleteFunc(c.CrossHosts(), func(n Name) bool { return slices.Contains(c.Taken, n.Host) })
}

// Add adds a listener of gateways with a service, with an endpoint if it is at one. What does not fit
// is left out.
func (c *Crossing) Add(service string, l *GatewayListener, at *CrossEndpoint) {
	i, is := slices.BinarySearchFunc(c.Listeners, CrossListener{Service: service, Port: l.Port}, func(a, b CrossListener) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Port, b.Port))
	})
	if !is {
		if len(c.Listeners) >= mostCrossListeners {
			c.Full = true
			return
		}
		c.Listeners = slices.Insert(c.Listeners, i, CrossListener{Service: service, Port: l.Port})
	}
	into := &c.Listeners[i]
	if host := l.Host(); IsHost(host) {
		i, is := slices.BinarySearch(into.Hosts, host)
		switch {
		case is:
		case c.count(func(l *CrossListener) int { return len(l.Hosts) }) >= mostCrossHosts:
			c.Full = true
		default:
			into.Hosts = slices.Insert(into.Hosts, i, host)
		}
	}
	if at == nil {
		return
	}
	i, is = slices.BinarySearchFunc(into.Endpoints, *at, func(a, b CrossEndpoint) int {
		if by := cmp.Compare(a.Address, b.Address); by != 0 {
			return by
		}
		return cmp.Compare(a.Tags.String(), b.Tags.String())
	})
	switch {
	case is:
	case c.count(func(l *CrossListener) int { return len(l.Endpoints) }) >= mostCrossEndpoints:
		c.Full = true
	default:
		into.Endpoints = slices.Insert(into.Endpoints, i, *at)
	}
}

func (c *Crossing) count(of func(*CrossListener) int) (sum int) {
	for i := range c.Listeners {
		sum += of(&c.Listeners[i])
	}
	return sum
}

// CrossHosts lists the host names that a gateway brings to all meshes.
func (g *MeshGateway) CrossHosts() (out []string) {
	for _, l := range g.Listeners() {
		if l.CrossMesh && IsHost(l.Host()) {
			out = append(out, l.Host())
		}
	}
	return out
}

// Crosses reports whether a gateway has a listener that other meshes may call.
func (g *MeshGateway) Crosses() bool {
	return slices.ContainsFunc(g.Listeners(), func(l GatewayListener) bool { return l.CrossMesh })
}

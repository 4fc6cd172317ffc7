package sidecar

import (
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
)

// ways are the addresses of the ingresses of other zones that lead to a destination. Envoy takes
// each address once, so an ingress that leads to several tag sets of the destination, and
// ingresses that share an address, make one endpoint. The zero value has none.
type ways struct {
	// first is the endpoint that stands for an address, and instances how many are behind it.
	first     map[place]*view.Endpoint
	instances map[place]uint32
	// zones counts the addresses of each zone, and most is the highest number.
	zones map[string]uint32
	most  uint32
}

// Shared is an endpoint with the weight by which it gets connections.
type Shared struct {
	*view.Endpoint
	Weight uint32
}

// Shares returns the endpoints that some tags select, with weights by which all instances get the
// same share wherever they are. Those at ingresses of other zones are among them if far is set,
// once for each address.
func Shares(tags mesh.Tags, all []view.Endpoint, far bool) (out []Shared) {
	var ways ways
	if far {
		ways = waysTo(tags, all)
	}
	for i := range all {
		e := &all[i]
		if e.Ready && mesh.Matches(tags, e.Tags) && (e.Ingress == "" || ways.leads(e)) {
			out = append(out, Shared{e, ways.weight(e)})
		}
	}
	return out
}

type place struct {
	address string
	port    uint32
}

func placeOf(e *view.Endpoint) place { return place{e.Address, e.Port} }

// waysTo finds the ways to what some tags select.
func waysTo(tags mesh.Tags, all []view.Endpoint) (w ways) {
	for i := range all {
		e := &all[i]
		if e.Ingress == "" || !e.Ready || !mesh.Matches(tags, e.Tags) {
			continue
		}
		if w.first == nil {
			w = ways{first: map[place]*view.Endpoint{}, instances: map[place]uint32{}, zones: map[string]uint32{}}
		}
		at, zone := placeOf(e), e.Tags[mesh.TagZone]
		switch first := w.first[at]; {
		case first == nil:
			w.first[at], w.instances[at] = e, e.Instances
			w.zones[zone]++
		case first.Ingress == e.Ingress: // another tag set; another ingress has the same instances
			w.instances[at] += e.Instances
		}
	}
	for _, n := range w.zones {
		w.most = max(w.most, n)
	}
	return w
}

// leads reports whether an endpoint of an ingress is the one that stands for its address.
func (w *ways) leads(e *view.Endpoint) bool { return w.first[placeOf(e)] == e }

// weight returns the weight of an endpoint, so that all instances get the same share wherever they
// are: each of several addresses of a zone leads to all of its instances.
func (w *ways) weight(e *view.Endpoint) uint32 {
	most := max(w.most, 1)
	if e.Ingress == "" {
		return most
	}
	return max(1, w.instances[placeOf(e)]*most/w.zones[e.Tags[mesh.TagZone]])
}

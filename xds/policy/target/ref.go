package target

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
)

// These are the kinds of references, the weakest first.
const (
	Mesh          = "Mesh"
	Subset        = "MeshSubset"
	Service       = "MeshService"
	ServiceSubset = "MeshServiceSubset"
)

var kinds = []string{Mesh, Subset, Service, ServiceSubset}

// Gateway is the kind of a target that is the listeners of a MeshGateway, all or those with some
// tags. Only policies with [AtGateways] have such targets, and no item refers to them.
const Gateway = "MeshGateway"

// Kinds are the kinds of references.
func Kinds() []string { return slices.Clone(kinds) }

// Ref refers to proxies, or their inbounds: to all, to those with some tags, to those of a
// service, or to those of a service with some tags. A target may also be listeners of gateways.
type Ref struct {
	Kind string    `json:"kind,omitempty"`
	Name string    `json:"name,omitempty"`
	Tags mesh.Tags `json:"tags,omitempty"`
}

// Selector returns the tags of those to whom it refers. It refers to everybody if it cannot be
// read; readable tells whether it can.
func (r *Ref) Selector() (tags mesh.Tags, readable bool) {
	if r == nil {
		return mesh.Tags{}, false
	}
	switch r.Kind {
	case Mesh:
		return mesh.Tags{}, true
	case Subset:
		return r.Tags, true
	case Service:
		return mesh.Tags{mesh.TagService: r.Name}, true
	case ServiceSubset:
		return with(r.Tags, mesh.TagService, r.Name), true
	}
	return mesh.Tags{}, false
}

// placeOf returns the tags of what a policy has as its target: of proxies, or of listeners of a
// gateway.
func placeOf(spec any) (tags mesh.Tags, readable bool) {
	t, ok := spec.(Targeted)
	if !ok {
		return mesh.Tags{}, false
	}
	r := t.Target()
	if _, may := spec.(AtGateways); may && r != nil && r.Kind == Gateway {
		return with(r.Tags, mesh.ListenerOf, r.Name), true
	}
	return r.Selector()
}

// Places returns what model.Targeting says of the target of a policy.
func Places(spec AtGateways) []map[string]string {
	tags, _ := placeOf(spec)
	return []map[string]string{tags}
}

func with(tags mesh.Tags, key, value string) mesh.Tags {
	out := mesh.Tags{}
	maps.Copy(out, tags)
	out[key] = value
	return out
}

// Selected returns what model.Targeting says of a target.
func (r *Ref) Selected() []map[string]string {
	tags, _ := r.Selector()
	return []map[string]string{tags}
}

// Targeted is implemented by the specs of policies with a target.
type Targeted interface {
	// Target returns the target; nil if the spec has none.
	Target() *Ref
}

// AtGateways is implemented by the specs of policies of which a target may be listeners of gateways.
// For all others such a target is one that cannot be read.
type AtGateways interface {
	Targeted
	// AtGateways does nothing.
	AtGateways()
}

// Order orders policies with a target, the strongest first (policy.Policy.Order).
func Order(a, b *view.Policy) int { return cmp.Or(compare(targetOf(b), targetOf(a)), policy.Tie(a, b)) }

func targetOf(p *view.Policy) *Ref {
	if t, ok := p.Spec.(Targeted); ok {
		return t.Target()
	}
	return nil
}

// compare is positive if a is more specific than b. One that cannot be read is stronger than
// all others: what it forbids would otherwise be allowed by them.
func compare(a, b *Ref) int {
	a, b = cmp.Or(a, &Ref{}), cmp.Or(b, &Ref{})
	return cmp.Or(a.strength()-b.strength(), mesh.RankOf(a.Tags).Compare(mesh.RankOf(b.Tags)))
}

func (r *Ref) strength() int {
	if i := slices.Index(kinds, r.Kind); i >= 0 {
		return i
	}
	return len(kinds)
}

// Check validates a reference, which must be of one of some kinds.
func Check(v *policy.Violations, path string, r *Ref, permitted ...string) {
	switch {
	case r == nil:
		v.Add(path, "must be defined")
		return
	case !slices.Contains(permitted, r.Kind):
		v.Add(path+".kind", "value is not supported. Available values: %s", strings.Join(permitted, ", "))
		return
	case r.Kind == Mesh:
		if r.Name != "" || len(r.Tags) > 0 {
			v.Add(path, "must not have name or tags with kind Mesh")
		}
		return
	}
	named := r.Kind == Service || r.Kind == ServiceSubset || r.Kind == Gateway
	switch {
	case !named && r.Name != "":
		v.Add(path+".name", "must not be set with kind %s", r.Kind)
	case named && r.Name == "":
		v.Add(path+".name", "must be set with kind %s", r.Kind)
	case named:
		for _, wrong := range mesh.ValidateTags("", mesh.Tags{mesh.TagService: r.Name}) {
			v.Add(path+".name", "%s", wrong.Message)
		}
	}
	checkTags(v, path+".tags", r)
}

func checkTags(v *policy.Violations, path string, r *Ref) {
	switch {
	case r.Kind == Service && len(r.Tags) > 0:
		v.Add(path, "must not be set with kind %s", r.Kind)
		return
	case r.Kind == Service:
		return
	case len(r.Tags) == 0 && r.Kind != Gateway:
		v.Add(path, "must be set with kind %s", r.Kind)
	}
	if _, twice := r.Tags[mesh.TagService]; twice && r.Kind == ServiceSubset {
		v.Add(path, "must not have the tag %s with kind %s, which has a name", mesh.TagService, r.Kind)
	}
	*v = append(*v, mesh.ValidateTags(path, r.Tags)...)
}

// CheckItem validates the reference of an item of from or to. One without a reference has an
// unknown kind.
func CheckItem(v *policy.Violations, path string, r *Ref, permitted ...string) {
	Check(v, path, cmp.Or(r, &Ref{}), permitted...)
}

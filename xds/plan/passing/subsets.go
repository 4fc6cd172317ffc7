package passing

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
)

// Callers choose instances of a service by tags, and name these in the server name. A proxy does
// not know their routes, so it has a chain for every set of tags that any instance has. These are
// the limits: further sets, those with the most tags, are left out.
const (
	maxSubsets = 64
	maxKeys    = 6
)

// A proxy serves many meshes, and a mesh must not take the room of others. These are the limits
// of the chains of a mesh and of all; a chain and its cluster have about a kilobyte.
var chains = Room{OfMesh: 4096, OfAll: 16384}

// Room bounds what proxies have of a mesh, and of all meshes together.
type Room struct{ OfMesh, OfAll int }

// Shares returns how much one of several meshes may have, and how much each of its services, which is
// never nothing. They are powers of two, so that they seldom change with the numbers of meshes and
// services.
func (r Room) Shares(meshes, services int) (ofMesh, ofService int) {
	floor := func(n int) int { return 1 << (bits.Len(uint(max(n, 1))) - 1) }
	ofMesh = min(r.OfMesh, floor(r.OfAll/max(meshes, 1)))
	return ofMesh, floor(ofMesh / max(services, 1))
}

// Subsets returns the sets of tags by which callers may choose among some endpoints, the smallest
// first, and most of them. The first is the service alone. Of too many with equally many tags it
// takes those that select the most instances: tags that differ from instance to instance do not push
// out a version. left counts those that are left out; of more tags than these there may be others.
func Subsets(all []view.Endpoint, most int) (out []mesh.Tags, left int) {
	groups := grouped(all)
	for _, size := range sizes(groups) {
		sets := setsOf(groups, size)
		if left = len(sets) - (most - len(out)); left > 0 {
			sets = best(sets)[:len(sets)-left]
		}
		// Their order does not depend on the instances, so that these come and go without a change.
		slices.SortFunc(sets, func(a, b *set) int { return cmp.Compare(a.text, b.text) })
		for _, s := range sets {
			out = append(out, s.tags())
		}
		if left > 0 {
			return out, left
		}
	}
	return out, 0
}

// best sorts sets by how many instances they select, most first.
func best(sets []*set) []*set {
	slices.SortFunc(sets, func(a, b *set) int {
		return cmp.Or(cmp.Compare(b.instances, a.instances), cmp.Compare(a.text, b.text))
	})
	return sets
}

// group are instances with the same tags.
type group struct {
	tags mesh.Tags
	// keys are those besides the service, in order.
	keys      []string
	instances int
}

func grouped(all []view.Endpoint) (out []*group) {
	known := map[string]*group{}
	for i := range all {
		e := &all[i]
		text := e.Tags.String()
		g := known[text]
		if g == nil {
			keys := slices.DeleteFunc(slices.Sorted(maps.Keys(e.Tags)), func(k string) bool { return k == mesh.TagService })
			g = &group{tags: e.Tags, keys: keys}
			known[text], out = g, append(out, g)
		}
		g.instances += int(max(e.Instances, 1))
	}
	return out
}

// sizes returns how many tags sets may have besides the service, in order.
func sizes(groups []*group) []int {
	known := map[int]bool{}
	for _, g := range groups {
		for size := range min(len(g.keys), maxKeys) + 1 {
			known[size] = true
		}
		known[len(g.keys)] = true
	}
	return slices.Sorted(maps.Keys(known))
}

// set is a set of tags: some of those of a group.
type set struct {
	of        *group
	keys      []string
	text      string
	instances int
}

func (s *set) tags() mesh.Tags {
	out := mesh.Tags{mesh.TagService: s.of.tags.Service()}
	for _, k := range s.keys {
		out[k] = s.of.tags[k]
	}
	return out
}

// setsOf returns all sets of so many tags. Of instances with very many tags it takes
// each tag alone, and all together.
func setsOf(groups []*group, size int) (out []*set) {
	known := map[string]*set{}
	var text []byte
	for _, g := range groups {
		g.choose(size, func(keys []string) {
			text = text[:0]
			for _, k := range keys {
				text = append(append(append(append(text, k...), '='), g.tags[k]...), ',')
			}
			s := known[string(text)]
			if s == nil {
				s = &set{of: g, keys: slices.Clone(keys), text: string(text)}
				known[s.text], out = s, append(out, s)
			}
			s.instances += g.instances
		})
	}
	return out
}

// choose calls found with each choice of so many keys, which is valid during the call.
func (g *group) choose(size int, found func(keys []string)) {
	switch n := len(g.keys); {
	case size == 0 || size == n:
		found(g.keys[:size])
	case size == 1:
		for i := range g.keys {
			found(g.keys[i : i+1])
		}
	case n <= maxKeys:
		var keys [maxKeys]string
		for chosen := range uint(1) << n {
			if bits.OnesCount(chosen) != size {
				continue
			}
			of := keys[:0]
			for i, k := range g.keys {
				if chosen&(1<<i) != 0 {
					of = append(of, k)
				}
			}
			found(of)
		}
	}
}

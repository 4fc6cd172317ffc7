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
const (
	maxOfMesh = 4096
	maxOfAll  = 16384
)

// shares returns how many services of a mesh have chains, and how many sets of tags each may have.
// They are powers of two, so that they seldom change with the numbers of meshes and services.
func shares(meshes, services int) (ofMesh, ofService int) {
	floor := func(n int) int { return 1 << (bits.Len(uint(max(n, 1))) - 1) }
	ofMesh = min(maxOfMesh, floor(maxOfAll/max(meshes, 1)))
	return ofMesh, min(maxSubsets, floor(ofMesh/max(services, 1)))
}

// Subsets returns the sets of tags by which callers may choose among some endpoints, the smallest
// first, and most of them. The first is the service alone. left counts those that are too many.
func Subsets(all []view.Endpoint, most int) (out []mesh.Tags, left int) {
	seen, whole := map[string]bool{}, map[string]bool{}
	for i := range all {
		tags := all[i].Tags
		if text := tags.String(); whole[text] {
			continue
		} else {
			whole[text] = true
		}
		for _, s := range subsetsOf(tags) {
			if text := s.String(); !seen[text] {
				seen[text] = true
				out = append(out, s)
			}
		}
	}
	slices.SortFunc(out, func(a, b mesh.Tags) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a.String(), b.String()))
	})
	if len(out) > most {
		out, left = out[:most], len(out)-most
	}
	return out, left
}

// subsetsOf returns all sets of the tags of one endpoint that contain its service. Of very many
// tags it takes each alone, and all together.
func subsetsOf(tags mesh.Tags) (out []mesh.Tags) {
	keys := slices.Sorted(maps.Keys(tags))
	keys = slices.DeleteFunc(keys, func(k string) bool { return k == mesh.TagService })
	pick := func(chosen func(i int) bool) {
		s := mesh.Tags{mesh.TagService: tags.Service()}
		for i, k := range keys {
			if chosen(i) {
				s[k] = tags[k]
			}
		}
		out = append(out, s)
	}
	if len(keys) > maxKeys {
		pick(func(int) bool { return false })
		for only := range keys {
			pick(func(i int) bool { return i == only })
		}
		pick(func(int) bool { return true })
		return out
	}
	for set := range 1 << len(keys) {
		pick(func(i int) bool { return set&(1<<i) != 0 })
	}
	return out
}

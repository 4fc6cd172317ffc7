package meshapi

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// tag is one tag of a selector.
type tag struct{ key, value string }

// selectorIndex holds selectors, so that few of very many are compared with a tag set.
type selectorIndex struct {
	// by holds each selector under that of its tags which the fewest others have.
	by map[tag][]mesh.Tags
	// all says that one of them matches everything.
	all bool
}

func indexed(selectors []map[string]string) *selectorIndex {
	x := &selectorIndex{by: map[tag][]mesh.Tags{}}
	users, different := map[tag]int{}, map[string]mesh.Tags{}
	for _, s := range selectors {
		different[mesh.Tags(s).String()] = s
	}
	for _, s := range different {
		x.all = x.all || len(s) == 0
		for k, v := range s {
			users[tag{k, v}]++
		}
	}
	for _, s := range different {
		var rarest tag
		for k, v := range s {
			if t := (tag{k, v}); users[rarest] == 0 || users[t] < users[rarest] {
				rarest = t
			}
		}
		x.by[rarest] = append(x.by[rarest], s)
	}
	return x
}

// match reports whether one of the selectors matches a tag set.
func (x *selectorIndex) match(tags mesh.Tags) bool {
	if x.all {
		return true
	}
	matches := func(s mesh.Tags) bool { return mesh.Matches(s, tags) }
	for k, v := range tags {
		if slices.ContainsFunc(x.by[tag{k, v}], matches) || slices.ContainsFunc(x.by[tag{k, mesh.AnyValue}], matches) {
			return true
		}
	}
	return false
}

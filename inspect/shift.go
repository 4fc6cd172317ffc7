package inspect

import (
	"math"
	"slices"

	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/xds/resource"
)

// What becomes of a resource.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// Shift is what becomes of one resource of a node.
type Shift struct {
	Type resource.TypeURL
	Name string
	// Before and After are versions, empty for no resource.
	Before, After string
	before, after entry
}

// Shifts finds what differs between sets of many nodes. It remembers pairs of tables that it has
// compared, because nodes share them. One goroutine uses it; the zero value is ready to use.
type Shifts struct {
	names map[[2]*resource.Table][]string
}

// Between returns what becomes of the resources of a set, ordered by type, as types are sent, and
// by name. Before and after were planned; held, which may be nil, is what the node really has.
// It counts where nothing could be planned before.
func (s *Shifts) Between(before, after, held *resource.Set) (out []Shift) {
	for _, t := range resource.Types {
		for _, name := range s.differ(t, before, after) {
			x := Shift{Type: t, Name: name, before: entryOf(before, t, name), after: entryOf(after, t, name)}
			if x.before.version == "" {
				x.before = entryOf(held, t, name)
			}
			if x.Before, x.After = x.before.version, x.after.version; x.Before != x.After {
				out = append(out, x)
			}
		}
	}
	return out
}

// differ lists in order the names under which two sets differ.
func (s *Shifts) differ(t resource.TypeURL, before, after *resource.Set) []string {
	pair := [2]*resource.Table{before.Table(t), after.Table(t)}
	names, known := s.names[pair]
	if !known {
		names = pair[1].Differences(pair[0], math.MaxInt)
		slices.Sort(names)
		if s.names == nil {
			s.names = map[[2]*resource.Table][]string{}
		}
		s.names[pair] = names
	}
	if t != resource.Secret {
		return names
	}
	all := slices.Concat(names, before.Secrets(), after.Secrets())
	slices.Sort(all)
	return slices.Compact(all)
}

// entryOf returns a resource of a set, or the zero value.
func entryOf(s *resource.Set, t resource.TypeURL, name string) entry {
	if r := s.Get(t, name); r != nil {
		e := entry{typ: t, name: name, version: r.Version, body: r}
		if t == resource.Secret {
			e.body = nil
		}
		return e
	}
	if t != resource.Secret || !s.AllowsSecret(name) {
		return entry{}
	}
	return secretOf(s, name)
}

// What says what becomes of the resource.
func (x *Shift) What() string {
	switch {
	case x.Before == "":
		return Added
	case x.After == "":
		return Removed
	}
	return Changed
}

// Size is the number of bytes that a difference is made of.
func (x *Shift) Size() (n int) {
	for _, e := range []entry{x.before, x.after} {
		if e.body != nil {
			n += len(e.body.Body)
		}
	}
	return n
}

// Diff returns the JSON patch that makes the resource into what it becomes, without what is
// concealed. An empty path stands for the whole resource.
func (x *Shift) Diff() ([]nodes.Edit, error) { return differenceOf("", x.before, x.after) }

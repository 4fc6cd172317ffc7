package storetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	difference "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/e2e/few"
)

func compareKeys(a, b model.Key) int {
	return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// things are all of several scopes, by key: each goes with its parent, of whichever scope
// that is.
type things map[model.Key]Item

// parent is what a thing refers to, if it refers to anything.
func (o things) parent(of model.Key) (model.Key, bool) {
	it := o[of]
	return thing(cmp.Or(it.In, of.Scope), it.Parent), it.Parent != ""
}

// remove deletes a thing and returns what went, in order of keys.
func (o things) remove(key model.Key) (gone []model.Key) {
	for left := []model.Key{key}; len(left) > 0; left = left[1:] {
		if _, there := o[left[0]]; !there {
			continue
		}
		gone = append(gone, left[0])
		for child := range o {
			if to, ok := o.parent(child); ok && to == left[0] {
				left = append(left, child)
			}
		}
		delete(o, left[0])
	}
	slices.SortFunc(gone, compareKeys)
	return gone
}

// put creates or replaces.
func (o things) put(key model.Key, it Item) fault.Code {
	before, there := o[key]
	o[key] = it
	if to, ok := o.parent(key); ok {
		if _, found := o[to]; !found || (to == key && !there) {
			if delete(o, key); there {
				o[key] = before
			}
			return fault.Dangling
		}
	}
	return ""
}

// testElsewhereOracle runs random writes on things of three scopes with few names, which
// refer to one another in circles, too, and compares what every deletion takes.
func testElsewhereOracle(t *testing.T, open Open) {
	few.Runs(t, sequences)
	s, reopen := open(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		scopes := []string{fmt.Sprint("x", n), fmt.Sprint("y", n), fmt.Sprint("z", n)}
		o := things{}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				key := thing(rapid.SampledFrom(scopes).Draw(rt, "scope"), rapid.SampledFrom(fewNames).Draw(rt, "name"))
				it := Item{Parent: rapid.SampledFrom(append([]string{""}, fewNames...)).Draw(rt, "parent"), In: rapid.SampledFrom(append([]string{""}, scopes...)).Draw(rt, "in")}
				putBoth(rt, t, s, o, key, it)
			},
			"remove": func(rt *rapid.T) {
				if len(o) == 0 {
					rt.Skip("nothing is there")
				}
				key := rapid.SampledFrom(slices.SortedFunc(maps.Keys(o), compareKeys)).Draw(rt, "key")
				if diff := difference.Diff(o.remove(key), removeAt(t, s, key.Scope, Thing, key.Name)); diff != "" {
					rt.Fatalf("with %v (-want +got):\n%s", key, diff)
				}
			},
			"reopen": func(rt *rapid.T) {
				if reopen == nil || rapid.IntRange(0, 49).Draw(rt, "reopen") != 0 {
					rt.Skip("seldom")
				}
				s = reopen()
			},
			"": func(rt *rapid.T) { compareThings(rt, t, s, o, scopes) },
		})
	})
}

var fewNames = []string{"a", "b", "c"}

// putBoth writes to the store and to the map.
func putBoth(rt *rapid.T, t *testing.T, s store.Store, o things, key model.Key, it Item) {
	_, there := o[key]
	want := o.put(key, it)
	_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) (err error) {
		if there {
			_, err = tx.Update(at(key.Scope, Thing, key.Name, it), 0)
		} else {
			_, err = tx.Create(at(key.Scope, Thing, key.Name, it))
		}
		return err
	})
	if got := fault.CodeOf(err); got != want {
		rt.Fatalf("%v %+v: got %q (%v), want %q", key, it, got, err, want)
	}
}

// compareThings reads all things, and all by their parents, of each scope and from each.
func compareThings(rt *rapid.T, t *testing.T, s store.Store, o things, scopes []string) {
	got, byParent := things{}, map[model.Key]model.Key{}
	if err := s.View(t.Context(), func(r store.Reader) error {
		for _, scope := range scopes {
			list, err := r.List(Thing, store.Query{Scope: scope})
			if err != nil {
				return err
			}
			for _, x := range list {
				got[x.Key()] = *x.Spec.(*Item)
			}
			for _, of := range scopes {
				for _, name := range fewNames {
					list, err := r.List(Thing, store.Query{Scope: scope, Index: "parent", Value: name, Of: of})
					if err != nil {
						return err
					}
					for _, x := range list {
						byParent[x.Key()] = thing(of, name)
					}
				}
			}
		}
		return nil
	}); err != nil {
		rt.Fatal(err)
	}
	parents := map[model.Key]model.Key{}
	for key := range o {
		if to, ok := o.parent(key); ok {
			parents[key] = to
		}
	}
	if diff := difference.Diff(o, got); diff != "" {
		rt.Fatalf("things (-want +got):\n%s", diff)
	}
	if diff := difference.Diff(parents, byParent); diff != "" {
		rt.Fatalf("by parents (-want +got):\n%s", diff)
	}
}

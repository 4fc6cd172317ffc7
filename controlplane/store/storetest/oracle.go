package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/e2e/few"
)

// oracle is the trivial store: maps and loops.
type oracle struct {
	scope         string
	boxes, things map[string]oracleRow
}

type oracleRow struct {
	Version uint64
	Item    Item
}

func (o oracle) clone() oracle {
	return oracle{scope: o.scope, boxes: maps.Clone(o.boxes), things: maps.Clone(o.things)}
}

// resource is as the suite's, in the scope of the sequence.
func (o oracle) resource(k *model.Kind, name string, it Item) *model.Resource {
	r := res(k, name, it)
	r.Scope = o.scope
	return r
}

func (o oracle) table(k *model.Kind) map[string]oracleRow {
	if k == Box {
		return o.boxes
	}
	return o.things
}

// write creates or, with update, replaces.
func (o oracle) write(k *model.Kind, name string, it Item, update bool, version uint64) fault.Code {
	table := o.table(k)
	old, ok := table[name]
	switch {
	case !update && ok:
		return fault.Exists
	case update && !ok:
		return fault.NotFound
	case update && version != 0 && version != old.Version:
		return fault.Conflict
	}
	if k == Box {
		for other, b := range o.boxes {
			if other != name && it.Label != "" && b.Item.Label == it.Label {
				return fault.Unique
			}
		}
	} else {
		_, box := o.boxes[it.Box]
		_, parent := o.things[it.Parent]
		if (it.Box != "" && !box) || (it.Parent != "" && !parent) {
			return fault.Dangling
		}
	}
	table[name] = oracleRow{Version: old.Version + 1, Item: it}
	return ""
}

func (o oracle) remove(k *model.Kind, name string, version uint64) fault.Code {
	table := o.table(k)
	old, ok := table[name]
	switch {
	case !ok:
		return fault.NotFound
	case version != 0 && version != old.Version:
		return fault.Conflict
	}
	if k == Box {
		for _, t := range o.things {
			if t.Item.Box == name {
				return fault.Referenced
			}
		}
	}
	delete(table, name)
	if k == Thing {
		for child, t := range maps.Clone(o.things) {
			if t.Item.Parent == name {
				o.remove(Thing, child, 0)
			}
		}
	}
	return ""
}

var errUndo = errors.New("undo")

// sequences is how many random sequences run: enough to meet every pair of operations on the
// few names there are.
const sequences = 20

// testOracle runs random transactions on the store and on maps, each sequence
// in an empty scope; one that fails is shrunk and printed whole.
func testOracle(t *testing.T, open Open) {
	few.Runs(t, sequences)
	s, reopen := open(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		o := oracle{scope: fmt.Sprint(n), boxes: make(map[string]oracleRow), things: make(map[string]oracleRow)}
		rt.Repeat(map[string]func(*rapid.T){
			"transaction": func(rt *rapid.T) {
				o = step(rt, t, s, o)
				compare(rt, t, s, o)
			},
			"reopen": func(rt *rapid.T) {
				if reopen == nil || rapid.IntRange(0, 49).Draw(rt, "reopen") != 0 {
					rt.Skip("seldom")
				}
				s = reopen()
				compare(rt, t, s, o)
			},
		})
	})
}

// step runs one transaction on both and returns the new oracle.
func step(rt *rapid.T, t *testing.T, s store.Store, o oracle) oracle {
	name := rapid.SampledFrom([]string{"a", "b", "c", "d"})
	ref := rapid.SampledFrom([]string{"", "", "a", "b", "c", "d"})
	next := o.clone()
	undo := rapid.IntRange(0, 4).Draw(rt, "undo") == 0
	n := rapid.IntRange(1, 5).Draw(rt, "writes")
	type write struct {
		kind    *model.Kind
		name    string
		item    Item
		version uint64
		op      int
	}
	writes := make([]write, n)
	for i := range writes {
		w := write{name: name.Draw(rt, "name"), op: rapid.IntRange(0, 2).Draw(rt, "op"), version: uint64(rapid.IntRange(0, 3).Draw(rt, "version"))}
		if w.kind = Box; rapid.Bool().Draw(rt, "thing") {
			w.kind = Thing
			w.item = Item{Box: ref.Draw(rt, "box"), Parent: ref.Draw(rt, "parent")}
			if w.item.Parent == w.name {
				w.item.Parent = ""
			}
		} else {
			w.item = Item{Label: ref.Draw(rt, "label"), Tags: []string{name.Draw(rt, "tag")}}
		}
		writes[i] = w
	}
	_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, w := range writes {
			var err error
			var want fault.Code
			switch w.op {
			case 0:
				_, err = tx.Create(o.resource(w.kind, w.name, w.item))
				want = next.write(w.kind, w.name, w.item, false, 0)
			case 1:
				_, err = tx.Update(o.resource(w.kind, w.name, w.item), w.version)
				want = next.write(w.kind, w.name, w.item, true, w.version)
			default:
				err = tx.Delete(w.kind, o.scope, w.name, w.version)
				want = next.remove(w.kind, w.name, w.version)
			}
			if got := fault.CodeOf(err); got != want {
				rt.Fatalf("%+v: got %q (%v), want %q", w, got, err, want)
			}
		}
		if undo {
			return errUndo
		}
		return nil
	})
	if undo {
		return o
	}
	if err != nil {
		rt.Fatalf("Update: %v", err)
	}
	return next
}

// compare reads the store in every way and demands what the oracle holds.
func compare(rt *rapid.T, t *testing.T, s store.Store, o oracle) {
	err := s.View(t.Context(), func(r store.Reader) error {
		for _, k := range []*model.Kind{Box, Thing} {
			list, err := r.List(k, store.Query{Scope: o.scope})
			if err != nil {
				return err
			}
			got := make(map[string]oracleRow)
			for _, x := range list {
				got[x.Name] = oracleRow{Version: x.Version, Item: *x.Spec.(*Item)}
			}
			if diff := cmp.Diff(o.table(k), got); diff != "" {
				rt.Fatalf("%s (-want +got):\n%s", k.Name, diff)
			}
		}
		for _, v := range []string{"a", "b", "c", "d"} {
			compareIndexes(rt, r, o, v)
		}
		return nil
	})
	if err != nil {
		rt.Fatalf("View: %v", err)
	}
}

func compareIndexes(rt *rapid.T, r store.Reader, o oracle, v string) {
	var tagged, inBox []string
	holder := ""
	for _, name := range slices.Sorted(maps.Keys(o.boxes)) {
		if slices.Contains(o.boxes[name].Item.Tags, v) {
			tagged = append(tagged, name)
		}
		if o.boxes[name].Item.Label == v {
			holder = name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(o.things)) {
		if o.things[name].Item.Box == v {
			inBox = append(inBox, name)
		}
	}
	for _, c := range []struct {
		kind  *model.Kind
		index string
		want  []string
	}{{Box, "tags", tagged}, {Thing, "box", inBox}} {
		list, err := r.List(c.kind, store.Query{Scope: o.scope, Index: c.index, Value: v})
		if !slices.Equal(names(list), c.want) || err != nil {
			rt.Fatalf("%s by %s %s: %v, %v, want %v", c.kind.Name, c.index, v, names(list), err, c.want)
		}
	}
	found, err := r.Find(Box, o.scope, "label", v)
	if (holder == "") != fault.Is(err, fault.NotFound) || (err == nil && found.Name != holder) {
		rt.Fatalf("label %s: %+v, %v, want %q", v, found, err, holder)
	}
}

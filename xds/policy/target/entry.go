package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
)

// Item is an item of from or to: what holds for those to whom it refers.
type Item[C any] struct {
	TargetRef *Ref `json:"targetRef,omitempty"`
	Default   *C   `json:"default,omitempty"`
}

// Selected returns what model.Selecting says of items. It is not nil, because nil means that
// policies of the kind have no items.
func Selected[C any](items []Item[C]) []map[string]string {
	out := make([]map[string]string, 0, len(items))
	for _, item := range items {
		tags, _ := item.TargetRef.Selector()
		out = append(out, tags)
	}
	return out
}

// Entry is an item of one of the policies that count at a place.
type Entry[C any] struct {
	// Selector are the tags of those for whom it is.
	Selector mesh.Tags
	// Conf is nil if the item says nothing, or cannot be read.
	Conf *C
	// Origin is the name of the policy.
	Origin string
}

// Entries lists the items of chosen policies, which are ordered the strongest first, from the
// weakest to the strongest. items returns those of a spec. An item whose reference cannot be
// read is for everybody and says nothing, and so is every item of a policy whose target cannot
// be read: nobody knows whom it was meant to let pass.
func Entries[C any](chosen []*view.Policy, items func(spec any) []Item[C]) (out []Entry[C]) {
	for _, p := range slices.Backward(chosen) {
		_, whole := placeOf(p.Spec)
		for _, item := range items(p.Spec) {
			e := Entry[C]{Selector: mesh.Tags{}, Origin: p.Name}
			if tags, readable := item.TargetRef.Selector(); readable && whole {
				e.Selector, e.Conf = tags, item.Default
			}
			out = append(out, e)
		}
	}
	return out
}

// Merge makes one conf from several, the weakest first. It returns nil if there is none, and
// changes none.
type Merge[C any] func(confs []*C) *C

// Last takes the strongest conf as it is.
func Last[C any](confs []*C) *C {
	if len(confs) == 0 {
		return nil
	}
	return confs[len(confs)-1]
}

// Fields merges objects field by field, at any depth: what a stronger conf says replaces what a
// weaker one says. Lists are replaced as a whole. A field that is left out of the JSON form of a
// conf says nothing. The JSON form of a conf is an object.
func Fields[C any](confs []*C) *C {
	if len(confs) < 2 {
		return Last(confs)
	}
	merged := map[string]any{}
	for _, c := range confs {
		overlay(merged, fieldsOf(c))
	}
	out := new(C)
	text, err := json.Marshal(merged)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil { // what was read from JSON can be written, and read again
		panic(fmt.Errorf("merge %T: %w", out, err))
	}
	return out
}

func fieldsOf(c any) (out map[string]any) {
	text, err := json.Marshal(c)
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(text))
		d.UseNumber()
		err = d.Decode(&out)
	}
	if err != nil {
		panic(fmt.Errorf("merge %T: %w", c, err))
	}
	return out
}

func overlay(into, over map[string]any) {
	for key, value := range over {
		below, isMap := into[key].(map[string]any)
		above, areMaps := value.(map[string]any)
		if isMap && areMaps {
			overlay(below, above)
		} else {
			into[key] = value
		}
	}
}

// For returns what entries say of somebody with some tags, and the names of their policies,
// the strongest first. The conf is nil if no entry that matches says anything.
func For[C any](entries []Entry[C], tags mesh.Tags, merge Merge[C]) (conf *C, origins []string) {
	var hits []Entry[C]
	for _, e := range entries {
		if mesh.Matches(e.Selector, tags) {
			hits = append(hits, e)
		}
	}
	return merged(hits, merge)
}

func merged[C any](hits []Entry[C], merge Merge[C]) (conf *C, origins []string) {
	var confs []*C
	for _, e := range hits {
		if e.Conf != nil {
			confs = append(confs, e.Conf)
		}
	}
	for _, e := range slices.Backward(hits) {
		if !slices.Contains(origins, e.Origin) {
			origins = append(origins, e.Origin)
		}
	}
	return merge(confs), origins
}

// Deciding returns the entries that decide for somebody, the strongest first: those that are
// not weaker than another one that matches everybody whom they match.
func Deciding[C any](entries []Entry[C]) (out []Entry[C]) {
	known := map[string]bool{}
	for _, e := range slices.Backward(entries) {
		var covered bool
		if keys := slices.Sorted(maps.Keys(e.Selector)); 1<<min(len(keys), 30) < len(out) {
			covered = wider(known, e.Selector, keys, mesh.Tags{})
		} else {
			covered = slices.ContainsFunc(out, func(stronger Entry[C]) bool { return mesh.Matches(stronger.Selector, e.Selector) })
		}
		if !covered {
			known[e.Selector.String()] = true
			out = append(out, e)
		}
	}
	return out
}

// wider reports whether a selector is known that has some of the tags and no others. There may
// be very many entries, and they have few tags. chosen are those of the tags that are decided
// on, keys those that are not.
func wider(known map[string]bool, tags mesh.Tags, keys []string, chosen mesh.Tags) bool {
	if len(keys) == 0 {
		return known[chosen.String()]
	}
	key, rest := keys[0], keys[1:]
	if wider(known, tags, rest, chosen) {
		return true
	}
	chosen[key] = tags[key]
	found := wider(known, tags, rest, chosen)
	delete(chosen, key)
	return found
}

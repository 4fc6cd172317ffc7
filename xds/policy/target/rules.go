package target

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/policy"
)

// maxRules is the maximum number of subsets that are told apart.
const maxRules = 1000

// Part is a subset of those who have one value of each tag at most: they have the tags With,
// and none of the values that Without lists for a tag.
type Part struct {
	With    mesh.Tags
	Without map[string][]string
}

// Matches reports whether somebody with some tags is in it.
func (p Part) Matches(tags mesh.Tags) bool {
	for key, values := range p.Without {
		if value, there := tags[key]; there && slices.Contains(values, value) {
			return false
		}
	}
	return mesh.Matches(p.With, tags)
}

// Texts returns it in the form of the mesh API.
func (p Part) Texts() map[string]string {
	out := make(map[string]string, len(p.With)+len(p.Without))
	maps.Copy(out, p.With)
	for key, values := range p.Without {
		out[key] = "!" + strings.Join(values, ",!")
	}
	return out
}

// Ruling is what holds for a part.
type Ruling[C any] struct {
	Part
	Conf *C
	// Origins are the names of the policies, the strongest first.
	Origins []string
}

// Rules divides everybody for whom entries say something into disjoint parts, and tells what
// holds for each. Parts with more tags come first. If there would be very many of them, it
// returns false.
func Rules[C any](entries []Entry[C], merge Merge[C]) ([]Ruling[C], bool) {
	d := division[C]{entries: entries, merge: merge}
	open := make([]int, len(entries))
	for i := range entries {
		open[i] = i
	}
	if !d.divide(Part{}, open, nil) {
		return nil, false
	}
	text := func(r Ruling[C]) string { return mesh.Tags(r.Texts()).String() }
	slices.SortFunc(d.rules, func(a, b Ruling[C]) int {
		return cmp.Or(len(b.With)-len(a.With), strings.Compare(text(a), text(b)))
	})
	return d.rules, true
}

// division is a walk through a tree: at each node everybody is divided by the value of one tag.
type division[C any] struct {
	entries []Entry[C]
	merge   Merge[C]
	rules   []Ruling[C]
	leaves  int
}

// divide adds the rules for a part. hits are the entries that match all of it, open those that
// match some of it, by their index. It returns false if there are too many parts.
func (d *division[C]) divide(p Part, open, hits []int) bool {
	var undecided []int
	for _, i := range open {
		if mesh.Matches(d.entries[i].Selector, p.With) {
			hits = append(hits[:len(hits):len(hits)], i)
		} else {
			undecided = append(undecided, i)
		}
	}
	if len(undecided) == 0 {
		d.rule(p, hits)
		d.leaves++
		return d.leaves <= maxRules
	}
	key, values := d.next(p, undecided)
	for _, value := range values {
		with := maps.Clone(p.With)
		if with == nil {
			with = mesh.Tags{}
		}
		with[key] = value
		if !d.divide(Part{with, p.Without}, d.having(undecided, key, value), hits) {
			return false
		}
	}
	without := maps.Clone(p.Without)
	if without == nil {
		without = map[string][]string{}
	}
	without[key] = values
	return d.divide(Part{p.With, without}, d.having(undecided, key, ""), hits)
}

// rule adds what holds for a part, if anything does.
func (d *division[C]) rule(p Part, hits []int) {
	slices.Sort(hits)
	var matching []Entry[C]
	for _, i := range hits {
		matching = append(matching, d.entries[i])
	}
	if conf, origins := merged(matching, d.merge); conf != nil {
		d.rules = append(d.rules, Ruling[C]{p, conf, origins})
	}
}

// next returns the tag by which to divide: the one that most entries ask for, which makes the
// fewest parts. It also returns the values for which they ask.
func (d *division[C]) next(p Part, open []int) (key string, values []string) {
	counts := map[string]int{}
	for _, i := range open {
		for k := range d.entries[i].Selector {
			if _, told := p.With[k]; !told {
				counts[k]++
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if key == "" || counts[k] > counts[key] {
			key = k
		}
	}
	for _, i := range open {
		if value, asked := d.entries[i].Selector[key]; asked {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return key, slices.Compact(values)
}

// having returns the entries that do not ask for another value of a tag.
func (d *division[C]) having(open []int, key, value string) (out []int) {
	for _, i := range open {
		if asked, named := d.entries[i].Selector[key]; !named || asked == value {
			out = append(out, i)
		}
	}
	return out
}

// CallerRules shows what entries come to for callers. If there are too many subsets, it shows
// the entries themselves, the strongest first.
func CallerRules[C any](entries []Entry[C], merge Merge[C]) (out []policy.Rule) {
	rules, ok := Rules(entries, merge)
	if !ok {
		for _, e := range Deciding(entries) {
			rules = append(rules, Ruling[C]{Part{With: e.Selector}, e.Conf, []string{e.Origin}})
		}
	}
	for _, r := range rules {
		out = append(out, policy.Rule{Subset: r.Texts(), Conf: r.Conf, Origins: r.Origins})
	}
	return out
}

// RuleFor shows what entries come to for somebody with some tags, if they say anything. These
// may be the tags of a called service, or none for a proxy itself.
func RuleFor[C any](entries []Entry[C], tags mesh.Tags, merge Merge[C]) []policy.Rule {
	conf, origins := For(entries, tags, merge)
	if conf == nil {
		return nil
	}
	return []policy.Rule{{Subset: map[string]string{}, Conf: conf, Origins: origins}}
}

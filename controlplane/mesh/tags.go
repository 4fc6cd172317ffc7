package mesh

import (
	"maps"
	"slices"
	"strings"
)

// Tags are a tag set. They never change once they are part of a spec.
type Tags map[string]string

// Service returns the value of the service tag.
func (t Tags) Service() string { return t[TagService] }

// Protocol returns the value of the protocol tag; tcp if there is none.
func (t Tags) Protocol() string {
	if p := t[TagProtocol]; p != "" {
		return p
	}
	return ProtocolTCP
}

// String returns the canonical form: sorted key=value pairs joined by commas. Equal tag sets
// have equal strings, so a string can be part of a key.
func (t Tags) String() string {
	var b strings.Builder
	for i, k := range slices.Sorted(maps.Keys(t)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(k)
		b.WriteByte('=')
		b.WriteString(t[k])
	}
	return b.String()
}

// Matches reports whether a selector matches a tag set. For every key of the selector, the
// set must have an equal value; the selector's value * matches any. An empty selector matches
// everything (mesh policy selection).
func Matches(selector, tags Tags) bool {
	for k, want := range selector {
		have, ok := tags[k]
		if !ok || (want != AnyValue && want != have) {
			return false
		}
	}
	return true
}

// Rank orders selectors that match the same tag set. The one with more tags wins; if they
// have equally many, the one with more exact values wins.
type Rank struct{ Tags, Exact int }

// RankOf returns the rank of a selector.
func RankOf(selector Tags) Rank {
	r := Rank{Tags: len(selector)}
	for _, v := range selector {
		if v != AnyValue {
			r.Exact++
		}
	}
	return r
}

// Add adds the ranks of source and destination.
func (r Rank) Add(o Rank) Rank { return Rank{r.Tags + o.Tags, r.Exact + o.Exact} }

// Compare is positive if r is the better rank.
func (r Rank) Compare(o Rank) int {
	if r.Tags != o.Tags {
		return r.Tags - o.Tags
	}
	return r.Exact - o.Exact
}

// Selector selects tag sets.
type Selector struct {
	Match Tags `json:"match,omitempty"`
}

// Connection is embedded by the specs of policies on connections.
type Connection struct {
	Sources      []Selector `json:"sources,omitempty"`
	Destinations []Selector `json:"destinations,omitempty"`
}

// SelectedSources implements model.Selecting.
func (c *Connection) SelectedSources() []map[string]string { return Matched(c.Sources) }

// SelectedDestinations implements model.Selecting.
func (c *Connection) SelectedDestinations() []map[string]string { return Matched(c.Destinations) }

// Matched returns the tags that selectors match, in the form of model.Selecting.
func Matched(ss []Selector) []map[string]string {
	out := make([]map[string]string, len(ss))
	for i, s := range ss {
		out[i] = s.Match
	}
	return out
}

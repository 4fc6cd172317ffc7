package edge

import (
	"slices"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	xdsmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// Matching uses a list of tiers, tried in order; the first entry that leads to an action wins.
// The ways of a tier without regular expressions are looked up by path. A prefix map tries the
// longest prefix first and, if the conditions of its ways fail, the next shorter one; this is
// their order of priority. If the whole map fails, the list continues with the next tier. Both
// rely on how Envoy's matchers continue after a subtree without a match; the random tests
// verify this with Envoy.

// onMatch is what a matcher leads to: an action or another matcher.
type onMatch = *xdsmatcherv3.Matcher_OnMatch

// branch is an action or matcher under a condition.
type branch struct {
	when predicate
	then onMatch
}

// lookup builds the matcher of a virtual host: first the branches that come first in every
// virtual host, then the ways, then the end.
func lookup(ways []placed, first []branch, end onMatch) *xdsmatcherv3.Matcher {
	list := slices.Clone(first)
	for at := 0; at < len(ways); {
		last := at
		for last < len(ways) && ways[last].tier == ways[at].tier {
			last++
		}
		tier, final := tierOf(ways[at:last])
		list = append(list, tier...)
		if final {
			break
		}
		at = last
	}
	return matcher(list, end)
}

// tierOf lists the branches of one tier. final says that the last branch takes every request.
func tierOf(ways []placed) (list []branch, final bool) {
	if ways[0].tier.Regex {
		for _, w := range ways {
			list = append(list, branch{w.when(), w.then})
		}
		return list, false
	}
	nodes := map[string][]branch{}
	var rest []branch
	for _, w := range ways {
		b := branch{w.when(), w.then}
		if w.Path == "" {
			rest = append(rest, b)
			continue
		}
		nodes[w.Path] = append(nodes[w.Path], b)
	}
	if len(nodes) > 0 {
		list = append(list, branch{anyPath(), prefixes(nodes)})
	}
	for _, b := range rest {
		if b.when == nil {
			return append(list, branch{anyPath(), b.then}), true
		}
		list = append(list, b)
	}
	return list, false
}

// when returns everything that a way demands except its prefix; nil means nothing.
func (p placed) when() predicate {
	if p.guard == nil {
		return allOf(p.conditions)
	}
	return allOf(append(p.conditions[:len(p.conditions):len(p.conditions)], p.guard))
}

// prefixes returns a prefix map on :path. Envoy includes the query there, which is harmless:
// no prefix contains a question mark, and the entries compare only the path.
func prefixes(nodes map[string][]branch) onMatch {
	tree := map[string]onMatch{}
	for path, list := range nodes {
		tree[path] = firstOf(list)
	}
	return &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Matcher{Matcher: &xdsmatcherv3.Matcher{
		MatcherType: &xdsmatcherv3.Matcher_MatcherTree_{MatcherTree: &xdsmatcherv3.Matcher_MatcherTree{
			Input: pathInput,
			TreeType: &xdsmatcherv3.Matcher_MatcherTree_PrefixMatchMap{
				PrefixMatchMap: &xdsmatcherv3.Matcher_MatcherTree_MatchMap{Map: tree},
			},
		}},
	}}}
}

// firstOf takes the first branch whose condition holds. Branches after one without a condition
// can never be reached and are omitted.
func firstOf(list []branch) onMatch {
	for i, b := range list {
		if b.when != nil {
			continue
		}
		if i == 0 {
			return b.then
		}
		return nested(matcher(list[:i], b.then))
	}
	return nested(matcher(list, nil))
}

func nested(m *xdsmatcherv3.Matcher) onMatch {
	return &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Matcher{Matcher: m}}
}

// matcher tries branches, all with conditions, in order.
func matcher(list []branch, end onMatch) *xdsmatcherv3.Matcher {
	m := &xdsmatcherv3.Matcher{OnNoMatch: end}
	if len(list) == 0 {
		return m
	}
	entries := make([]*xdsmatcherv3.Matcher_MatcherList_FieldMatcher, len(list))
	for i, b := range list {
		entries[i] = &xdsmatcherv3.Matcher_MatcherList_FieldMatcher{Predicate: b.when, OnMatch: b.then}
	}
	m.MatcherType = &xdsmatcherv3.Matcher_MatcherList_{MatcherList: &xdsmatcherv3.Matcher_MatcherList{Matchers: entries}}
	return m
}

// action leads to a marshalled envoy.config.route.v3 message.
func action(message string, body []byte) onMatch {
	return &xdsmatcherv3.Matcher_OnMatch{OnMatch: &xdsmatcherv3.Matcher_OnMatch_Action{
		Action: &xdscorev3.TypedExtensionConfig{Name: message, TypedConfig: &anypb.Any{
			TypeUrl: "type.googleapis.com/envoy.config.route.v3." + message, Value: body,
		}},
	}}
}

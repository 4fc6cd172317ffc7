package chain

import (
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/meshgate/meshgate/filter/contract"
)

// EarlyRemovals returns the changes of headers by which a listener removes what clients must
// not say, before a route is chosen. Only an authorization service needs them: it does not see
// the requests of routes without a chain.
func EarlyRemovals(m contract.Mode) []*mutationv3.HeaderMutation {
	if m != contract.ModeExtAuthz {
		return nil
	}
	var names []string
	for _, r := range contract.ReservedHeaders {
		if r.Twins {
			names = append(names, twins(r)...)
		} else {
			names = append(names, spellings(r))
		}
	}
	return removing(names)
}

// trailerRemovals is for trailers, of which a listener writes none.
func trailerRemovals() []*mutationv3.HeaderMutation {
	var names []string
	for _, r := range contract.ReservedHeaders {
		names = append(names, spellings(r))
	}
	return removing(names)
}

func removing(names []string) []*mutationv3.HeaderMutation {
	return []*mutationv3.HeaderMutation{{Action: &mutationv3.HeaderMutation_RemoveOnMatch_{
		RemoveOnMatch: &mutationv3.HeaderMutation_RemoveOnMatch{KeyMatcher: &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: strings.Join(names, "|")}},
		}},
	}}}
}

// spellings matches a name, in which dashes and underscores are alike.
func spellings(r contract.Reserved) string { return alike(r.Name) + rest(r) }

// twins matches the spellings with an underscore somewhere.
func twins(r contract.Reserved) (out []string) {
	for i := range len(r.Name) {
		if r.Name[i] == '-' {
			out = append(out, r.Name[:i]+"_"+alike(r.Name[i+1:])+rest(r))
		}
	}
	if r.Family {
		out = append(out, r.Name+"[^_]*_.*")
	}
	return out
}

func alike(name string) string { return strings.ReplaceAll(name, "-", "[-_]") }

func rest(r contract.Reserved) string {
	if r.Family {
		return ".*"
	}
	return ""
}

package chain

import (
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/meshgate/meshgate/filter/contract"
)

// Removals returns the changes of headers by which a listener removes what clients must not
// say ([contract.ReservedHeaders]), before a route is chosen and before Envoy writes its own.
func Removals() []*mutationv3.HeaderMutation {
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

// TrailerRemovals is [Removals] for trailers, of which a listener writes none.
func TrailerRemovals() []*mutationv3.HeaderMutation {
	var names []string
	for _, r := range contract.ReservedHeaders {
		names = append(names, spellings(r))
	}
	return removing(names)
}

// Cleaning returns a filter that changes headers and trailers on every route, before a filter
// behind it decides.
func Cleaning(headers, trailers []*mutationv3.HeaderMutation) (*hcmv3.HttpFilter, error) {
	return httpFilter("envoy.filters.http.header_mutation", &filterv3.HeaderMutation{
		Mutations: &filterv3.Mutations{RequestMutations: headers, RequestTrailersMutations: trailers},
	})
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
		out = append(out, r.Name+`[^_]*_\C*`)
	}
	return out
}

func alike(name string) string { return strings.ReplaceAll(name, "-", "[-_]") }

func rest(r contract.Reserved) string {
	if r.Family {
		return `\C*`
	}
	return ""
}

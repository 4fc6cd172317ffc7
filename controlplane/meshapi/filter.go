package meshapi

import (
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// tagged specs can be filtered by tags.
type tagged interface{ TagSets() []mesh.Tags }

// facts are what resources are filtered by, beside their names.
type facts struct {
	tags    []mesh.Tags
	gateway string
}

// factsOf returns those of a resource.
func factsOf(r *model.Resource) (f facts) {
	if t, ok := r.Spec.(tagged); ok {
		f.tags = t.TagSets()
	}
	if d, ok := r.Spec.(*mesh.Dataplane); ok {
		f.gateway = d.GatewayType()
	}
	return f
}

// filter returns a function for the filters of a query, except the part of the name: tag= for
// kinds with tags, gateway= for dataplanes. It returns nil if the query has no filters.
func (c collection) filter(query url.Values, pattern string) (func(facts) bool, error) {
	var demands []func(facts) bool
	if _, ok := c.kind.New().(tagged); ok {
		if tags := tagFilter(query["tag"]); len(tags) > 0 {
			demands = append(demands, func(f facts) bool { return slices.ContainsFunc(f.tags, tags.match) })
		}
	}
	if c.kind == mesh.Dataplanes && query.Get("gateway") != "" {
		accepts, ok := gatewayFilters[strings.ToLower(query.Get("gateway"))]
		if !ok {
			return nil, failed(opList, fault.Violated([]fault.Violation{{
				Path:    pattern + ".gateway",
				Message: "shoud use `true`, `false`, 'builtin' or 'delegated' instead of " + query.Get("gateway"),
			}}))
		}
		demands = append(demands, func(f facts) bool { return accepts(f.gateway) })
	}
	if len(demands) == 0 {
		return nil, nil //nolint:nilnil // nil demands nothing
	}
	return func(f facts) bool {
		return !slices.ContainsFunc(demands, func(met func(facts) bool) bool { return !met(f) })
	}, nil
}

// both returns a function for two demands, of which each may be nil, which demands nothing.
func both(a, b func(facts) bool) func(facts) bool {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(f facts) bool { return a(f) && b(f) }
}

// gatewayFilters say which types of gateways they accept; "" stands for no gateway.
var gatewayFilters = map[string]func(string) bool{
	"true":      func(t string) bool { return t != "" },
	"false":     func(t string) bool { return t == "" },
	"builtin":   func(t string) bool { return t == mesh.GatewayBuiltin },
	"delegated": func(t string) bool { return t == mesh.GatewayDelegated },
}

// tags holds keys of tags and parts of their values. One tag set must match all of them.
type tags [][2]string

// tagFilter reads key:value pairs and ignores other texts.
func tagFilter(args []string) (out tags) {
	for _, arg := range args {
		if key, value, ok := strings.Cut(arg, ":"); ok {
			out = append(out, [2]string{key, value})
		}
	}
	return out
}

func (t tags) match(set mesh.Tags) bool {
	for _, want := range t {
		have, ok := set[want[0]]
		if !ok || want[1] != mesh.AnyValue && !strings.Contains(have, want[1]) {
			return false
		}
	}
	return true
}

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

// filter returns a function for the filters of a query, except the part of the name: tag= for
// kinds with tags, gateway= for dataplanes. It returns nil if the query has no filters.
func (c collection) filter(query url.Values, pattern string) (func(*model.Resource) bool, error) {
	var demands []func(*model.Resource) bool
	if _, ok := c.kind.New().(tagged); ok {
		if tags := tagFilter(query["tag"]); len(tags) > 0 {
			demands = append(demands, func(r *model.Resource) bool {
				return slices.ContainsFunc(r.Spec.(tagged).TagSets(), tags.match)
			})
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
		demands = append(demands, func(r *model.Resource) bool { return accepts(gatewayOf(r.Spec.(*mesh.Dataplane))) })
	}
	if len(demands) == 0 {
		return nil, nil //nolint:nilnil // nil demands nothing
	}
	return func(r *model.Resource) bool {
		return !slices.ContainsFunc(demands, func(met func(*model.Resource) bool) bool { return !met(r) })
	}, nil
}

// gatewayFilters say which types of gateways they accept; "" stands for no gateway.
var gatewayFilters = map[string]func(string) bool{
	"true":      func(t string) bool { return t != "" },
	"false":     func(t string) bool { return t == "" },
	"builtin":   func(t string) bool { return t == mesh.GatewayBuiltin },
	"delegated": func(t string) bool { return t == mesh.GatewayDelegated },
}

// gatewayOf returns the type of a dataplane's gateway, or "" if it is no gateway.
func gatewayOf(d *mesh.Dataplane) string {
	if d.Networking == nil || d.Networking.Gateway == nil {
		return ""
	}
	if d.Networking.Gateway.Type == "" {
		return mesh.GatewayDelegated
	}
	return d.Networking.Gateway.Type
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

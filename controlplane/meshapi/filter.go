package meshapi

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// tagged specs can be filtered by tags.
type tagged interface{ TagSets() []mesh.Tags }

// labelled specs can be filtered by labels.
type labelled interface{ LabelsOf() map[string]string }

// facts are what resources are filtered by, beside their names.
type facts struct {
	tags    []mesh.Tags
	gateway string
	labels  map[string]string
}

// factsOf returns those of a resource.
func factsOf(r *model.Resource) (f facts) {
	if t, ok := r.Spec.(tagged); ok {
		f.tags = t.TagSets()
	}
	if d, ok := r.Spec.(*mesh.Dataplane); ok {
		f.gateway = d.GatewayType()
	}
	f.labels = model.LabelsOf(r.Spec)
	return f
}

// filter returns a function for the filters of a query, except the part of the name: tag= for
// kinds with tags, gateway= for dataplanes, filter[labels.KEY]= for kinds with labels. It returns nil if
// the query has no filters.
func (c collection) filter(query url.Values, pattern string) (func(facts) bool, error) {
	var demands []func(facts) bool
	switch labels, err := c.labelFilter(query); {
	case err != nil:
		return nil, err
	case len(labels) > 0:
		demands = append(demands, func(f facts) bool {
			return !slices.ContainsFunc(labels, func(l [2]string) bool { have, ok := f.labels[l[0]]; return !ok || have != l[1] })
		})
	}
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

// The parts around the key of a label in the name of a parameter, and how all such names begin.
const (
	filterPrefix = "filter["
	labelPrefix  = filterPrefix + "labels."
	labelSuffix  = "]"
)

// labelFilter reads the keys and values of labels that a query demands. A filter that does not exist is
// refused: a list that is not filtered would be taken for the filtered one.
func (c collection) labelFilter(query url.Values) (out [][2]string, err error) {
	var wrong []fault.Violation
	_, has := c.kind.New().(labelled)
	for _, name := range filterNames(query) {
		key, ok := strings.CutPrefix(name, labelPrefix)
		if ok {
			key, ok = strings.CutSuffix(key, labelSuffix)
		}
		if !ok || !has || !model.ValidLabelKey(key) {
			message := "must be filter[labels.KEY]=VALUE: there is no other filter of this form. Beside it there are " + strings.Join(c.filters(), ", ")
			if !has {
				message = noFilter(c.filters())
			}
			wrong = append(wrong, fault.Violation{Path: name, Message: message})
			continue
		}
		for _, value := range query[name] {
			out = append(out, [2]string{key, value})
		}
	}
	return out, failed(opList, fault.Violated(wrong))
}

// filterNames lists the parameters of a query that have the form of a filter, whether there is one or not.
func filterNames(query url.Values) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(query)), func(name string) bool {
		return name != "filter" && !strings.HasPrefix(name, filterPrefix)
	})
}

// noFilter says that a list has none but the given parameters.
func noFilter(others []string) string {
	return "does not exist for this list, whose resources have no labels. There are " + strings.Join(others, ", ")
}

// unfiltered refuses all filters of a query, for lists of what has no labels. others are the parameters by which
// the list can be filtered.
func unfiltered(query url.Values, others ...string) error {
	var wrong []fault.Violation
	for _, name := range filterNames(query) {
		wrong = append(wrong, fault.Violation{Path: name, Message: noFilter(others)})
	}
	return fault.Violated(wrong)
}

// filters lists the other parameters by which the list can be filtered.
func (c collection) filters() []string {
	list := []string{"name"}
	if _, ok := c.kind.New().(tagged); ok {
		list = append(list, "tag")
	}
	if c.kind == mesh.Dataplanes {
		list = append(list, "gateway")
	}
	return list
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

package cloudapi

import (
	"cmp"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// filter selects resources by a text member.
type filter struct {
	member string
	// holds says whether the text of a member is selected.
	holds func(text string) bool
}

// operator is a comparison of filters.
type operator struct {
	// name is its name in a query, summary what follows the name of a member in its description.
	name, summary string
	compare       func(want string) func(text string) bool
	// negated operators select what compare does not.
	negated bool
}

// equal is the operator of filters that name none.
const equal = "eq"

func exactly(want string) func(string) bool { return func(text string) bool { return text == want } }

var operators = []operator{
	{name: equal, summary: "is this text", compare: exactly},
	{name: "neq", summary: "is not this text", compare: exactly, negated: true},
	{name: "contains", summary: "contains this text", compare: func(want string) func(string) bool {
		return func(text string) bool { return strings.Contains(text, want) }
	}},
	{name: "oeq", summary: "is one of these texts, separated by commas", compare: func(want string) func(string) bool {
		choices := strings.Split(want, ",")
		return func(text string) bool { return slices.Contains(choices, text) }
	}},
}

// filterOf is the parameter that filters by a member.
func filterOf(member string) string { return "filter[" + member + "]" }

// filterFrom reads a described parameter: filter[name] or filter[name][operator]. A value that has several
// spellings is compared in all of them.
func (c *Collection) filterFrom(name, value string) filter {
	member, rest, _ := strings.Cut(strings.TrimPrefix(name, "filter["), "]")
	by := cmp.Or(strings.Trim(rest, "[]"), equal)
	i := slices.IndexFunc(operators, func(o operator) bool { return o.name == by })
	o := operators[i]
	holds, spellings := o.compare(value), c.Spellings[member]
	return filter{member, func(text string) bool {
		if spellings == nil {
			return holds(text) != o.negated
		}
		return slices.ContainsFunc(spellings(text), holds) != o.negated
	}}
}

// selects reports whether all filters select a resource.
func (w *wanted) selects(res *model.Resource) bool {
	if len(w.filters)+len(w.labels) == 0 {
		return true
	}
	entity, err := res.Entity()
	if err != nil {
		return true // whoever shows it says what is wrong
	}
	entity[model.FieldID] = res.Name
	for _, f := range w.filters {
		if !f.holds(textOf(entity[f.member])) {
			return false
		}
	}
	return has(entity, w.labels)
}

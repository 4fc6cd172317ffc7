package cloudapi

import (
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

// operators are the comparisons of filters, by their names in a query.
var operators = map[string]func(want string) func(text string) bool{
	"eq":  func(want string) func(string) bool { return func(text string) bool { return text == want } },
	"neq": func(want string) func(string) bool { return func(text string) bool { return text != want } },
	"contains": func(want string) func(string) bool {
		return func(text string) bool { return strings.Contains(text, want) }
	},
	"oeq": func(want string) func(string) bool {
		choices := strings.Split(want, ",")
		return func(text string) bool { return slices.Contains(choices, text) }
	},
}

// filter reads what follows "filter[" in the name of a parameter: name] or name][operator].
func (s served) filter(rest, value string) (filter, bool) {
	member, rest, ok := strings.Cut(rest, "]")
	operator := "eq"
	if rest != "" {
		operator = strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]")
		ok = ok && rest == "["+operator+"]"
	}
	compare := operators[operator]
	if !ok || compare == nil || !slices.Contains(s.Filters, member) {
		return filter{}, false
	}
	return filter{member, compare(value)}, true
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

package cloudapi

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// The parameters of lists beside those of pages and filters.
const (
	argSort   = "sort"
	argLabels = "labels"
)

// order is a member by which a list is sorted.
type order struct {
	member     string
	descending bool
}

// sorting reads a list of members, each followed by a blank and asc or desc, or by nothing.
func (s served) sorting(value string, into *[]order) []invalid {
	for part := range strings.SplitSeq(value, ",") {
		member, direction, _ := strings.Cut(strings.TrimSpace(part), " ")
		if !slices.Contains(s.Sorts, member) || direction != "" && direction != "asc" && direction != "desc" {
			return []invalid{{Field: argSort, Reason: "expected one of: " + strings.Join(s.Sorts, ", "), Rule: ruleEnum, Choices: s.Sorts, Source: fromQuery}}
		}
		*into = append(*into, order{member, direction == "desc"})
	}
	return nil
}

// sort puts resources into order. Those that are equal stay in the order of their ids.
func (w *wanted) sort(rows []*model.Resource) {
	if len(w.order) == 0 {
		return
	}
	keys := make(map[*model.Resource][]string, len(rows))
	for _, res := range rows {
		keys[res] = w.keys(res)
	}
	slices.SortStableFunc(rows, func(a, b *model.Resource) int {
		for i, o := range w.order {
			c := cmp.Compare(keys[a][i], keys[b][i])
			if o.descending {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
}

// keys are the texts by which a resource is sorted.
func (w *wanted) keys(res *model.Resource) []string {
	keys := make([]string, len(w.order))
	entity, err := res.Entity()
	if err != nil {
		return keys // whoever shows it says what is wrong
	}
	for i, o := range w.order {
		switch o.member {
		case model.FieldCreated:
			keys[i] = sortable(res.Created)
		case model.FieldUpdated:
			keys[i] = sortable(res.Modified)
		default:
			keys[i] = strings.ToLower(textOf(entity[o.member]))
		}
	}
	return keys
}

func sortable(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000") }

// textOf is a scalar as filters and orders see it.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return v.String()
	}
	return ""
}

// label selects by a label: its key, and its value unless any value does.
type label struct {
	key, value string
	any        bool
}

// labelsOf reads what labels are wanted: key:value or key, separated by commas.
func labelsOf(value string) (list []label) {
	for part := range strings.SplitSeq(value, ",") {
		key, value, valued := strings.Cut(strings.TrimSpace(part), ":")
		list = append(list, label{key, value, !valued})
	}
	return list
}

// has reports whether an entity has all labels.
func has(entity map[string]any, labels []label) bool {
	own, _ := entity["labels"].(map[string]any)
	for _, l := range labels {
		value, ok := own[l.key].(string)
		if !ok || !l.any && value != l.value {
			return false
		}
	}
	return true
}

package declare

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"sync"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
)

// field is a field in a schema of the API.
type field struct {
	Type     string             `json:"type"`
	Required bool               `json:"required"`
	Default  any                `json:"default"`
	Auto     bool               `json:"auto"`
	Elements *field             `json:"elements"`
	Fields   []map[string]field `json:"fields"`
}

// fields are the fields of an entity or a record by name.
type fields map[string]field

func (f field) record() fields {
	out := fields{}
	for _, one := range f.Fields {
		maps.Copy(out, one)
	}
	return out
}

// Schemas are those of the API, each read once.
type Schemas struct {
	api   *API
	mu    sync.Mutex
	known map[string]fields
}

// of returns the schema for an entity. Without one, nothing is known of defaults.
func (s *Schemas) of(ctx context.Context, k *model.Kind, values map[string]any) (fields, error) {
	name := k.Path
	if k == gateway.Plugins {
		name += "/" + url.PathEscape(text(values, "name"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.known[name]; ok {
		return known, nil
	}
	var answer field
	err := s.api.call(ctx, http.MethodGet, "/schemas/"+name, nil, nil, &answer)
	if status(err) == http.StatusNotFound && k != gateway.Plugins {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	s.known[name] = answer.record()
	return s.known[name], nil
}

// fill adds defaults where nothing is given. A given null counts as given.
func (f fields) fill(values map[string]any) {
	for name, described := range f {
		value, given := values[name]
		switch {
		case described.Type == "record":
			if value == nil && !given && described.Required {
				value = map[string]any{}
			}
			if record, ok := value.(map[string]any); ok {
				record = maps.Clone(record)
				described.record().fill(record)
				values[name] = record
			}
		case described.Elements != nil && described.Elements.Type == "record":
			list, _ := value.([]any)
			list = slices.Clone(list)
			for i, item := range list {
				if record, ok := item.(map[string]any); ok {
					list[i] = maps.Clone(record)
					described.Elements.record().fill(list[i].(map[string]any))
				}
			}
			if list != nil {
				values[name] = list
			}
		}
		if _, given := values[name]; !given && described.Default != nil {
			values[name] = described.Default
		}
	}
}

// adopt takes over what the API has made of fields that are not given.
func (f fields) adopt(values, current map[string]any) {
	for name, described := range f {
		_, given := values[name]
		switch {
		case !given && described.Auto && current[name] != nil:
			values[name] = current[name]
		case described.Type == "record":
			record, isRecord := values[name].(map[string]any)
			old, wasRecord := current[name].(map[string]any)
			if isRecord && wasRecord {
				described.record().adopt(record, old)
			}
		}
	}
}

// equal compares two values of a field. Null is the same as absent, and sets have no order.
func (f field) equal(a, b any) bool {
	a, b = normal(a), normal(b)
	switch f.Type {
	case "set":
		return reflect.DeepEqual(asSet(a), asSet(b))
	case "record":
		x, _ := a.(map[string]any)
		y, _ := b.(map[string]any)
		if x != nil && y != nil {
			return len(f.record().differing(x, y)) == 0
		}
	}
	return reflect.DeepEqual(a, b)
}

// differing lists the members that differ, in order.
func (f fields) differing(a, b map[string]any) (names []string) {
	all := maps.Clone(a)
	maps.Copy(all, b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !f[name].equal(a[name], b[name]) {
			names = append(names, name)
		}
	}
	return names
}

// normal returns a value as JSON has it. Members that are null, and empty objects and lists,
// which the API may leave out, are null.
func normal(v any) any {
	switch v := v.(type) {
	case nil:
		return nil
	case map[string]any:
		out := map[string]any{}
		for name, value := range v {
			if value = normal(value); value != nil {
				out[name] = value
			}
		}
		if len(out) == 0 {
			return nil
		}
		return out
	case []any:
		if len(v) == 0 {
			return nil
		}
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = normal(item)
		}
		return out
	case string, bool, float64:
		return v
	case int64:
		return float64(v)
	case int:
		return float64(v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return v
	}
	var out any
	if json.Unmarshal(raw, &out) != nil {
		return v
	}
	return out
}

// asSet returns the elements of a list in an order that does not depend on it.
func asSet(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, item := range list {
		raw, _ := json.Marshal(item) // it came from JSON
		out = append(out, string(raw))
	}
	slices.SortFunc(out, cmp.Compare)
	return slices.Compact(out)
}

package declare

import (
	"strings"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Masked stands in plans for secrets.
const Masked = "[masked]"

// leastMasked is the length from which on a value from the environment is also masked as a
// part of a text.
const leastMasked = 4

// masker replaces the secrets of one kind, and values from the environment.
type masker struct {
	kind   *model.Kind
	values []string
}

func masking(k *model.Kind, values []string) masker { return masker{k, values} }

func (m masker) object(values map[string]any) map[string]any {
	out, _ := m.value("", values).(map[string]any)
	return out
}

func (m masker) value(path string, v any) any {
	secret := path != "" && m.kind != nil && m.kind.Conceals(path)
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = m.value(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(name), item)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = m.value(path+"/0", item)
		}
		return out
	case nil:
		return nil
	case string:
		if secret || m.fromEnvironment(v) {
			return Masked
		}
	default:
		if secret {
			return Masked
		}
	}
	return v
}

// changes lists the members below a path that differ, with secrets masked.
func (m masker) changes(name string, old, new any) (list []Change) {
	was, wasObject := old.(map[string]any)
	is, isObject := new.(map[string]any)
	if wasObject && isObject {
		for _, member := range (fields{}).differing(was, is) {
			list = append(list, m.changes(name+"."+member, was[member], is[member])...)
		}
	}
	if len(list) > 0 {
		return list
	}
	path := "/" + strings.ReplaceAll(name, ".", "/")
	return []Change{{Name: name, Old: m.value(path, old), New: m.value(path, new)}}
}

func (m masker) fromEnvironment(text string) bool {
	for _, value := range m.values {
		if text == value || len(value) >= leastMasked && strings.Contains(text, value) {
			return true
		}
	}
	return false
}

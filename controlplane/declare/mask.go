package declare

import (
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/client"
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
	// paths are those of values from the environment; what was there before is as secret.
	paths []string
}

func masking(k *model.Kind, values []string, paths ...string) masker { return masker{k, values, paths} }

func (m masker) object(values map[string]any) map[string]any {
	out, _ := m.value("", values).(map[string]any)
	return out
}

func (m masker) value(path string, v any) any {
	secret := path != "" && (m.kind != nil && m.kind.Conceals(path) || slices.Contains(m.paths, path))
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, item := range v {
			out[name] = m.value(path+"/"+escaped(name), item)
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

// secrets lists the texts at the paths of secrets.
func (m masker) secrets(path string, v any) (list []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, item := range v {
			list = append(list, m.secrets(path+"/"+escaped(name), item)...)
		}
	case []any:
		for _, item := range v {
			list = append(list, m.secrets(path+"/0", item)...)
		}
	case string:
		if v != "" && m.kind.Conceals(path) {
			list = append(list, v)
		}
	}
	return list
}

// escaped returns a name as a segment of a path.
func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// hide replaces secrets in a text about a failure, which may repeat them as JSON, too. Short
// ones are only replaced between quotes: they are parts of common words.
func hide(text string, secrets []string) string {
	sorted := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) })
	for _, secret := range slices.Compact(sorted) {
		quoted := strconv.Quote(secret)
		for _, form := range []string{secret, quoted[1 : len(quoted)-1], client.Plain(secret)} {
			if len(secret) >= leastMasked {
				text = strings.ReplaceAll(text, form, Masked)
			}
			for _, quote := range []string{`"`, "'"} {
				text = strings.ReplaceAll(text, quote+form+quote, quote+Masked+quote)
			}
		}
	}
	return text
}

func (m masker) fromEnvironment(text string) bool {
	for _, value := range m.values {
		if text == value || len(value) >= leastMasked && strings.Contains(text, value) {
			return true
		}
	}
	return false
}

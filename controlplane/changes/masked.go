package changes

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/model"
)

// MaxDocument is about how long a document of [Masked] is at most, in bytes.
const MaxDocument = 8 << 10

// Masked returns a resource in JSON, in the form of its API, with [model.Concealed] in place of its
// secrets; empty for no resource, and for one that cannot be decoded. cut says that it is shortened:
// long texts, and what has no room, are cut.
func Masked(r *model.Resource) (text string, cut bool, err error) {
	if r == nil {
		return "", false, nil
	}
	all, err := tree(r)
	if err != nil || all == nil {
		return "", false, err
	}
	m := &masking{kind: r.Kind, room: MaxDocument}
	shown, _ := m.value("", all)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(shown); err != nil {
		return "", false, err
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), m.cut, nil
}

// masking copies a document, without secrets and no more than there is room for.
type masking struct {
	kind *model.Kind
	room int
	cut  bool
}

// value copies the value at a path. fits is false if there is no room for it.
func (m *masking) value(path string, v any) (shown any, fits bool) {
	switch {
	case len(path) > MaxPath:
		// From here on, paths are not complete, and nobody knows what is secret.
		m.cut = true
		return nil, false
	case v != nil && path != "" && Secret(m.kind, path):
		return m.leaf(model.Concealed)
	}
	switch v := v.(type) {
	case map[string]any:
		if !m.take("") {
			return nil, false
		}
		out := make(map[string]any, min(len(v), MaxMembers))
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if m.take(name) {
				m.put(out, path, name, v[name])
			}
		}
		return out, true
	case []any:
		if !m.take("") {
			return nil, false
		}
		out := make([]any, 0, min(len(v), MaxMembers))
		for i, item := range v {
			if m.room <= 0 {
				m.cut = true
				break
			}
			if shown, fits := m.value(at(path, strconv.Itoa(i)), item); fits {
				out = append(out, shown)
			}
		}
		return out, true
	}
	return m.leaf(v)
}

func (m *masking) put(out map[string]any, path, name string, v any) {
	if shown, fits := m.value(at(path, name), v); fits {
		out[name] = shown
	}
}

// leaf returns a scalar. A text that is too long is shortened.
func (m *masking) leaf(v any) (shown any, fits bool) {
	raw, cut := value(v)
	m.cut = m.cut || cut || raw == nil
	return raw, raw != nil && m.take(string(raw))
}

// take takes room for a text, and what stands around it.
func (m *masking) take(text string) bool {
	const around = 6
	if m.room -= len(text) + around; m.room < 0 {
		m.room, m.cut = 0, true
		return false
	}
	return true
}

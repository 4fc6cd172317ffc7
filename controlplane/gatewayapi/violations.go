package gatewayapi

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// schemaViolation returns the document with all violations of an entity.
func schemaViolation(violations []fault.Violation) *problem {
	sorted := slices.Clone(violations)
	slices.SortStableFunc(sorted, func(a, b fault.Violation) int {
		// "@entity" sorts before all field names, in nested records too.
		return strings.Compare(a.Path, b.Path)
	})
	root := &branch{}
	texts := make([]string, 0, len(sorted))
	for _, v := range sorted {
		texts = append(texts, violationText(v))
		root.add(strings.Split(v.Path, "."), v.Message)
	}
	text := "schema violation (" + strings.Join(texts, "; ") + ")"
	if len(texts) != 1 {
		text = fmt.Sprintf("%d schema violations (%s)", len(texts), strings.Join(texts, "; "))
	}
	fields, _ := root.value().(map[string]any)
	return &problem{http.StatusBadRequest, errorBody{Code: 2, Name: "schema violation", Message: text, Fields: fields}}
}

func violationText(v fault.Violation) string {
	if v.Path == "" || v.Path == model.EntityPath || strings.HasSuffix(v.Path, "."+model.EntityPath) {
		return v.Message
	}
	return v.Path + ": " + v.Message
}

// branch is one place of the fields object during its construction.
type branch struct {
	text     string
	entity   []string
	children map[string]*branch
}

func (b *branch) add(path []string, message string) {
	if len(path) == 1 && (path[0] == model.EntityPath || path[0] == "") {
		b.entity = append(b.entity, message)
		return
	}
	if b.children == nil {
		b.children = map[string]*branch{}
	}
	c := b.children[path[0]]
	if c == nil {
		c = &branch{}
		b.children[path[0]] = c
	}
	switch {
	case len(path) > 1:
		c.add(path[1:], message)
	case c.text == "":
		c.text = message
	default:
		c.entity = append(c.entity, message)
	}
}

// value returns the text of a leaf, a list if all names are indexes, and otherwise an object.
// Violations of a whole object are a list of their own in it.
func (b *branch) value() any {
	if b.children == nil && b.entity == nil {
		return b.text
	}
	if list := b.list(); list != nil {
		return list
	}
	out := make(map[string]any, len(b.children)+1)
	for name, c := range b.children {
		out[name] = c.value()
	}
	entity := b.entity
	if b.text != "" {
		entity = append([]string{b.text}, entity...)
	}
	if entity != nil {
		out[model.EntityPath] = entity
	}
	return out
}

// list returns the children by index, with null for gaps. It returns nil if not all children
// are elements.
func (b *branch) list() []any {
	if b.entity != nil || b.text != "" || len(b.children) == 0 {
		return nil
	}
	length := 0
	for name := range b.children {
		i, err := strconv.Atoi(name)
		if err != nil || i < 1 || i > model.MaxElements {
			return nil
		}
		length = max(length, i)
	}
	out := make([]any, length)
	for name, c := range b.children {
		if i, err := strconv.Atoi(name); err == nil {
			out[i-1] = c.value()
		}
	}
	return out
}

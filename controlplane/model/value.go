package model

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// exact is the largest integer up to which all integers are exact as float64.
const exact = 1 << 53

// value normalises and validates a non-null value. A Record is one of a list.
func (p *processor) value(f *Field, path string, v any) any {
	if f.Null {
		p.violate(path, TextNull)
		return nil
	}
	before := len(p.violations)
	var out any
	switch f.Type {
	case String:
		out = p.text(f, path, v)
	case Integer:
		out = p.integer(f, path, v)
	case Number:
		out = p.number(f, path, v)
	case Boolean:
		b, ok := v.(bool)
		if !ok {
			p.violate(path, "expected a boolean")
		}
		out = b
	case Array, Set:
		out = p.elements(f, path, v)
	case Map:
		out = p.entries(f, path, v)
	case Foreign:
		out = p.foreign(f, path, v)
	case Record:
		out = p.listed(f, path, v)
	}
	if len(p.violations) > before {
		return nil
	}
	if f.Check != nil {
		if text := f.Check(out); text != "" {
			p.violate(path, text)
		}
	}
	return out
}

func (p *processor) text(f *Field, path string, v any) any {
	s, ok := v.(string)
	limit := f.MaxLen
	if limit == 0 {
		limit = MaxText
	}
	var chars int
	if f.Chars != nil {
		chars = utf8.RuneCountInString(s)
	}
	switch {
	case !ok:
		p.violate(path, "expected a string")
	case s == "" && (f.Chars == nil || f.Chars[0] == 1):
		p.violate(path, TextEmpty)
	case f.Chars != nil && chars < f.Chars[0]:
		p.violate(path, fmt.Sprintf("must be at least %d characters", f.Chars[0]))
	case f.Chars != nil && chars > f.Chars[1]:
		p.violate(path, fmt.Sprintf("must be at most %d characters", f.Chars[1]))
	case f.Chars == nil && len(s) > limit:
		p.violate(path, "length must be at most "+strconv.Itoa(limit))
	case !utf8.ValidString(s):
		p.violate(path, "must be valid UTF-8")
	case f.OneOf != nil && !slices.Contains(f.OneOf, s):
		p.violate(path, "expected one of: "+strings.Join(f.OneOf, ", "))
	}
	return s
}

func (p *processor) integer(f *Field, path string, v any) any {
	n, ok := asInteger(v)
	if !ok {
		p.violate(path, "expected an integer")
		return nil
	}
	if f.OneOfInt != nil && !slices.Contains(f.OneOfInt, n) {
		var texts []string
		for _, i := range f.OneOfInt {
			texts = append(texts, strconv.FormatInt(i, 10))
		}
		p.violate(path, "expected one of: "+strings.Join(texts, ", "))
	}
	p.between(f, path, float64(n))
	return n
}

func (p *processor) number(f *Field, path string, v any) any {
	n, ok := asNumber(v)
	if !ok {
		p.violate(path, "expected a number")
		return nil
	}
	p.between(f, path, n)
	return n
}

func (p *processor) between(f *Field, path string, n float64) {
	if b := f.Between; b != nil && (n < float64(b[0]) || n > float64(b[1])) {
		p.violate(path, fmt.Sprintf("value should be between %d and %d", b[0], b[1]))
	}
}

func (p *processor) elements(f *Field, path string, v any) any {
	in, ok := v.([]any)
	switch {
	case !ok && f.Type == Set:
		p.violate(path, "expected a set")
	case !ok:
		p.violate(path, "expected an array")
	case len(in) > MaxElements:
		p.violate(path, "length must be at most "+strconv.Itoa(MaxElements))
		return nil
	case f.MostElements != 0 && len(in) > f.MostElements:
		p.violate(path, fmt.Sprintf("must be at most %d entries", f.MostElements))
		return nil
	case len(in) < f.MinElements:
		p.violate(path, "length must be at least "+strconv.Itoa(f.MinElements))
	}
	out := make([]any, 0, len(in))
	seen := make(map[any]bool, len(in))
	for i, e := range in {
		at := join(path, strconv.Itoa(i+1))
		if e == nil {
			p.violate(at, TextRequired)
			continue
		}
		e = p.value(f.Elem, at, e)
		if f.Type == Set && isScalar(e) {
			if seen[e] {
				continue
			}
			seen[e] = true
		}
		out = append(out, e)
	}
	return out
}

// listed validates a record in a list. It is complete by itself: lists are never merged.
func (p *processor) listed(f *Field, path string, v any) any {
	in, ok := v.(map[string]any)
	if !ok || f.Schema == nil {
		p.violate(path, "expected a record")
		return nil
	}
	op := p.op
	p.op = OpCreate
	defer func() { p.op = op }()
	return p.entity(f.Schema, path, in, nil).New
}

func (p *processor) entries(f *Field, path string, v any) any {
	in, ok := v.(map[string]any)
	if !ok {
		p.violate(path, "expected a map")
		return nil
	}
	if len(in) > MaxElements {
		p.violate(path, "length must be at most "+strconv.Itoa(MaxElements))
		return nil
	}
	out := make(map[string]any, len(in))
	for k, e := range in {
		if e == nil {
			p.violate(join(path, k), TextRequired)
			continue
		}
		out[k] = p.value(f.Elem, join(path, k), e)
	}
	return out
}

// foreign checks the form of a reference; the transaction checks whether the target exists.
// The result has one entry: the id in lower case, or a unique field. Other members are
// ignored, because tools repeat the name of the target, or the whole target.
func (p *processor) foreign(f *Field, path string, v any) any {
	in, ok := v.(map[string]any)
	if !ok {
		p.violate(path, "expected a record")
		return nil
	}
	if id := in[FieldID]; id != nil {
		s, isText := id.(string)
		if !isText || !IsUUID(s) {
			p.violate(join(path, FieldID), TextUUID)
		}
		return map[string]any{FieldID: strings.ToLower(s)}
	}
	name := f.named(in)
	switch text, isText := in[name].(string); {
	case name == "":
		p.violate(join(path, FieldID), TextPrimaryKey)
	case !isText || text == "":
		p.violate(join(path, name), "expected a string")
	default:
		return map[string]any{name: text}
	}
	return nil
}

// named returns the member that identifies the target of a reference without an id: the field
// By, or else the only member. It is empty if there is none.
func (f *Field) named(in map[string]any) string {
	by := f.By
	if by == "" {
		by = "name"
	}
	if in[by] != nil {
		return by
	}
	if len(in) != 1 || hasKey(in, FieldID) {
		return ""
	}
	for name := range in {
		by = name
	}
	return by
}

func hasKey(m map[string]any, name string) bool {
	_, ok := m[name]
	return ok
}

// IsUUID reports whether s has the form of a UUID, in either case.
func IsUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
		default:
			return false
		}
	}
	return true
}

func asNumber(v any) (float64, bool) {
	switch n := v.(type) {
	case json.Number:
		x, err := strconv.ParseFloat(string(n), 64)
		return x, err == nil
	case float64:
		return n, !math.IsNaN(n) && !math.IsInf(n, 0)
	case int64:
		return float64(n), true
	case int:
		return float64(n), true
	}
	return 0, false
}

func asInteger(v any) (int64, bool) {
	switch n := v.(type) {
	case int64:
		return n, true
	case int:
		return int64(n), true
	case json.Number:
		if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
			return i, true
		}
	}
	x, ok := asNumber(v)
	if !ok || x != math.Trunc(x) || math.Abs(x) > exact {
		return 0, false
	}
	return int64(x), true
}

// isScalar reports whether a normalised value can be a map key.
func isScalar(v any) bool {
	return v != nil && reflect.TypeOf(v).Comparable()
}

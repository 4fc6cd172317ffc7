package model

import (
	"encoding/json"
	"maps"
)

// TypeText gives the values of a form the types of the schema. Its texts become numbers,
// booleans, null (for the empty text) and one-element lists where the schema expects them.
// Text that cannot be converted stays text, so that validation reports it. known holds fields
// that the form need not repeat, such as the name of a stored plugin; it may be nil. The
// input is not changed.
func (s *Schema) TypeText(given, known map[string]any) map[string]any {
	out := make(map[string]any, len(given))
	for name, v := range given {
		f := s.Field(name)
		if f == nil {
			out[name] = typeUnknown(v)
			continue
		}
		var sub *Schema
		if f.Type == Record {
			sub = f.Record(merged(known, given))
		}
		out[name] = f.typeText(v, sub)
	}
	return out
}

// merged returns a copy of under, in which the members of over replace others.
func merged(under, over map[string]any) map[string]any {
	m := make(map[string]any, len(over)+len(under))
	maps.Copy(m, under)
	maps.Copy(m, over)
	return m
}

// typeUnknown converts a field that the schema does not have. It may be a shorthand or a
// second spelling, so only the empty text is converted.
func typeUnknown(v any) any {
	if v == "" {
		return nil
	}
	return v
}

func (f *Field) typeText(v any, record *Schema) any {
	switch f.Type {
	case Array, Set:
		return f.typeList(v)
	case Map:
		m, ok := v.(map[string]any)
		if !ok {
			return typeUnknown(v)
		}
		out := make(map[string]any, len(m))
		for k, e := range m {
			out[k] = f.Elem.typeText(e, nil)
		}
		return out
	case Record:
		m, ok := v.(map[string]any)
		if !ok || record == nil {
			return typeUnknown(v)
		}
		return record.TypeText(m, nil)
	case Foreign:
		return typeForeign(v)
	case String, Integer, Number, Boolean:
	}
	text, ok := v.(string)
	if !ok {
		return v
	}
	return f.typeScalar(text)
}

func (f *Field) typeList(v any) any {
	switch list := v.(type) {
	case []any:
		out := make([]any, len(list))
		for i, e := range list {
			if out[i] = e; e != "" {
				out[i] = f.Elem.typeText(e, nil)
			}
		}
		return out
	case string:
		if list == "" {
			return nil
		}
		return []any{f.Elem.typeText(list, nil)}
	}
	return v
}

// typeForeign turns a reference that has only an empty text into null.
func typeForeign(v any) any {
	m, ok := v.(map[string]any)
	if ok && len(m) == 1 && m["id"] == "" {
		return nil
	}
	return typeUnknown(v)
}

func (f *Field) typeScalar(text string) any {
	if text == "" {
		return nil
	}
	switch f.Type {
	case Integer, Number:
		// Accept only numbers of JSON: strconv would accept NaN and 0x10 as well.
		if first := text[0]; (first == '-' || first >= '0' && first <= '9') && json.Valid([]byte(text)) {
			return json.Number(text)
		}
	case Boolean:
		switch text {
		case "true":
			return true
		case "false":
			return false
		}
	case String, Array, Set, Map, Record, Foreign:
	}
	return text
}

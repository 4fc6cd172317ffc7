package openapi

import (
	"reflect"
	"slices"

	"github.com/invopop/jsonschema"
)

// For describes a Go type in the form in which encoding/json writes it, by its tags json and
// jsonschema.
func For[T any]() *Schema {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true, Mapper: func(t reflect.Type) *jsonschema.Schema {
		switch t.Kind() {
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			return &jsonschema.Schema{Type: Whole, Minimum: "0"}
		}
		return nil
	}}
	return From(r.ReflectFromType(reflect.TypeFor[T]()))
}

// From converts the schema that a kind or type was reflected into. Closed objects list their
// required members even if there are none.
func From(s *jsonschema.Schema) *Schema {
	if s == nil {
		return nil
	}
	if s == jsonschema.FalseSchema {
		return Nothing()
	}
	out := &Schema{
		ContentEncoding: s.ContentEncoding, Description: s.Description, Enum: slices.Clone(s.Enum), Format: s.Format, Pattern: s.Pattern,
		Items: From(s.Items), AdditionalProperties: From(s.AdditionalProperties), Required: slices.Clone(s.Required),
	}
	if s.Type != "" {
		out.Type = Types{s.Type}
	}
	if n, err := s.Minimum.Int64(); err == nil {
		out.Minimum = &n
	}
	if n, err := s.Maximum.Int64(); err == nil {
		out.Maximum = &n
	}
	if s.Properties != nil {
		out.Properties = make(map[string]*Schema, s.Properties.Len())
		for p := s.Properties.Oldest(); p != nil; p = p.Next() {
			out.Properties[p.Key] = From(p.Value)
		}
		if out.Required == nil {
			out.Required = []string{}
		}
	}
	return out
}

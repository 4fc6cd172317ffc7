package model

import (
	"encoding/json"
	"reflect"

	"github.com/invopop/jsonschema"
)

// reflectDocument describes a spec as documents show it: integers of 64 bits are texts. It
// panics for one of our words of entities in a tag, which nothing would obey.
func reflectDocument(t reflect.Type) *jsonschema.Schema {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true, Mapper: mapped}
	s := r.ReflectFromType(t)
	s.Version = ""
	bare("", s)
	return s
}

func bare(at string, s *jsonschema.Schema) {
	if len(s.Extras) > 0 {
		panic("the field" + at + " of a document has a tag of entities")
	}
	for _, part := range []*jsonschema.Schema{s.Items, s.AdditionalProperties} {
		if part != nil {
			bare(at, part)
		}
	}
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		bare(at+" "+p.Key, p.Value)
	}
}

// mapped describes types of which documents and Go say different things; nil for others.
func mapped(t reflect.Type) *jsonschema.Schema {
	switch t.Kind() {
	case reflect.Int64:
		if t.Implements(reflect.TypeFor[json.Marshaler]()) {
			return nil // it describes itself
		}
		return &jsonschema.Schema{Type: "string", Format: "int64", Pattern: "^-?[0-9]+$"}
	case reflect.Uint64:
		return &jsonschema.Schema{Type: "string", Format: "uint64", Pattern: "^[0-9]+$"}
	case reflect.Uint32:
		return &jsonschema.Schema{Type: "integer", Minimum: "0", Maximum: "4294967295"}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
		}
	}
	return nil
}

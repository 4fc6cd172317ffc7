package model

import (
	"encoding/json"
	"reflect"

	"github.com/invopop/jsonschema"
)

// reflectDocument describes a spec in the form of documents, in which integers of 64 bits are
// strings. It panics if a tag has a word that only entities know, because nothing would obey
// it.
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

// mapped describes the types whose form in documents differs from that in Go; nil for others.
func mapped(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[json.RawMessage]() {
		return &jsonschema.Schema{} // any value
	}
	switch t.Kind() {
	case reflect.Int64:
		if t.Implements(reflect.TypeFor[json.Marshaler]()) {
			return nil // the type describes itself
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

package openapi

import (
	"encoding/json"
	"slices"
)

// The types of values.
const (
	Text    = "string"
	Whole   = "integer"
	Number  = "number"
	Boolean = "boolean"
	Array   = "array"
	Object  = "object"
	Null    = "null"
)

// Schema is a JSON Schema. The zero value permits everything.
type Schema struct {
	Ref string `json:"$ref,omitzero"`
	// AdditionalProperties is the schema of properties that are not in Properties; see
	// [Nothing].
	AdditionalProperties *Schema            `json:"additionalProperties,omitzero"`
	AnyOf                []*Schema          `json:"anyOf,omitzero"`
	ContentEncoding      string             `json:"contentEncoding,omitzero"`
	Default              any                `json:"default,omitzero"`
	Description          string             `json:"description,omitzero"`
	Enum                 []any              `json:"enum,omitzero"`
	Format               string             `json:"format,omitzero"`
	Items                *Schema            `json:"items,omitzero"`
	MaxItems             *int64             `json:"maxItems,omitzero"`
	MaxLength            *int64             `json:"maxLength,omitzero"`
	MaxProperties        *int64             `json:"maxProperties,omitzero"`
	Maximum              *int64             `json:"maximum,omitzero"`
	MinItems             *int64             `json:"minItems,omitzero"`
	MinLength            *int64             `json:"minLength,omitzero"`
	MinProperties        *int64             `json:"minProperties,omitzero"`
	Minimum              *int64             `json:"minimum,omitzero"`
	Pattern              string             `json:"pattern,omitzero"`
	Properties           map[string]*Schema `json:"properties,omitzero"`
	Required             []string           `json:"required,omitzero"`
	Type                 Types              `json:"type,omitzero"`
	nothing              bool
}

// Types lists the types that a value may have.
type Types []string

// MarshalJSON implements json.Marshaler. A single type is not written as a list.
func (t Types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// Nothing permits no value. An object whose other properties are Nothing is closed.
func Nothing() *Schema { return &Schema{nothing: true} }

// MarshalJSON implements json.Marshaler.
func (s *Schema) MarshalJSON() ([]byte, error) {
	if s.nothing {
		return []byte("false"), nil
	}
	type plain Schema
	return json.Marshal((*plain)(s))
}

// Of permits values of the given types.
func Of(types ...string) *Schema { return &Schema{Type: types} }

// OneOf permits the given texts.
func OneOf(texts ...string) *Schema {
	s := Of(Text)
	for _, t := range texts {
		s.Enum = append(s.Enum, t)
	}
	return s
}

// Count permits a non-negative integer.
func Count() *Schema { return &Schema{Type: Types{Whole}, Minimum: new(int64)} }

// Moment permits a time.
func Moment() *Schema { return &Schema{Type: Types{Text}, Format: "date-time"} }

// List permits a list of items.
func List(items *Schema) *Schema { return &Schema{Type: Types{Array}, Items: items} }

// Closed permits an object without other properties.
func Closed(properties map[string]*Schema, required ...string) *Schema {
	if required == nil {
		required = []string{}
	}
	return &Schema{Type: Types{Object}, Properties: properties, Required: required, AdditionalProperties: Nothing()}
}

// To refers to a schema of the components.
func To(name string) *Schema { return &Schema{Ref: "#/components/schemas/" + name} }

// OrNull also permits null if the schema restricts the type. It changes the schema.
func (s *Schema) OrNull() *Schema {
	if len(s.Type) > 0 {
		s.Type = append(slices.Clone(s.Type), Null)
		if s.Enum != nil {
			s.Enum = append(s.Enum, nil)
		}
	}
	return s
}

// Says sets the description. It changes the schema.
func (s *Schema) Says(description string) *Schema {
	s.Description = description
	return s
}

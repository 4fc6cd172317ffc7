package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/invopop/jsonschema"
)

// Rules are what the tags of spec types refer to by name: what JSON Schema has no
// words for. They are complete before the first spec is reflected.
type Rules struct {
	// Checks are the values of x-check and x-each-check; see [Field.Check].
	Checks map[string]func(v any) string
	// Generators are the values of x-generated; see [Field.Auto].
	Generators map[string]func() (any, error)
	// Variants are the values of x-variant; see [Field.Variant].
	Variants map[string]func(entity map[string]any) *Schema
}

// Virtual is the type of a field that an API takes or shows and that no spec stores,
// such as a time to live: it has the schema of T. Its json tag says omitzero.
type Virtual[T any] struct{}

// JSONSchemaAlias makes the schema that of T.
func (Virtual[T]) JSONSchemaAlias() any { return *new(T) }

// Extensions of JSON Schema in the tag jsonschema_extras, each with the member of
// [Field] that it sets.
const (
	extCheck     = "x-check"
	extEachCheck = "x-each-check"
	extChars     = "x-chars" // least and most, as in 1..255; of an optional text 0 says that an empty one is none
	extGenerated = "x-generated"
	extVariant   = "x-variant"
	extRefersTo  = "x-refers-to" // To, and makes the field a Foreign
	extBy        = "x-by"
	extFlat      = "x-flat"
	extInline    = "x-inline"    // Inline.To
	extInlineRef = "x-inline-by" // Inline.Ref
	extMeta      = "x-meta"
	extHidden    = "x-hidden"
	extKeep      = "x-keep"
	extNull      = "x-null"
	extAnnounce  = "x-announce"
)

var fieldTypes = map[string]FieldType{
	"string": String, "integer": Integer, "number": Number, "boolean": Boolean, "array": Array, "object": Record,
}

// Fields describes the fields of a spec type, in their order, from its tags: json for
// the names and for what may be absent (omitempty, omitzero), jsonschema for the words
// of JSON Schema, jsonschema_extras for ours. It panics for a word of ours that means
// nothing, for that is a mistake in the program; of JSON Schema's words the reflector
// drops those that it does not know.
//
// Words that a field does not say have the defaults that [Field] names. uniqueItems
// makes an Array a Set. Words about strings and numbers on a list are about its
// elements.
func (r *Rules) Fields(spec any) []Field {
	return r.fields(reflectSpec(reflect.TypeOf(spec)))
}

// extensions are our words, each with the values that it may have; none means any.
var extensions = map[string][]any{
	extCheck: nil, extEachCheck: nil, extChars: nil, extGenerated: nil, extVariant: nil,
	extRefersTo: nil, extBy: nil, extFlat: nil, extInline: nil, extInlineRef: nil, extHolds: nil, extIn: nil,
	extMeta: {true}, extHidden: {true}, extKeep: {true}, extNull: {true}, extAnnounce: {true}, extListed: {true},
	extUnique: {true, "secret"}, extOnDelete: {"cascade"},
}

// spelled panics for an extension that means nothing: mistyped, it would leave a field
// without its bound, or a secret in an index in clear.
func spelled(name string, s *jsonschema.Schema) {
	for key, v := range s.Extras {
		values, known := extensions[key]
		if !known || len(values) > 0 && !slices.Contains(values, v) {
			panic(fmt.Sprintf("the field %s has %s=%v, which means nothing", name, key, v))
		}
	}
}

func (r *Rules) fields(s *jsonschema.Schema) []Field {
	required := make(map[string]bool, len(s.Required))
	for _, name := range s.Required {
		required[name] = true
	}
	out := make([]Field, 0, s.Properties.Len())
	for p := s.Properties.Oldest(); p != nil; p = p.Next() {
		f := r.field(p.Key, p.Value)
		f.Name, f.Required = p.Key, required[p.Key]
		out = append(out, f)
	}
	return out
}

// field describes a value by its schema; name is for messages about wrong tags.
func (r *Rules) field(name string, s *jsonschema.Schema) Field {
	spelled(name, s)
	f := Field{Type: fieldTypes[s.Type], Default: normal(name, s, s.Default)}
	switch {
	case s.Extras[extRefersTo] != nil:
		f.Type = Foreign
	case s.Type == "" && s.Extras[extVariant] != nil:
		f.Type = Record
	case s.Type == "array" && s.UniqueItems:
		f.Type = Set
	case s.Type == "object" && s.AdditionalProperties != nil && s.Properties == nil:
		f.Type = Map
	case s.Type == "":
		panic("the field " + name + " has no type")
	}
	if s.MaxLength != nil {
		f.MaxLen = int(*s.MaxLength) //nolint:gosec // written in a tag
	}
	if s.MinItems != nil {
		f.MinElements = int(*s.MinItems) //nolint:gosec // written in a tag
	}
	if s.MaxItems != nil {
		f.MostElements = int(*s.MaxItems) //nolint:gosec // written in a tag
	}
	f.Chars = chars(name, s)
	for _, v := range s.Enum {
		switch v := normal(name, s, v).(type) {
		case string:
			f.OneOf = append(f.OneOf, v)
		case int64:
			f.OneOfInt = append(f.OneOfInt, v)
		}
	}
	f.Between = between(name, s)
	r.extend(name, &f, s)
	switch {
	case f.Type == Array || f.Type == Set:
		f.Elem = r.element(name, s, s.Items)
	case f.Type == Map:
		f.Elem = r.element(name, s, s.AdditionalProperties)
	case f.Type == Record && f.Variant == nil:
		f.Schema = &Schema{Fields: r.fields(s)}
	}
	return f
}

func (r *Rules) element(name string, list, s *jsonschema.Schema) *Field {
	e := r.field(name, s)
	if check := named(name, extEachCheck, r.Checks, list); check != nil {
		e.Check = *check
	}
	return &e
}

// extend takes our extensions of JSON Schema.
func (r *Rules) extend(name string, f *Field, s *jsonschema.Schema) {
	text := func(key string) string {
		v, _ := s.Extras[key].(string)
		return v
	}
	is := func(key string) bool { return s.Extras[key] == true }
	f.To, f.By, f.Flat = text(extRefersTo), text(extBy), text(extFlat)
	f.Meta, f.Hidden, f.Keep, f.Null, f.Announce = is(extMeta), is(extHidden), is(extKeep), is(extNull), is(extAnnounce)
	if to := text(extInline); to != "" {
		f.Inline = &Inline{To: to, Ref: text(extInlineRef)}
	}
	if check := named(name, extCheck, r.Checks, s); check != nil {
		f.Check = *check
	}
	if generate := named(name, extGenerated, r.Generators, s); generate != nil {
		f.Auto = *generate
	}
	if variant := named(name, extVariant, r.Variants, s); variant != nil {
		f.Variant = *variant
	}
}

// named finds what an extension refers to; nil without the extension.
func named[T any](name, extension string, known map[string]T, s *jsonschema.Schema) *T {
	key, ok := s.Extras[extension].(string)
	if !ok {
		return nil
	}
	v, ok := known[key]
	if !ok {
		panic(fmt.Sprintf("the field %s has %s=%s, which there is not", name, extension, key))
	}
	return &v
}

// chars are the bounds of a text in characters; nil without the extension.
func chars(name string, s *jsonschema.Schema) *[2]int {
	text, ok := s.Extras[extChars].(string)
	if !ok {
		return nil
	}
	var b [2]int
	if n, err := fmt.Sscanf(text, "%d..%d", &b[0], &b[1]); n != 2 || err != nil || b[0] < 0 || b[1] < b[0] || b[1]*utf8.UTFMax > MaxText {
		panic(fmt.Sprintf("the field %s has %s=%s, which bounds nothing", name, extChars, text))
	}
	return &b
}

// between are the bounds of a number; there are two of them or none.
func between(name string, s *jsonschema.Schema) *[2]int64 {
	if s.Minimum == "" && s.Maximum == "" {
		return nil
	}
	least, err1 := s.Minimum.Int64()
	most, err2 := s.Maximum.Int64()
	if err1 != nil || err2 != nil {
		panic("the field " + name + " needs both minimum and maximum, as integers")
	}
	return &[2]int64{least, most}
}

// normal is a value of a tag as normalised entities have it.
func normal(name string, s *jsonschema.Schema, v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = normal(name, s.Items, e)
		}
		return out
	case json.Number:
		return number(name, s.Type, string(v))
	case string:
		if s.Type != "string" {
			return number(name, s.Type, v)
		}
	}
	return v
}

func number(name, kind, text string) any {
	var v any
	var err error
	if kind == "integer" {
		v, err = strconv.ParseInt(text, 10, 64)
	} else {
		v, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		panic(fmt.Sprintf("the field %s has the value %q in a tag", name, text))
	}
	return v
}

// With returns the rules and more of them: those of one kind beside those that several
// have. It panics for a name of both, for one of the two would be obeyed by nobody.
func (r *Rules) With(more Rules) *Rules {
	return &Rules{
		Checks: united(r.Checks, more.Checks), Generators: united(r.Generators, more.Generators), Variants: united(r.Variants, more.Variants),
	}
}

func united[T any](a, b map[string]T) map[string]T {
	out := make(map[string]T, len(a)+len(b))
	maps.Copy(out, a)
	maps.Copy(out, b)
	if len(out) < len(a)+len(b) {
		panic("rules that are united have a name in common")
	}
	return out
}

// Package entity describes the entities of kinds for OpenAPI documents. What a kind's schema says decides
// about what is accepted and shown, so no description can differ from it.
package entity

import (
	"cmp"
	"slices"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// Dialect holds the differences between the APIs.
type Dialect struct {
	// Reference describes what is shown of a resource that a field refers to.
	Reference *openapi.Schema
	// Variant describes a record whose fields depend on other fields, as it is shown, given as a whole,
	// or given in a patch.
	Variant func(f *model.Field, as Form) *openapi.Schema
}

// Form is a form of an entity.
type Form int

// The forms.
const (
	Shown Form = iota
	Given
	Patched
)

// Shown returns the schema of an entity in answers, in which every field is present.
func (d Dialect) Shown(s *model.Schema) *openapi.Schema {
	out := openapi.Closed(map[string]*openapi.Schema{})
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Hidden {
			continue
		}
		out.Properties[f.Name] = d.shownField(f)
		out.Required = append(out.Required, f.Name)
		if f.Flat != "" {
			out.Properties[f.Flat] = openapi.Of(openapi.Text).OrNull()
			out.Required = append(out.Required, f.Flat)
		}
	}
	slices.Sort(out.Required)
	return out
}

// Given returns the schema of a whole entity in requests.
func (d Dialect) Given(s *model.Schema) *openapi.Schema { return d.given(s, false) }

// Patch returns the schema of an entity in requests that change it. No field is required.
func (d Dialect) Patch(s *model.Schema) *openapi.Schema { return d.given(s, true) }

// Filled returns the schema of a whole entity in requests for clients that fill in defaults before they
// write. They look into objects that permit other properties, and take a closed one as a whole: so
// records are open, and references are closed.
func (d Dialect) Filled(s *model.Schema) *openapi.Schema {
	out := d.Given(s)
	for i := range s.Fields {
		f := &s.Fields[i]
		if _, shown := out.Properties[f.Name]; !shown {
			continue
		}
		switch {
		case f.Type == model.Foreign:
			out.Properties[f.Name] = openapi.Closed(map[string]*openapi.Schema{model.FieldID: identifier()})
		case f.Type == model.Record && f.Variant == nil && !f.Null:
			record := d.Filled(f.Schema)
			record.AdditionalProperties = nil
			out.Properties[f.Name] = record
		}
	}
	return out
}

func (d Dialect) given(s *model.Schema, patch bool) *openapi.Schema {
	out := openapi.Closed(map[string]*openapi.Schema{})
	out.Required = nil
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Hidden {
			continue
		}
		out.Properties[f.Name] = d.givenField(f, patch)
		if f.Required && f.Default == nil && f.Auto == nil && f.Type != model.Foreign && f.Type != model.Record && !patch && s.Shorthand == nil {
			out.Required = append(out.Required, f.Name)
		}
		if f.Flat != "" {
			out.Properties[f.Flat] = identifier().OrNull()
		}
	}
	for i := range s.Shorthands {
		out.Properties[s.Shorthands[i].Name] = d.givenField(&s.Shorthands[i], patch)
	}
	slices.Sort(out.Required)
	return out
}

// jsonTypes maps types of fields to types of JSON Schema.
var jsonTypes = map[model.FieldType]string{
	model.String: openapi.Text, model.Integer: openapi.Whole, model.Number: openapi.Number, model.Boolean: openapi.Boolean,
	model.Array: openapi.Array, model.Set: openapi.Array, model.Map: openapi.Object, model.Record: openapi.Object,
}

// shownField returns the schema of a field in an answer. It has no limits, because values
// that were stored before a limit existed are shown as well.
func (d Dialect) shownField(f *model.Field) *openapi.Schema {
	nullable := !f.Required && f.Name != model.FieldID && f.Name != model.FieldCreated && f.Name != model.FieldUpdated
	switch {
	case f.Null:
		return openapi.Of(openapi.Null)
	case f.Type == model.Foreign && nullable:
		return &openapi.Schema{AnyOf: []*openapi.Schema{d.Reference, openapi.Of(openapi.Null)}}
	case f.Type == model.Foreign:
		return d.Reference
	case f.Type == model.Record && f.Variant != nil:
		return d.Variant(f, Shown)
	case f.Type == model.Record:
		return orNull(d.Shown(f.Schema), nullable)
	}
	out := openapi.Of(jsonTypes[f.Type])
	if f.Elem != nil {
		elem := d.shownField(element(f))
		if f.Type == model.Map {
			out.AdditionalProperties = elem
		} else {
			out.Items = elem
		}
	}
	choices(f, out)
	return orNull(out, nullable)
}

// givenField returns the schema of a field in a request.
func (d Dialect) givenField(f *model.Field, patch bool) *openapi.Schema {
	nullable := !f.Required && !f.NotNull
	switch {
	case f.Null:
		return openapi.Of(openapi.Null)
	case f.Type == model.Foreign:
		return orNull(&openapi.Schema{Type: openapi.Types{openapi.Object}, MinProperties: new(int64(1))}, nullable)
	case f.Type == model.Record && f.Variant != nil && patch:
		return d.Variant(f, Patched)
	case f.Type == model.Record && f.Variant != nil:
		return d.Variant(f, Given)
	case f.Type == model.Record:
		return orNull(d.given(f.Schema, patch), nullable)
	}
	out := openapi.Of(jsonTypes[f.Type])
	limits(f, out)
	if f.Elem != nil {
		elem := d.givenField(element(f), patch)
		if f.Type == model.Map {
			out.AdditionalProperties, out.MaxProperties = elem, new(int64(model.MaxElements))
		} else {
			out.Items, out.MaxItems = elem, new(int64(cmp.Or(f.MostElements, model.MaxElements)))
		}
	}
	if !patch {
		out.Default = f.Default
	}
	choices(f, out)
	return orNull(out, nullable)
}

// element returns the description of the elements of a field, which are never null.
func element(f *model.Field) *model.Field {
	e := *f.Elem
	e.Required = true
	return &e
}

// limits sets the limits of a field that JSON Schema can express. It counts characters where
// a field counts bytes.
func limits(f *model.Field, out *openapi.Schema) {
	if f.Type == model.String && f.OneOf == nil {
		out.MinLength, out.MaxLength = new(int64(1)), new(int64(cmp.Or(f.MaxLen, model.MaxText)))
		if f.Chars != nil {
			out.MinLength, out.MaxLength = new(int64(f.Chars[0])), new(int64(f.Chars[1]))
		}
		if f.Name == model.FieldID {
			out.Format = "uuid"
		}
	}
	if f.Between != nil {
		out.Minimum, out.Maximum = &f.Between[0], &f.Between[1]
	}
	if f.MinElements != 0 {
		out.MinItems = new(int64(f.MinElements))
	}
}

// choices sets the permitted values of a field.
func choices(f *model.Field, out *openapi.Schema) {
	for _, v := range f.OneOf {
		out.Enum = append(out.Enum, v)
	}
	for _, v := range f.OneOfInt {
		out.Enum = append(out.Enum, v)
	}
}

// orNull also permits null if nullable is set.
func orNull(schema *openapi.Schema, nullable bool) *openapi.Schema {
	if !nullable {
		return schema
	}
	return schema.OrNull()
}

func identifier() *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Text}, Format: "uuid"}
}

package gatewayapi

import (
	"cmp"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// jsonTypes maps types of fields to types of JSON Schema.
var jsonTypes = map[model.FieldType]string{
	model.String: openapi.Text, model.Integer: openapi.Whole, model.Number: openapi.Number, model.Boolean: openapi.Boolean,
	model.Array: openapi.Array, model.Set: openapi.Array, model.Map: openapi.Object, model.Record: openapi.Object,
}

// shownField returns the schema of a field in an answer. It has no limits, because values
// that were stored before a limit existed are shown as well.
func shownField(f *model.Field) *openapi.Schema {
	nullable := !f.Required && f.Name != model.FieldID && f.Name != model.FieldCreated && f.Name != model.FieldUpdated
	switch {
	case f.Null:
		return openapi.Of(openapi.Null)
	case f.Type == model.Foreign && nullable:
		return &openapi.Schema{AnyOf: []*openapi.Schema{openapi.To(schemaReference), openapi.Of(openapi.Null)}}
	case f.Type == model.Foreign:
		return openapi.To(schemaReference)
	case f.Type == model.Record && f.Variant != nil:
		return configs("")
	case f.Type == model.Record:
		return orNull(shownEntity(f.Schema), nullable)
	}
	out := openapi.Of(jsonTypes[f.Type])
	if f.Elem != nil {
		elem := shownField(element(f))
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
func givenField(f *model.Field, patch bool) *openapi.Schema {
	nullable := !f.Required
	switch {
	case f.Null:
		return openapi.Of(openapi.Null)
	case f.Type == model.Foreign:
		return orNull(&openapi.Schema{Type: openapi.Types{openapi.Object}, MinProperties: new(int64(1))}, nullable)
	case f.Type == model.Record && f.Variant != nil && patch:
		return configs(suffixPatch)
	case f.Type == model.Record && f.Variant != nil:
		return configs(suffixWrite)
	case f.Type == model.Record:
		return orNull(givenEntity(f.Schema, patch), nullable)
	}
	out := openapi.Of(jsonTypes[f.Type])
	limits(f, out)
	if f.Elem != nil {
		elem := givenField(element(f), patch)
		if f.Type == model.Map {
			out.AdditionalProperties, out.MaxProperties = elem, new(int64(model.MaxElements))
		} else {
			out.Items, out.MaxItems = elem, new(int64(model.MaxElements))
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

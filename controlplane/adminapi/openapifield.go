package adminapi

import (
	"github.com/meshgate/meshgate/controlplane/model"
)

// jsonTypes are the types of JSON Schema that fields have.
var jsonTypes = map[model.FieldType]string{
	model.String: "string", model.Integer: "integer", model.Number: "number", model.Boolean: "boolean",
	model.Array: "array", model.Set: "array", model.Map: "object", model.Record: "object",
}

// shownField is the schema of a field in an answer. Limits are left out: values
// that were stored before a limit existed are shown as well.
func shownField(f *model.Field) object {
	nullable := !f.Required && f.Name != model.FieldID && f.Name != model.FieldCreated && f.Name != model.FieldUpdated
	switch {
	case f.Null:
		return object{"type": "null"}
	case f.Type == model.Foreign && nullable:
		return object{"anyOf": []any{ref(schemaReference), object{"type": "null"}}}
	case f.Type == model.Foreign:
		return ref(schemaReference)
	case f.Type == model.Record && f.Variant != nil:
		return configs("")
	case f.Type == model.Record:
		return orNull(shownEntity(f.Schema), nullable)
	}
	out := object{"type": jsonTypes[f.Type]}
	if f.Elem != nil {
		elem := shownField(element(f))
		if f.Type == model.Map {
			out["additionalProperties"] = elem
		} else {
			out["items"] = elem
		}
	}
	choices(f, out)
	return orNull(out, nullable)
}

// givenField is the schema of a field in a request.
func givenField(f *model.Field, patch bool) object {
	nullable := !f.Required
	switch {
	case f.Null:
		return object{"type": "null"}
	case f.Type == model.Foreign:
		return orNull(object{"type": "object", "minProperties": 1}, nullable)
	case f.Type == model.Record && f.Variant != nil && patch:
		return configs(suffixPatch)
	case f.Type == model.Record && f.Variant != nil:
		return configs(suffixWrite)
	case f.Type == model.Record:
		return orNull(givenEntity(f.Schema, patch), nullable)
	}
	out := object{"type": jsonTypes[f.Type]}
	limits(f, out)
	if f.Elem != nil {
		elem := givenField(element(f), patch)
		if f.Type == model.Map {
			out["additionalProperties"] = elem
			out["maxProperties"] = model.MaxElements
		} else {
			out["items"], out["maxItems"] = elem, model.MaxElements
		}
	}
	if f.Default != nil && !patch {
		out["default"] = f.Default
	}
	choices(f, out)
	return orNull(out, nullable)
}

// element describes the elements of a field, which are never null.
func element(f *model.Field) *model.Field {
	e := *f.Elem
	e.Required = true
	return &e
}

// limits are what JSON Schema can say of a field's limits; it counts characters
// where a field counts bytes.
func limits(f *model.Field, out object) {
	if f.Type == model.String && f.OneOf == nil {
		out["minLength"], out["maxLength"] = 1, model.MaxText
		if f.MaxLen != 0 {
			out["maxLength"] = f.MaxLen
		}
		if f.Name == model.FieldID {
			out["format"] = "uuid"
		}
	}
	if f.Between != nil {
		out["minimum"], out["maximum"] = f.Between[0], f.Between[1]
	}
	if f.MinElements != 0 {
		out["minItems"] = f.MinElements
	}
}

// choices lists the values that a field may have.
func choices(f *model.Field, out object) {
	var list []any
	for _, v := range f.OneOf {
		list = append(list, v)
	}
	for _, v := range f.OneOfInt {
		list = append(list, v)
	}
	if list != nil {
		out["enum"] = list
	}
}

// orNull also permits null.
func orNull(schema object, nullable bool) object {
	name, ok := schema["type"].(string)
	if !nullable || !ok {
		return schema
	}
	schema["type"] = []string{name, "null"}
	if list, ok := schema["enum"].([]any); ok {
		schema["enum"] = append(list, nil)
	}
	return schema
}

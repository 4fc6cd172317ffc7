package gatewayapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// schemaEndpoints returns endpoints that describe the fields of the collections, from which
// declarative tools read defaults, and endpoints that check entities without storing them. A
// kind can be named by its collection or by its name in error texts.
func (a *API) schemaEndpoints() []httpkit.Endpoint {
	list := []httpkit.Endpoint{answering(
		endpoint(http.MethodGet, "/schemas/plugins/{name}", "Describe a plugin", a.pluginSchema), schemaSchema, http.StatusNotFound),
		answering(endpoint(http.MethodGet, "/schemas/tags", "Describe an item of the list of tags", a.tagSchema), schemaSchema)}
	for _, c := range a.Collections {
		for _, name := range namesOf(c.Kind) {
			described := endpoint(http.MethodGet, "/schemas/"+name, "Describe a "+c.Kind.Name, func(w http.ResponseWriter, r *http.Request) {
				reply(w, r, http.StatusOK, map[string]any{"fields": a.describeFields(c.Kind.Schema, nil), "shorthand_fields": a.describeList(c.Kind.Schema.Shorthands, nil)})
			})
			checked := endpoint(http.MethodPost, "/schemas/"+name+"/validate", "Check a "+c.Kind.Name+" and store nothing", a.validator(c))
			checked.Contract.Body = c.Kind.Name + suffixWrite
			checked = answering(checked, schemaMessage, http.StatusRequestEntityTooLarge)
			checked.Contract.Answers[http.StatusUnsupportedMediaType] = ""
			list = append(list, answering(described, schemaSchema), checked)
		}
	}
	return list
}

// namesOf lists the names of a kind in paths of schemas.
func namesOf(k *model.Kind) []string {
	if name := k.Plural(); name != k.Path {
		return []string{k.Path, name}
	}
	return []string{k.Path}
}

// pluginSchema describes instances of one plugin, with its configuration.
func (a *API) pluginSchema(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	entity := map[string]any{"name": name}
	if gateway.Plugins.Schema.Field("config").Record(entity) == nil {
		httpkit.WriteMessage(w, http.StatusNotFound, "No plugin named '"+name+"'")
		return
	}
	reply(w, r, http.StatusOK, map[string]any{"fields": a.describeFields(gateway.Plugins.Schema, entity)})
}

// tagSchemaFields describe the items of GET /tags.
var tagSchemaFields = []model.Field{
	{Name: "tag", Type: model.String, Required: true},
	{Name: "entity_name", Type: model.String, Required: true},
	{Name: "entity_id", Type: model.String, Required: true},
}

func (a *API) tagSchema(w http.ResponseWriter, r *http.Request) {
	reply(w, r, http.StatusOK, map[string]any{"fields": a.describeList(tagSchemaFields, nil)})
}

// validator completes and checks an entity as a creation would. Referenced entities need not
// exist, because a file is checked before anything in it is created.
func (a *API) validator(c Collection) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := httpkit.ReadBody(r)
		if err == nil {
			err = refused(body, httpkit.Strict)
		}
		if err == nil {
			_, err = a.Gate.Prepare(c.Kind, model.OpCreate, admit.Input{Values: body.Values, Text: body.Text}, nil)
		}
		if err != nil {
			a.fail(w, r, err, call{collection: c, given: body.Values})
			return
		}
		httpkit.WriteMessage(w, http.StatusOK, "schema validation successful")
	}
}

// describeFields lists the fields of a schema, each as an object with one member. entity
// selects the variants of records.
func (a *API) describeFields(s *model.Schema, entity map[string]any) []map[string]any {
	return a.describeList(s.Fields, entity)
}

func (a *API) describeList(fields []model.Field, entity map[string]any) []map[string]any {
	list := make([]map[string]any, 0, len(fields))
	for i := range fields {
		if f := &fields[i]; !f.Hidden {
			list = append(list, map[string]any{f.Name: a.describeField(f, entity)})
		}
	}
	return list
}

// typeNames are the names of field types.
var typeNames = map[model.FieldType]string{
	model.String: "string", model.Integer: "integer", model.Number: "number", model.Boolean: "boolean",
	model.Array: "array", model.Set: "set", model.Map: "map", model.Record: "record", model.Foreign: "foreign",
}

func (a *API) describeField(f *model.Field, entity map[string]any) map[string]any {
	d := map[string]any{"type": typeNames[f.Type]}
	set := func(name string, v any, isSet bool) {
		if isSet {
			d[name] = v
		}
	}
	set("required", true, f.Required)
	set("default", f.Default, f.Default != nil)
	set("auto", true, f.Auto != nil || f.Meta && f.Name != "ttl" && f.Inline == nil)
	set("uuid", true, f.Name == model.FieldID)
	set("timestamp", true, f.Name == model.FieldCreated || f.Name == model.FieldUpdated)
	set("one_of", f.OneOf, f.OneOf != nil)
	if f.OneOfInt != nil {
		d["one_of"] = f.OneOfInt
	}
	set("between", f.Between, f.Between != nil)
	set("len_max", f.MaxLen, f.MaxLen != 0)
	set("len_min", f.MinElements, f.MinElements != 0)
	set("eq", nil, f.Null)
	if target, ok := a.byKind[f.To]; ok {
		d["reference"] = target.Kind.Path
	}
	switch {
	case f.Elem != nil && f.Type == model.Map:
		d["keys"], d["values"] = map[string]any{"type": "string"}, a.describeField(f.Elem, entity)
	case f.Elem != nil:
		d["elements"] = a.describeField(f.Elem, entity)
	case f.Type == model.Record:
		d["fields"] = []map[string]any{}
		if s := f.Record(entity); s != nil {
			d["fields"] = a.describeFields(s, entity)
		}
	}
	return d
}

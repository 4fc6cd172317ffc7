package adminapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Names of the schemas of the OpenAPI document. Those of a kind are the kind's
// name, for the entity as it is shown, and the name with a suffix.
const (
	suffixPage  = "_page"
	suffixWrite = "_write"
	suffixPatch = "_patch"

	schemaError      = "error"
	schemaMessage    = "message"
	schemaReference  = "reference"
	schemaRevoked    = "revoked"
	schemaSchema     = "schema"
	schemaDocument   = "document"
	schemaHealth     = "target_health_page"
	schemaTags       = "tag_page"
	schemaChanges    = "change_page"
	schemaNode       = "node"
	schemaNodes      = "node_page"
	schemaDump       = "dump"
	schemaConditions = "conditions"
)

// object is a JSON object of the OpenAPI document.
type object = map[string]any

func (a *API) openAPI(w http.ResponseWriter, r *http.Request) {
	doc, err := a.description()
	if err != nil {
		a.fail(w, r, err, call{})
		return
	}
	reply(w, r, http.StatusOK, json.RawMessage(doc))
}

// describe builds the OpenAPI 3.1 document out of the endpoints and the schemas
// of the kinds: there is no other description that could differ from them.
func (a *API) describe() ([]byte, error) {
	paths := object{}
	for _, e := range a.Endpoints() {
		item, ok := paths[e.Pattern].(object)
		if !ok {
			item = object{}
			if names := pathNames(e.Pattern); len(names) > 0 {
				item["parameters"] = names
			}
			paths[e.Pattern] = item
		}
		item[strings.ToLower(e.Method)] = a.operation(e)
	}
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Meshgate gateway administration", "version": a.Version,
			"description": "Services, routes, plugins, consumers and their credentials. HEAD answers like GET without a body, OPTIONS lists the methods of a path.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"servers":    []any{object{"url": "/"}},
		"paths":      paths,
		"components": object{"schemas": a.components(), "responses": failures()},
	}
	if a.Token != "" {
		doc["components"].(object)["securitySchemes"] = object{"token": object{"type": "http", "scheme": "bearer"}}
		doc["security"] = []any{object{"token": []any{}}}
	}
	return json.Marshal(doc)
}

// pathNames describes the names in a pattern.
func pathNames(pattern string) (list []any) {
	for segment := range strings.SplitSeq(pattern, "/") {
		name, ok := strings.CutPrefix(strings.TrimSuffix(segment, "}"), "{")
		if !ok {
			continue
		}
		schema := object{"type": "string", "minLength": 1}
		if name == pathRevision {
			schema = object{"type": "integer", "minimum": 0}
		}
		list = append(list, object{"name": name, "in": "path", "required": true, "schema": schema})
	}
	return list
}

func (a *API) operation(e httpkit.Endpoint) object {
	subject := strings.Split(e.Pattern, "/")[1]
	if subject == "" {
		subject = "information"
	}
	op := object{
		"summary": e.Summary, "tags": []string{subject},
		"operationId": operationID(e),
		"responses":   a.responses(e),
	}
	var query []any
	for _, q := range e.Contract.Query {
		query = append(query, object{"name": q.Name, "in": "query", "description": q.Summary, "schema": object{"type": q.Type}})
	}
	if query != nil {
		op["parameters"] = query
	}
	if e.Contract.Body != "" {
		content := object{"schema": ref(e.Contract.Body)}
		op["requestBody"] = object{"content": object{
			"application/json": content, "application/x-www-form-urlencoded": object{"schema": object{"type": "object"}},
			"multipart/form-data": object{"schema": object{"type": "object"}},
		}}
	}
	return op
}

// operationID names an operation by its method and path, in the characters that
// generators of clients make identifiers of.
func operationID(e httpkit.Endpoint) string {
	return strings.ToLower(e.Method) + strings.NewReplacer("/", "_", "{", "", "}", "", "-", "_", ".", "_").Replace(e.Pattern)
}

// responses lists the answers of an endpoint, those of the token and of a
// read-only API among them.
func (a *API) responses(e httpkit.Endpoint) object {
	out := object{}
	state := func(status int, schema string) {
		name := strconv.Itoa(status)
		if out[name] = response(status, schema); schema == schemaError {
			out[name] = object{"$ref": "#/components/responses/" + name}
		}
	}
	for status, schema := range e.Contract.Answers {
		state(status, schema)
	}
	if e.Method != http.MethodGet {
		state(http.StatusInsufficientStorage, schemaError)
	}
	if a.Token != "" {
		state(http.StatusUnauthorized, schemaError)
	}
	if a.ReadOnly != "" && e.Method != http.MethodGet {
		state(http.StatusMethodNotAllowed, schemaError)
	}
	return out
}

func response(status int, schema string) object {
	r := object{"description": http.StatusText(status)}
	if schema != "" {
		r["content"] = object{"application/json": object{"schema": ref(schema)}}
	}
	return r
}

// failures are the answers that are alike everywhere.
func failures() object {
	out := object{}
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusInternalServerError, http.StatusServiceUnavailable,
		http.StatusInsufficientStorage,
	} {
		out[strconv.Itoa(status)] = response(status, schemaError)
	}
	return out
}

func ref(name string) object { return object{"$ref": "#/components/schemas/" + name} }

// components are the schemas of the kinds, and those of what is not stored.
func (a *API) components() object {
	text, whole := object{"type": "string"}, object{"type": "integer"}
	out := object{
		schemaError: object{
			"type": "object", "required": []string{"message"}, "additionalProperties": false,
			"properties": object{"message": text, "code": whole, "name": text, "fields": object{"type": "object"}, "options": object{"type": "object"}},
		},
		schemaMessage:   object{"type": "object", "required": []string{"message"}, "additionalProperties": false, "properties": object{"message": text}},
		schemaRevoked:   object{"type": "object", "required": []string{"revoked"}, "additionalProperties": false, "properties": object{"revoked": whole}},
		schemaReference: object{"type": "object", "required": []string{"id"}, "additionalProperties": false, "properties": object{"id": object{"type": "string", "format": "uuid"}}},
		schemaSchema: object{
			"type": "object", "required": []string{"fields"},
			"properties": object{"fields": object{"type": "array", "items": object{"type": "object", "minProperties": 1, "maxProperties": 1}}},
		},
		schemaDocument: object{"type": "object"},
	}
	for _, c := range a.Collections {
		kind := c.Kind
		out[kind.Name] = shownEntity(kind.Schema)
		if !kind.ReadOnly {
			out[kind.Name].(object)["properties"].(object)[fieldWarnings] = object{
				"type": "array", "items": text, "description": "Fields that a write with ?fieldValidation=warn has dropped; in its answer only",
			}
		}
		out[kind.Name+suffixPage] = pageOf(c)
		out[kind.Name+suffixWrite] = givenEntity(kind.Schema, false)
		out[kind.Name+suffixPatch] = givenEntity(kind.Schema, true)
	}
	out[schemaHealth], out[schemaTags], out[schemaChanges] = pageOfHealth(), pageOfTags(), pageOfChanges()
	out[schemaNode], out[schemaNodes], out[schemaDump] = describeNode(), pageOfNodes(), describeDump()
	out[schemaConditions] = describeConditions()
	for _, name := range gateway.PluginNames() {
		config := gateway.Plugins.Schema.Field("config").Record(map[string]any{"name": name})
		out[configName(name)] = shownEntity(config)
		out[configName(name)+suffixWrite] = givenEntity(config, false)
		out[configName(name)+suffixPatch] = givenEntity(config, true)
	}
	return out
}

// configName is the schema of a plugin's configuration.
func configName(plugin string) string { return "plugin_" + strings.ReplaceAll(plugin, "-", "_") }

// configs is the configuration of any plugin.
func configs(suffix string) object {
	var list []any
	for _, name := range gateway.PluginNames() {
		list = append(list, ref(configName(name)+suffix))
	}
	return object{"anyOf": list}
}

func pageOf(c Collection) object {
	page := pageOfItems(ref(c.Kind.Name))
	if c.Total {
		page["required"] = append(page["required"].([]string), "total")
		page["properties"].(object)["total"] = object{"type": "integer", "minimum": 0}
	}
	return page
}

// pageOfHealth is a page of targets with how they are.
func pageOfHealth() object {
	target := shownEntity(gateway.Targets.Schema)
	properties := target["properties"].(object)
	properties["health"] = object{"type": "string", "enum": []string{healthy, unhealthy, healthOff, healthName}}
	properties["data"] = object{"type": "object"}
	target["required"] = append(target["required"].([]string), "health", "data")
	return pageOfItems(target)
}

// pageOfTags is a page of tags, each with what it is on.
func pageOfTags() object {
	text := object{"type": "string"}
	return pageOfItems(object{
		"type": "object", "required": []string{"tag", "entity_name", "entity_id"}, "additionalProperties": false,
		"properties": object{"tag": text, "entity_name": text, "entity_id": object{"type": "string", "format": "uuid"}},
	})
}

func pageOfItems(item object) object {
	return object{
		"type": "object", "required": []string{"data", "next"}, "additionalProperties": false,
		"properties": object{
			"data": object{"type": "array", "items": item}, "next": object{"type": []string{"string", "null"}}, "offset": object{"type": "string"},
			fieldUnreadable: object{
				"type": "array", "items": object{"type": "string"},
				"description": "Paths of what is stored and cannot be read; absent otherwise. A list that lacks something ends with the error 500, in the place of one page more",
			},
		},
	}
}

// shownEntity is the schema of an entity as it is answered: every field is there.
func shownEntity(s *model.Schema) object {
	properties, required := object{}, []string{}
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Hidden {
			continue
		}
		properties[f.Name] = shownField(f)
		required = append(required, f.Name)
		if f.Flat != "" {
			properties[f.Flat] = object{"type": []string{"string", "null"}}
			required = append(required, f.Flat)
		}
	}
	slices.Sort(required)
	return object{"type": "object", "required": required, "properties": properties, "additionalProperties": false}
}

// givenEntity is the schema of what a caller may send. A patch needs nothing.
func givenEntity(s *model.Schema, patch bool) object {
	properties, required := object{}, []string{}
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Hidden {
			continue
		}
		properties[f.Name] = givenField(f, patch)
		if f.Required && f.Default == nil && f.Auto == nil && f.Type != model.Foreign && f.Type != model.Record && !patch && s.Shorthand == nil {
			required = append(required, f.Name)
		}
		if f.Flat != "" {
			properties[f.Flat] = object{"type": []string{"string", "null"}, "format": "uuid"}
		}
	}
	for i := range s.Shorthands {
		properties[s.Shorthands[i].Name] = givenField(&s.Shorthands[i], patch)
	}
	out := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		slices.Sort(required)
		out["required"] = required
	}
	return out
}

package gatewayapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/openapi"
	"github.com/meshgate/meshgate/controlplane/openapi/entity"
	"github.com/meshgate/meshgate/inspect/explain"
)

// The names of the schemas in the OpenAPI document. The schema of an entity in answers has
// the name of its kind. Further schemas of the kind have a suffix.
const (
	suffixPage  = "_page"
	suffixWrite = "_write"
	suffixPatch = "_patch"
	suffixTried = "_or_dry_run"

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
	schemaCompared   = "node_config"
	schemaConditions = "conditions"
	schemaExplained  = "explanation"
	schemaDryRun     = "dry_run"
)

func (a *API) openAPI(w http.ResponseWriter, r *http.Request) {
	doc, err := a.description()
	if err != nil {
		a.fail(w, r, err, call{})
		return
	}
	reply(w, r, http.StatusOK, json.RawMessage(doc))
}

// describe makes the OpenAPI document.
func (a *API) describe() ([]byte, error) {
	paths, components := a.Describe(a.Endpoints())
	doc := openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{
			Title: "Meshgate gateway administration", Version: a.Version,
			Description: "Services, routes, plugins, consumers and their credentials. HEAD answers like GET without a body, OPTIONS lists the methods of a path.\n\n" +
				"There is one workspace, default. Every path may have its name in front, as tools write it that are told a workspace: /default/services is /services. Links in answers do not have it.",
			License: openapi.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers:    []openapi.Server{{URL: "/"}},
		Paths:      paths,
		Components: components,
	}
	if a.Token != "" || a.Rules.IdentityNeeded() {
		doc.Components.SecuritySchemes = map[string]openapi.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
		doc.Security = []map[string][]string{{"token": {}}}
	}
	return json.Marshal(doc)
}

// Describe describes endpoints of this API, at whatever paths, and what their descriptions refer to.
func (a *API) Describe(endpoints []httpkit.Endpoint) (map[string]*openapi.PathItem, openapi.Components) {
	dialect := openapi.Dialect{Subject: openapi.FirstSegment, Body: body, Responses: a.responses, Variable: func(name string) *openapi.Schema {
		if name == pathRevision {
			return openapi.Count()
		}
		return &openapi.Schema{Type: openapi.Types{openapi.Text}, MinLength: new(int64(1))}
	}}
	return dialect.Paths(endpoints), openapi.Components{Schemas: a.components(), Responses: failures()}
}

func body(schema string) *openapi.RequestBody {
	form := openapi.MediaType{Schema: openapi.Of(openapi.Object)}
	return &openapi.RequestBody{Content: map[string]openapi.MediaType{
		"application/json": {Schema: openapi.To(schema)}, "application/x-www-form-urlencoded": form, "multipart/form-data": form,
	}}
}

// responses lists the answers of an endpoint, including those for a missing token and a
// read-only API.
func (a *API) responses(e httpkit.Endpoint) map[string]*openapi.Response {
	out := map[string]*openapi.Response{}
	state := func(status int, schema string) {
		name := strconv.Itoa(status)
		if out[name] = response(status, schema); schema == schemaError {
			out[name] = &openapi.Response{Ref: "#/components/responses/" + name}
		}
	}
	for status, schema := range e.Contract.Answers {
		state(status, schema)
	}
	if e.Method != http.MethodGet {
		state(http.StatusInsufficientStorage, schemaError)
	}
	if a.Token != "" || a.Identify != nil {
		state(http.StatusUnauthorized, schemaError)
	}
	if a.ReadOnly != "" && e.Method != http.MethodGet {
		state(http.StatusMethodNotAllowed, schemaError)
	}
	return out
}

func response(status int, schema string) *openapi.Response {
	r := &openapi.Response{Description: http.StatusText(status)}
	if schema != "" {
		r.Content = map[string]openapi.MediaType{"application/json": {Schema: openapi.To(schema)}}
	}
	return r
}

// failures returns the answers that are the same everywhere.
func failures() map[string]*openapi.Response {
	out := map[string]*openapi.Response{}
	for _, status := range []int{
		http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusInternalServerError, http.StatusServiceUnavailable,
		http.StatusInsufficientStorage,
	} {
		out[strconv.Itoa(status)] = response(status, schemaError)
	}
	return out
}

// components returns the schemas of the kinds, and of other documents.
func (a *API) components() schemas {
	out := schemas{
		schemaError: openapi.Closed(schemas{
			"message": text(), "code": openapi.Of(openapi.Whole), "name": text(),
			"fields": openapi.Of(openapi.Object), "options": openapi.Of(openapi.Object),
		}, "message"),
		schemaMessage:   openapi.Closed(schemas{"message": text()}, "message"),
		schemaRevoked:   openapi.Closed(schemas{"revoked": openapi.Of(openapi.Whole)}, "revoked"),
		schemaReference: openapi.Closed(schemas{"id": identifier()}, "id"),
		schemaSchema: {
			Type: openapi.Types{openapi.Object}, Required: []string{"fields"},
			Properties: schemas{"fields": openapi.List(&openapi.Schema{
				Type: openapi.Types{openapi.Object}, MinProperties: new(int64(1)), MaxProperties: new(int64(1)),
			})},
		},
		schemaDocument: openapi.Of(openapi.Object),
		schemaHealth:   pageOfHealth(), schemaTags: pageOfTags(), schemaChanges: pageOfChanges(),
		schemaNode: openapi.For[nodes.Node](), schemaNodes: pageOfNodes(), schemaDump: describeDump(), schemaCompared: openapi.For[nodes.Comparison](), schemaExplained: openapi.For[explain.Explanation](),
		schemaConditions: describeConditions(), schemaWorkspace: describeWorkspace(), schemaWorkspaces: pageOfWorkspaces(),
	}
	for _, c := range a.Collections {
		kind := c.Kind
		shown := entities.Shown(kind.Schema)
		if !kind.ReadOnly {
			shown.Properties[fieldWarnings] = openapi.List(text()).Says("Fields that a write with ?fieldValidation=warn has dropped; in its answer only")
		}
		out[kind.Name], out[kind.Name+suffixPage] = shown, pageOf(c)
		out[kind.Name+suffixWrite] = entities.Given(kind.Schema)
		out[kind.Name+suffixPatch] = entities.Patch(kind.Schema)
	}
	a.describeDryRuns(out)
	for _, name := range gateway.PluginNames() {
		config := gateway.Plugins.Schema.Field("config").Record(map[string]any{"name": name})
		out[configName(name)] = entities.Shown(config)
		out[configName(name)+suffixWrite] = entities.Given(config)
		out[configName(name)+suffixPatch] = entities.Patch(config)
	}
	return out
}

// entities describes the kinds of this API.
var entities = entity.Dialect{Reference: openapi.To(schemaReference), Variant: func(_ *model.Field, as entity.Form) *openapi.Schema {
	return configs(map[entity.Form]string{entity.Given: suffixWrite, entity.Patched: suffixPatch}[as])
}}

// schemas are schemas by the names of components or properties.
type schemas = map[string]*openapi.Schema

func text() *openapi.Schema { return openapi.Of(openapi.Text) }

func identifier() *openapi.Schema {
	return &openapi.Schema{Type: openapi.Types{openapi.Text}, Format: "uuid"}
}

// configName returns the name of the schema of a plugin's configuration.
func configName(plugin string) string { return "plugin_" + strings.ReplaceAll(plugin, "-", "_") }

// configs returns a schema for the configuration of any plugin.
func configs(suffix string) *openapi.Schema {
	s := &openapi.Schema{}
	for _, name := range gateway.PluginNames() {
		s.AnyOf = append(s.AnyOf, openapi.To(configName(name)+suffix))
	}
	return s
}

func pageOf(c Collection) *openapi.Schema {
	page := pageOfItems(openapi.To(c.Kind.Name))
	if c.Total {
		page.Required = append(page.Required, "total")
		page.Properties["total"] = openapi.Count()
	}
	return page
}

// pageOfHealth returns the schema of a page of targets with their health.
func pageOfHealth() *openapi.Schema {
	target := entities.Shown(gateway.Targets.Schema)
	target.Properties["health"] = openapi.OneOf(healthy, unhealthy, healthOff, healthName)
	target.Properties["data"] = openapi.Of(openapi.Object)
	target.Required = append(target.Required, "health", "data")
	return pageOfItems(target)
}

// pageOfTags returns the schema of a page of tags, each with its entity.
func pageOfTags() *openapi.Schema {
	return pageOfItems(openapi.Closed(schemas{"tag": text(), "entity_name": text(), "entity_id": identifier()}, "tag", "entity_name", "entity_id"))
}

func pageOfItems(item *openapi.Schema) *openapi.Schema {
	return openapi.Closed(schemas{
		"data": openapi.List(item), "next": text().OrNull(), "offset": text(),
		fieldUnreadable: openapi.List(text()).Says(
			"Paths of what is stored and cannot be read; absent otherwise. A list that lacks something ends with the error 500, in the place of one page more"),
	}, "data", "next")
}

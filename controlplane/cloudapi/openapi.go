package cloudapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/openapi"
	"github.com/meshgate/meshgate/controlplane/openapi/entity"
)

// The suffixes of the schemas of a kind. Without one, a schema is what is shown.
const (
	suffixPage    = "_page"
	suffixRequest = "_request"
	suffixChange  = "_change"
)

// pathDocument is where this API describes itself.
const pathDocument = "/openapi.json"

func (a *API) documentEndpoint() httpkit.Endpoint {
	return does(httpkit.Endpoint{Method: http.MethodGet, Pattern: pathDocument, Auth: access.Open, Summary: "Describe this API", Handler: a.openAPI}, "", http.StatusOK, "document")
}

func (a *API) openAPI(w http.ResponseWriter, r *http.Request) {
	doc, err := a.described()
	if err == nil {
		err = httpkit.WriteJSON(w, http.StatusOK, json.RawMessage(doc))
	}
	if err != nil {
		a.fail(w, r, err, nil)
	}
}

// describe makes the OpenAPI document: of the endpoints of this API, and of those of entities, which the
// administration API describes.
func (a *API) describe() ([]byte, error) {
	var own, entities []httpkit.Endpoint
	for _, e := range a.everyEndpoint() {
		if a.isEntity(e.Pattern) {
			entities = append(entities, e)
		} else {
			own = append(own, e)
		}
	}
	dialect := openapi.Dialect{Subject: subject, Body: body, Responses: responses, Variable: func(string) *openapi.Schema {
		return &openapi.Schema{Type: openapi.Types{openapi.Text}, MinLength: new(int64(1))}
	}}
	doc := openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{
			Title: "Meshgate cloud API", Version: a.Version,
			Description: "Audit log destinations and webhooks, portals, control planes and their groups. HEAD answers like GET without a body, OPTIONS lists the methods of a path.",
			License:     openapi.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers:    []openapi.Server{{URL: "/"}},
		Paths:      dialect.Paths(own),
		Components: openapi.Components{Schemas: a.components(), Responses: map[string]*openapi.Response{}, SecuritySchemes: map[string]openapi.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}},
		Security:   []map[string][]string{{"token": {}}},
	}
	if len(entities) > 0 {
		paths, of := a.Planes.Describe(entities)
		maps.Copy(doc.Paths, paths)
		maps.Copy(doc.Components.Schemas, of.Schemas)
		maps.Copy(doc.Components.Responses, of.Responses)
	}
	return json.Marshal(doc)
}

// isEntity reports whether a path is one of entities of a control plane.
func (a *API) isEntity(pattern string) bool {
	return strings.HasPrefix(pattern, pathEntities+"/") || strings.HasPrefix(pattern, olderPath+"/{")
}

// subject tells the parts of this API apart: by what follows the base of a path.
func subject(pattern string) string {
	return openapi.FirstSegment("/" + strings.TrimPrefix(strings.TrimPrefix(pattern, base), "/"))
}

func body(schema string) *openapi.RequestBody {
	return &openapi.RequestBody{Content: map[string]openapi.MediaType{"application/json": {Schema: openapi.To(schema)}}}
}

// responses lists the answers of an endpoint.
func responses(e httpkit.Endpoint) map[string]*openapi.Response {
	out := map[string]*openapi.Response{}
	for status, schema := range e.Contract.Answers {
		r := &openapi.Response{Description: http.StatusText(status)}
		if schema != "" {
			kind := "application/json"
			if schema == schemaProblem {
				kind = typeProblem
			}
			r.Content = map[string]openapi.MediaType{kind: {Schema: openapi.To(schema)}}
		}
		out[strconv.Itoa(status)] = r
	}
	return out
}

// schemas are schemas by the names of components or properties.
type schemas = map[string]*openapi.Schema

// kinds describes the kinds of this API. None of them has records that vary.
var kinds = entity.Dialect{Reference: openapi.Of(openapi.Object), Variant: func(*model.Field, entity.Form) *openapi.Schema { return openapi.Of(openapi.Object) }}

// components returns all schemas.
func (a *API) components() schemas {
	out := schemas{
		schemaProblem: problemSchema(), "document": openapi.Of(openapi.Object), "jwks": openapi.For[audit.Keys](),
		"audit_log_webhook_status": openapi.For[webhookStatus](), "audit_log_webhook_test": openapi.For[testEvent](), "audit_log_replay_job": openapi.For[replayJob](),
		"portal_verification_token": openapi.For[verificationToken](), "portal_verified": openapi.For[verified](),
	}
	maps.Copy(out, planeSchemas())
	maps.Copy(out, bodies())
	for _, c := range append(a.collections[:len(a.collections):len(a.collections)], portals, developers) {
		c.describe(out)
	}
	amend(out)
	shown := out[cloud.Portals.Name]
	for _, name := range []string{"application_count", "developer_count", "published_product_count"} {
		shown.Properties[name] = openapi.Count()
	}
	shown.Properties["default_domain"] = openapi.Of(openapi.Text)
	return out
}

// describe adds the schemas of a kind.
func (c *Collection) describe(out schemas) {
	name := c.Kind.Name
	out[name], out[name+suffixRequest] = c.shown(), writtenOf(c.Kind.Schema)
	if !c.Fixed {
		out[name+suffixChange] = changeOf(c.Kind.Schema)
	}
	out[name+suffixPage] = c.page(openapi.To(name))
}

// shown describes a resource without its secrets, with the times of this API, and with what only the
// answer to its creation has.
func (c *Collection) shown() *openapi.Schema {
	s := kinds.Shown(c.Kind.Schema)
	for _, pointer := range c.Kind.Secrets {
		delete(s.Properties, strings.TrimPrefix(pointer, "/"))
	}
	s.Properties[model.FieldCreated], s.Properties[model.FieldUpdated] = openapi.Moment(), openapi.Moment()
	if c.Issue != nil {
		_, once := c.Issue()
		for name := range once {
			s.Properties[name] = openapi.Of(openapi.Text).Says("Only in the answer to the creation")
		}
	}
	s.Required = []string{model.FieldID}
	return s
}

// page describes a page of a list.
func (c *Collection) page(item *openapi.Schema) *openapi.Schema {
	meta := openapi.Closed(schemas{"size": openapi.Count(), "next": openapi.Of(openapi.Text).OrNull(), "previous": openapi.Of(openapi.Text).OrNull()}, "size", "next", "previous")
	if c.Paging == byNumber {
		meta = openapi.Closed(schemas{"page": openapi.Closed(schemas{"number": openapi.Count(), "size": openapi.Count(), "total": openapi.Count()}, "number", "size", "total")}, "page")
	}
	return openapi.Closed(schemas{"data": openapi.List(item), "meta": meta}, "data", "meta")
}

// problemSchema describes the documents for errors.
func problemSchema() *openapi.Schema {
	text := func() *openapi.Schema { return openapi.Of(openapi.Text) }
	count := func() *openapi.Schema { return openapi.Of(openapi.Whole) }
	bad := openapi.Closed(schemas{
		"field": text(), "reason": text(), "rule": text(), "source": openapi.OneOf(fromBody, fromQuery), "choices": openapi.List(text()), "minimum": count(), "maximum": count(),
	}, "field", "reason")
	return openapi.Closed(schemas{
		"status": count(), "title": text(), "instance": text(), "detail": text(), "invalid_parameters": openapi.List(bad),
	}, "status", "title", "instance", "detail")
}

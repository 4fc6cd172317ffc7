package meshapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

// openAPI serves the document, which is made at the first request.
func (a *API) openAPI() http.HandlerFunc {
	described := sync.OnceValues(a.describe)
	return func(w http.ResponseWriter, r *http.Request) {
		doc, err := described()
		if err != nil {
			fail(w, r, opGet, err)
			return
		}
		write(w, http.StatusOK, mediaJSON, doc)
	}
}

// describe makes the OpenAPI document from the endpoints and the schemas of the kinds.
func (a *API) describe() ([]byte, error) {
	dialect := openapi.Dialect{Body: requestBody, Responses: responses, Variable: variable, Subject: func(pattern string) string {
		if inMesh, ok := strings.CutPrefix(pattern, strings.TrimSuffix(prefixMesh, "/")); ok {
			pattern = inMesh
		}
		subject, _, _ := strings.Cut(openapi.FirstSegment(pattern), "+")
		return subject
	}}
	return json.Marshal(openapi.Document{
		OpenAPI: openapi.Version,
		Info: openapi.Info{
			Title: "Meshgate mesh", Version: a.Version, License: openapi.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
			Description: "Meshes, dataplanes, policies and secrets as documents, and what is known of nodes, keys and changes. " +
				"Documents are taken as they are shown, and more loosely: names of members in snake_case, too, and null for what is absent.",
		},
		Servers:    []openapi.Server{{URL: "/"}},
		Paths:      dialect.Paths(a.Endpoints()),
		Components: openapi.Components{Schemas: a.components(), Responses: map[string]*openapi.Response{}},
	})
}

func variable(name string) *openapi.Schema {
	if name == pathRevision {
		return openapi.Count()
	}
	return &openapi.Schema{Type: openapi.Types{openapi.Text}, MinLength: new(int64(1))}
}

// requestBody returns a body in any supported media type.
func requestBody(schema string) *openapi.RequestBody {
	content := openapi.MediaType{Schema: openapi.To(schema)}
	return &openapi.RequestBody{Content: map[string]openapi.MediaType{mediaJSON: content, mediaYAML: content}}
}

func responses(e httpkit.Endpoint) map[string]*openapi.Response {
	out := map[string]*openapi.Response{}
	for status, schema := range e.Contract.Answers {
		r := &openapi.Response{Description: http.StatusText(status)}
		switch schema {
		case "":
		case schemaPage:
			r.Content = map[string]openapi.MediaType{mediaText: {Schema: openapi.To(schemaText)}, mediaJSON: {Schema: openapi.To(schemaPage)}}
		case schemaHTML:
			r.Content = map[string]openapi.MediaType{mediaHTML: {Schema: openapi.To(schemaText)}}
		case schemaText:
			r.Content = map[string]openapi.MediaType{mediaText: {Schema: openapi.To(schema)}}
		default:
			r.Content = map[string]openapi.MediaType{mediaJSON: {Schema: openapi.To(schema)}}
		}
		out[strconv.Itoa(status)] = r
	}
	return out
}

// schemas are schemas by the names of components or properties.
type schemas = map[string]*openapi.Schema

func text() *openapi.Schema { return openapi.Of(openapi.Text) }

// anyOf returns a schema for one of several components.
func anyOf(names ...string) *openapi.Schema {
	s := &openapi.Schema{}
	for _, n := range names {
		s.AnyOf = append(s.AnyOf, openapi.To(n))
	}
	return s
}

// pageOf returns the schema of a list, with further members.
func pageOf(item *openapi.Schema, more schemas) *openapi.Schema {
	page := openapi.Closed(schemas{"total": openapi.Count(), "items": openapi.List(item), "next": text().OrNull()}, "total", "items", "next")
	for name, s := range more {
		page.Properties[name] = s
	}
	return page
}

// components returns the schemas of the kinds, and of other documents.
func (a *API) components() schemas {
	keys := openapi.Closed(schemas{"total": openapi.Count(), "items": openapi.List(openapi.For[Key]())}, "total", "items")
	out := schemas{
		schemaText: text(), schemaPage: (&openapi.Schema{}).Says("As Envoy has it"), schemaError: openapi.For[errorBody](), schemaFailure: anyOf(schemaError, schemaMessage),
		schemaMessage:  openapi.Closed(schemas{"message": text()}, "message"),
		schemaStored:   openapi.For[warned]().Says("Only where something is warned of; empty otherwise"),
		schemaObject:   openapi.For[object]().Says("A document as a custom resource; a secret as a core one"),
		schemaDocument: openapi.Of(openapi.Object),
		schemaIndex:    {Type: openapi.Types{openapi.Object}, AdditionalProperties: text()},
		schemaPolicies: openapi.Closed(schemas{"policies": openapi.List(openapi.For[policy]())}, "policies"),
		schemaVersions: openapi.Closed(schemas{"meshDp": {
			Type: openapi.Types{openapi.Object}, AdditionalProperties: openapi.Closed(schemas{"proxy": text()}, "proxy"),
		}}, "meshDp"),
		schemaUser: openapi.For[user](),
		schemaConditions: openapi.Closed(schemas{
			"message": text().Says("ready, or what is missing for that"), "mark": text(), "conditions": openapi.List(openapi.For[health.Condition]()),
		}, "message"),
		schemaChanges: pageOf(openapi.For[changes.Shown](), schemas{"oldest": openapi.Count()}),
		schemaNode:    openapi.For[nodes.Node](), schemaNodes: pageOf(openapi.To(schemaNode), schemas{"mark": text()}),
		schemaDump: {Type: openapi.Types{openapi.Object}, Properties: schemas{"configs": openapi.List(&openapi.Schema{})}, Required: []string{"configs"}},
		schemaKeys: keys, schemaRotation: openapi.For[KeyRotation](), schemaAdded: openapi.Closed(schemas{"added": openapi.Count()}, "added"),
		schemaRevocation: optional(openapi.For[tokenRevocation](), "ids"),
		schemaToken:      optional(openapi.For[identity.DataplaneTokenRequest]()), schemaForUser: optional(openapi.For[identity.UserTokenRequest](), "name", "validFor"),
		schemaForZone: optional(openapi.For[identity.ZoneTokenRequest](), "scope"), schemaIngress: optional(openapi.For[identity.ZoneIngressTokenRequest](), "zone"), schemaGateway: optional(openapi.For[gatewayTokenRequest](), "name"),
	}
	describeSelections(out)
	describeConfigurations(out)
	a.describeDryRuns(out)
	for _, k := range a.Kinds {
		if k.Document != nil {
			describeKind(k, out)
		}
	}
	a.describeOverviews(out)
	a.describeInsights(out)
	return out
}

// optional makes all members of an object optional, except the required ones.
func optional(s *openapi.Schema, required ...string) *openapi.Schema {
	s.Required = required
	return s
}

package openapi

import (
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// Dialect is what one API does in its own way.
type Dialect struct {
	// Variable describes a name in a pattern.
	Variable func(name string) *Schema
	// Subject is what an operation is filed under.
	Subject func(pattern string) string
	// Body is the body that has a schema, Responses the answers of an endpoint by status.
	Body      func(schema string) *RequestBody
	Responses func(e httpkit.Endpoint) map[string]*Response
}

// Paths describes endpoints. What a router runs is all that it needs: there is no other
// description that could differ from it.
func (d Dialect) Paths(endpoints []httpkit.Endpoint) map[string]*PathItem {
	paths := map[string]*PathItem{}
	for _, e := range endpoints {
		item := paths[e.Pattern]
		if item == nil {
			item = &PathItem{Parameters: d.variables(e.Pattern)}
			paths[e.Pattern] = item
		}
		*item.at(e.Method) = d.operation(e)
	}
	return paths
}

// at is the place of a method. It panics for one that no API has.
func (i *PathItem) at(method string) **Operation {
	switch method {
	case http.MethodDelete:
		return &i.Delete
	case http.MethodGet:
		return &i.Get
	case http.MethodPatch:
		return &i.Patch
	case http.MethodPost:
		return &i.Post
	case http.MethodPut:
		return &i.Put
	}
	panic("openapi: no API has the method " + method)
}

func (d Dialect) variables(pattern string) (list []*Parameter) {
	for segment := range strings.SplitSeq(pattern, "/") {
		if name, ok := strings.CutPrefix(strings.TrimSuffix(segment, "}"), "{"); ok {
			list = append(list, &Parameter{Name: name, In: "path", Required: true, Schema: d.Variable(name)})
		}
	}
	return list
}

func (d Dialect) operation(e httpkit.Endpoint) *Operation {
	op := &Operation{
		OperationID: operationID(e), Summary: e.Summary, Tags: []string{d.Subject(e.Pattern)}, Responses: d.Responses(e),
	}
	for _, q := range e.Contract.Query {
		op.Parameters = append(op.Parameters, &Parameter{Name: q.Name, In: "query", Description: q.Summary, Schema: Of(q.Type)})
	}
	if e.Contract.Body != "" {
		op.RequestBody = d.Body(e.Contract.Body)
	}
	return op
}

// operationID names an operation by its method and path, in the characters that
// generators of clients make identifiers of.
func operationID(e httpkit.Endpoint) string {
	return strings.ToLower(e.Method) + strings.NewReplacer("/", "_", "{", "", "}", "", "-", "_", ".", "_", "+", "_with_").Replace(e.Pattern)
}

// FirstSegment is the subject of a pattern in an API whose collections are at its root.
func FirstSegment(pattern string) string {
	if s := strings.Split(pattern, "/")[1]; s != "" {
		return s
	}
	return "information"
}

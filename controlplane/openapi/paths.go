package openapi

import (
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// Dialect holds the differences between the APIs.
type Dialect struct {
	// Variable describes a variable in a pattern.
	Variable func(name string) *Schema
	// Subject returns the tag of an operation.
	Subject func(pattern string) string
	// Body returns the body for a schema, Responses the answers of an endpoint by status.
	Body      func(schema string) *RequestBody
	Responses func(e httpkit.Endpoint) map[string]*Response
}

// Paths describes endpoints. It needs only the endpoints of the router, so no other
// description can differ from them.
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

// at returns the place of a method. It panics for a method that no API has.
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

// operationID names an operation by its method and path, with only such characters that
// client generators can make identifiers from it.
func operationID(e httpkit.Endpoint) string {
	return strings.ToLower(e.Method) + strings.NewReplacer("/", "_", "{", "", "}", "", "-", "_", ".", "_", "+", "_with_").Replace(e.Pattern)
}

// FirstSegment returns the subject of a pattern in an API whose collections are at its root.
func FirstSegment(pattern string) string {
	if s := strings.Split(pattern, "/")[1]; s != "" {
		return s
	}
	return "information"
}

// Package openapi has the documents that describe the APIs, as OpenAPI 3.1 with JSON Schema
// 2020-12. It makes them from what the program runs on: the endpoints of a router, and Go
// types. Members of the structs are sorted by name, because they are written in this order.
package openapi

// Version is the version of the specification.
const Version = "3.1.0"

// Document describes one API.
type Document struct {
	Components Components            `json:"components"`
	Info       Info                  `json:"info"`
	OpenAPI    string                `json:"openapi"`
	Paths      map[string]*PathItem  `json:"paths"`
	Security   []map[string][]string `json:"security,omitzero"`
	Servers    []Server              `json:"servers"`
}

// Info describes an API.
type Info struct {
	Description string  `json:"description"`
	License     License `json:"license"`
	Title       string  `json:"title"`
	Version     string  `json:"version"`
}

// License is a license of SPDX.
type License struct {
	Identifier string `json:"identifier"`
	Name       string `json:"name"`
}

// Server is the location of an API.
type Server struct {
	URL string `json:"url"`
}

// Components holds what the rest of a document refers to.
type Components struct {
	Responses       map[string]*Response      `json:"responses"`
	Schemas         map[string]*Schema        `json:"schemas"`
	SecuritySchemes map[string]SecurityScheme `json:"securitySchemes,omitzero"`
}

// SecurityScheme says how callers authenticate.
type SecurityScheme struct {
	Scheme string `json:"scheme"`
	Type   string `json:"type"`
}

// PathItem has the operations of one path.
type PathItem struct {
	Delete     *Operation   `json:"delete,omitzero"`
	Get        *Operation   `json:"get,omitzero"`
	Parameters []*Parameter `json:"parameters,omitzero"`
	Patch      *Operation   `json:"patch,omitzero"`
	Post       *Operation   `json:"post,omitzero"`
	Put        *Operation   `json:"put,omitzero"`
}

// Operation is one method of one path.
type Operation struct {
	OperationID string               `json:"operationId"`
	Parameters  []*Parameter         `json:"parameters,omitzero"`
	RequestBody *RequestBody         `json:"requestBody,omitzero"`
	Responses   map[string]*Response `json:"responses"`
	Summary     string               `json:"summary"`
	Tags        []string             `json:"tags"`
}

// Parameter is a part of a path or query.
type Parameter struct {
	Description string  `json:"description,omitzero"`
	In          string  `json:"in"`
	Name        string  `json:"name"`
	Required    bool    `json:"required,omitzero"`
	Schema      *Schema `json:"schema"`
}

// RequestBody describes the input of an operation.
type RequestBody struct {
	Content map[string]MediaType `json:"content"`
}

// Response describes the answer of an operation with one status.
type Response struct {
	Ref         string               `json:"$ref,omitzero"`
	Content     map[string]MediaType `json:"content,omitzero"`
	Description string               `json:"description,omitzero"`
}

// MediaType is a body of one media type.
type MediaType struct {
	Schema *Schema `json:"schema"`
}

package cloudapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// schemaProblem is the schema of errors.
const schemaProblem = "problem"

// does sets the contract of an endpoint: the schema of its body, the status and the schema of its
// answer, and the failures that all endpoints of its sort have.
func does(e httpkit.Endpoint, body string, status int, answer string, query ...httpkit.Parameter) httpkit.Endpoint {
	answers := map[int]string{
		status: answer, http.StatusBadRequest: schemaProblem, http.StatusNotFound: schemaProblem, http.StatusInternalServerError: schemaProblem, http.StatusServiceUnavailable: schemaProblem,
	}
	if e.Auth != access.Open {
		answers[http.StatusUnauthorized], answers[http.StatusForbidden] = schemaProblem, schemaProblem
	}
	if body != "" {
		answers[http.StatusRequestEntityTooLarge], answers[http.StatusUnsupportedMediaType] = schemaProblem, schemaProblem
	}
	if e.Method != http.MethodGet {
		answers[http.StatusConflict] = schemaProblem
	}
	e.Contract = httpkit.Contract{Query: query, Body: body, Answers: answers}
	return e
}

// also adds failures to the contract of an endpoint.
func also(e httpkit.Endpoint, statuses ...int) httpkit.Endpoint {
	for _, status := range statuses {
		e.Contract.Answers[status] = schemaProblem
	}
	return e
}

// The parameters of pages.
var (
	paramSize   = httpkit.Parameter{Name: argSize, Type: "integer", Summary: "How many in a page, 1 to 100"}
	paramNumber = httpkit.Parameter{Name: argNumber, Type: "integer", Summary: "Which page, from 1"}
	paramAfter  = httpkit.Parameter{Name: argAfter, Type: "string", Summary: "The page after a cursor, which the answer with the page before has"}
	paramBefore = httpkit.Parameter{Name: argBefore, Type: "string", Summary: "The page before a cursor"}
)

// parameters are those of the list of a collection. It takes no others; see [served.wanted].
func (c *Collection) parameters() []httpkit.Parameter {
	list := []httpkit.Parameter{paramSize}
	if c.Paging == byNumber {
		list = append(list, paramNumber)
	} else {
		list = append(list, paramAfter, paramBefore)
	}
	if len(c.Sorts) > 0 {
		list = append(list, httpkit.Parameter{Name: argSort, Type: "string", Summary: "The members to sort by, each followed by asc or desc"})
	}
	if c.Labelled {
		list = append(list, httpkit.Parameter{Name: argLabels, Type: "string", Summary: "The labels that it has: key:value or key, separated by commas"})
	}
	for _, name := range c.Filters {
		list = append(list, httpkit.Parameter{Name: filterOf(name), Type: "string", Summary: "The value of " + name})
		for _, o := range operators {
			list = append(list, httpkit.Parameter{Name: filterOf(name) + "[" + o.name + "]", Type: "string", Summary: name + " " + o.summary})
		}
	}
	return list
}

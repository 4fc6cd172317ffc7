package cloudapi

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/store"
)

// typeProblem is the media type of errors (RFC 9457).
const typeProblem = "application/problem+json"

// problem is an error document.
type problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	// Instance names the request; the log has the same number.
	Instance string `json:"instance"`
	Detail   string `json:"detail"`
	// Invalid is what is wrong with the request; only in answers with 400, and never empty there.
	Invalid []invalid `json:"invalid_parameters,omitempty"`
}

// Error implements error.
func (p *problem) Error() string { return p.Title + ": " + p.Detail }

// invalid is one thing that is wrong with a request.
type invalid struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
	Rule   string `json:"rule,omitempty"`
	// Source is body or query.
	Source string `json:"source,omitempty"`
	// Choices are the values of rule enum; Minimum and Maximum belong to rules about lengths.
	Choices []string `json:"choices,omitempty"`
	Minimum *int     `json:"minimum,omitempty"`
	Maximum *int     `json:"maximum,omitempty"`
}

// The titles and details that clients know.
const (
	titleBad          = "Bad Request"
	titleInvalid      = "Invalid Request"
	detailInvalid     = "Invalid Parameters"
	titleUnauthorized = "Unauthorized"
	detailToken       = "A valid token is required"
	titleForbidden    = "Forbidden"
	// Endpoints of control planes have words of their own for two of them.
	titleUnauthenticated = "Unauthenticated"
	titlePermission      = "Permission denied"
	detailForbidden      = "You do not have permission to perform this action"
	titleNotFound        = "Not Found"
	titleConflict        = "Conflict"
	titleUnavailable     = "Service Unavailable"
	titleInternal        = "Internal Server Error"
	titleTooLarge        = "Content Too Large"
	titleMediaType       = "Unsupported Media Type"
	titleMethod          = "Method Not Allowed"
)

// refused is a document for what is wrong with a request.
func refused(list ...invalid) *problem {
	return &problem{Status: http.StatusBadRequest, Title: titleInvalid, Detail: detailInvalid, Invalid: list}
}

// trace is the number under which the log has a request, in the form in which documents name it.
func trace(r *http.Request) string {
	if number, ok := httpkit.EntryOf(r.Context()).Number(); ok {
		return number
	}
	return ""
}

// fail answers a request with its error. Only here do errors become documents of this API.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error, c *Collection) {
	httpkit.Later(w, err)
	p := a.problemOf(r, err, c)
	p.Instance = a.Vendor + ":trace:" + trace(r)
	body, err := json.Marshal(p)
	if err == nil {
		err = httpkit.WriteBody(w, p.Status, typeProblem, body)
	}
	if err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
	}
}

func (a *API) problemOf(r *http.Request, err error, c *Collection) *problem {
	entry := httpkit.EntryOf(r.Context())
	if p, ok := errors.AsType[*problem](err); ok {
		entry.Code = p.Title
		return &problem{Status: p.Status, Title: p.Title, Detail: p.Detail, Invalid: p.Invalid}
	}
	if e, ok := errors.AsType[*httpkit.BodyError](err); ok {
		entry.Code = "bad_body"
		return bodyProblem(e)
	}
	err = httpkit.Unawaited(r, err)
	code := fault.CodeOf(err)
	entry.Code = string(code)
	switch code {
	case fault.Invalid:
		return badQuery(err)
	case fault.Denied:
		return &problem{Status: http.StatusUnauthorized, Title: ofPlanes(r, titleUnauthorized, titleUnauthenticated), Detail: detailToken}
	case fault.Forbidden:
		return &problem{Status: http.StatusForbidden, Title: ofPlanes(r, titleForbidden, titlePermission), Detail: detailForbidden}
	case fault.NotFound:
		return &problem{Status: http.StatusNotFound, Title: titleNotFound, Detail: c.missing()}
	case fault.Unique, fault.Exists:
		return &problem{Status: http.StatusConflict, Title: titleConflict, Detail: c.clash(err)}
	case fault.Referenced:
		return &problem{Status: http.StatusConflict, Title: titleConflict, Detail: "It is in use"}
	case fault.Conflict:
		return &problem{Status: http.StatusConflict, Title: titleConflict, Detail: "It is being changed by others"}
	case fault.Unavailable, fault.Unstored:
		entry.Cause = err
		return &problem{Status: http.StatusServiceUnavailable, Title: titleUnavailable, Detail: "It cannot be done now; try again"}
	default:
	}
	entry.Cause = err
	return &problem{Status: http.StatusInternalServerError, Title: titleInternal, Detail: httpkit.TextInternal}
}

// badQuery is the document for parameters of a query that are refused before anything looks at the body.
// What is wrong with a body has become a document where the body was read; see [served.refusal].
func badQuery(err error) *problem {
	e, _ := errors.AsType[*fault.Error](err) // its code was read off it
	var list []invalid
	for _, v := range e.Violations {
		rule := ruleInvalid
		switch {
		case v.Message == httpkit.TextDryRun:
			rule = "is_boolean"
		case strings.HasPrefix(v.Message, httpkit.TextUnknownParameter):
			rule = ruleUnknown
		}
		list = append(list, invalid{Field: v.Path, Reason: v.Message, Rule: rule, Source: fromQuery})
	}
	if len(list) == 0 {
		list = append(list, invalid{Field: fromQuery, Reason: e.Detail, Rule: ruleInvalid, Source: fromQuery})
	}
	return refused(list...)
}

// bodyProblem is the document for a body, or a query, that cannot be read.
func bodyProblem(e *httpkit.BodyError) *problem {
	if e.Query {
		return refused(invalid{Field: fromQuery, Reason: e.Message, Rule: ruleInvalid, Source: fromQuery})
	}
	switch e.Status {
	case http.StatusRequestEntityTooLarge:
		return &problem{Status: e.Status, Title: titleTooLarge, Detail: e.Message}
	case http.StatusUnsupportedMediaType:
		return &problem{Status: e.Status, Title: titleMediaType, Detail: "The body must be JSON"}
	}
	return &problem{
		Status: http.StatusBadRequest, Title: titleBad, Detail: "Could not parse request body",
		Invalid: []invalid{{Field: "body", Reason: "request format is invalid"}},
	}
}

// clash says which value somebody else has.
func (c *Collection) clash(err error) string {
	e, _ := errors.AsType[*fault.Error](err)
	if e != nil && c != nil {
		if s, ok := e.Subject.(store.UniqueViolation); ok {
			return c.Title + " with provided " + s.Index + " already exists."
		}
	}
	return "It exists already"
}

// ofPlanes returns the second title for a request about control planes.
func ofPlanes(r *http.Request, title, planes string) string {
	if strings.HasPrefix(r.URL.Path, pathPlanes) {
		return planes
	}
	return title
}

// missing says that a resource does not exist.
func (c *Collection) missing() string {
	if c == nil {
		return titleNotFound
	}
	return cmp.Or(c.Missing, titleNotFound)
}

// missing is the document for a path that does not exist, or a method that it does not have.
func (a *API) missing(w http.ResponseWriter, r *http.Request, status int) {
	title := titleNotFound
	if status == http.StatusMethodNotAllowed {
		title = titleMethod
	}
	a.fail(w, r, &problem{Status: status, Title: title, Detail: title}, nil)
}

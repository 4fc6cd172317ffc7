package meshapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

const (
	textInvalid  = "Resource is not valid"
	textInternal = "Internal Server Error"
)

// row is the answer to a fault. If title is empty, that of the operation is used; if detail
// is empty, that of the fault.
type row struct {
	status        int
	title, detail string
}

// rows holds the common answers to faults.
var rows = map[fault.Code]row{
	fault.Invalid:     {status: http.StatusBadRequest},
	fault.Dangling:    {status: http.StatusBadRequest},
	fault.Referenced:  {status: http.StatusBadRequest},
	fault.Unique:      {status: http.StatusBadRequest},
	fault.Denied:      {http.StatusUnauthorized, "Invalid authentication data", "Unauthenticated"},
	fault.Forbidden:   {status: http.StatusForbidden, title: "Access Denied"},
	fault.NotFound:    {status: http.StatusNotFound, detail: "Not found"},
	fault.Unsupported: {status: http.StatusMethodNotAllowed, title: "Method not allowed"},
	fault.Conflict:    {status: http.StatusConflict, title: "Conflict"},
	fault.Exists:      {status: http.StatusConflict, title: "Conflict"},
	fault.TooLarge:    {status: http.StatusRequestEntityTooLarge},
	fault.Internal:    {status: http.StatusInternalServerError, detail: textInternal},
	fault.Unavailable: {status: http.StatusServiceUnavailable},
	fault.Unstored:    {status: http.StatusInsufficientStorage},
}

// operation is an operation that can fail.
type operation struct {
	title string
	// rows holds answers that differ from the common ones.
	rows map[fault.Code]row
}

// The operations.
var (
	opAuthenticate = operation{title: "Invalid authentication data"}
	opMesh         = operation{title: "Failed to retrieve Mesh"}
	opGet          = operation{title: "Could not retrieve a resource"}
	opList         = operation{title: "Could not retrieve resources"}
	opSize         = operation{opList.title, map[fault.Code]row{fault.Invalid: {status: http.StatusBadRequest, detail: "Invalid page size"}}}
	opOffset       = operation{opList.title, map[fault.Code]row{fault.Invalid: {status: http.StatusBadRequest, detail: "Invalid offset"}}}
	opFormat       = operation{title: "invalid format"}
	opDecode       = operation{title: "Bad Request"}
	opProcess      = operation{title: "Could not process a resource"}
	opCreate       = operation{title: "Could not create a resource"}
	opUpdate       = operation{title: "Could not update a resource"}
	opDelete       = operation{title: "Could not delete a resource"}
	opDump         = operation{title: "Could not execute admin operation"}
	opDumpTarget   = operation{title: "Could not get dataplane resource"}
	opContext      = operation{title: "Could not build MeshContext"}
	opMatched      = operation{title: "Could not get MatchedPolicies"}
	opChosen       = operation{title: "Could not list Dataplanes"}
	opIssue        = operation{title: "Could not issue a token"}
	opToken        = operation{"Could not issue a token", map[fault.Code]row{
		fault.Invalid:  {status: http.StatusBadRequest, title: "Invalid request"},
		fault.NotFound: {status: http.StatusNotFound, title: "Signing Key not found"},
	}}
)

// errorBody is the body of an error. It contains its texts twice, because older clients read
// details and causes.
type errorBody struct {
	Type       string      `json:"type"`
	Status     int         `json:"status"`
	Title      string      `json:"title"`
	Detail     string      `json:"detail"`
	Parameters []parameter `json:"invalid_parameters,omitempty"`
	Details    string      `json:"details"`
	Causes     []cause     `json:"causes,omitempty"`
}

type parameter struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

type cause struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// describe returns the document of an error. It does not reveal the cause of an internal
// error.
func describe(op operation, err error) errorBody {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		e = fault.New(fault.Internal, textInternal)
	}
	found, ok := op.rows[e.Code]
	if !ok {
		if found, ok = rows[e.Code]; !ok {
			found = rows[fault.Internal]
		}
	}
	detail := e.Detail
	if len(e.Violations) > 0 {
		detail = textInvalid
	}
	detail = cmp.Or(found.detail, detail)
	d := errorBody{
		Type: "/std-errors", Status: found.status, Title: cmp.Or(found.title, op.title), Detail: detail, Details: detail,
	}
	for _, v := range e.Violations {
		d.Parameters = append(d.Parameters, parameter{v.Path, v.Message})
		d.Causes = append(d.Causes, cause{v.Path, v.Message})
	}
	return d
}

// fail answers with an error.
func fail(w http.ResponseWriter, r *http.Request, op operation, err error) {
	err = httpkit.Unawaited(r, err)
	entry, d := httpkit.EntryOf(r.Context()), describe(op, err)
	entry.Code = string(fault.CodeOf(err))
	if d.Status >= http.StatusInternalServerError {
		entry.Cause = err
	}
	if d.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	httpkit.Later(w, err)
	reply(w, r, d.Status, d)
}

// reply answers with a document.
func reply(w http.ResponseWriter, r *http.Request, status int, document any) {
	body, err := encode(document)
	if err != nil {
		fail(w, r, operation{title: textInternal}, err)
		return
	}
	write(w, status, mediaJSON, body)
}

// encode returns a document in the form of this API: indented by one space, without
// escapes for HTML, and with a newline at the end.
func encode(document any) ([]byte, error) {
	raw, err := compact(document)
	if err != nil {
		return nil, err
	}
	return append(indent(make([]byte, 0, 2*len(raw)), raw, 0), '\n'), nil
}

// compact returns a document without spaces.
func compact(document any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(document)
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), err
}

// write answers with a body of any type, which must not be cached.
func write(w http.ResponseWriter, status int, mediaType string, body []byte) {
	_ = httpkit.WriteBody(w, status, mediaType, body) // an error means that the client is gone
}

// empty answers a write that succeeded.
func empty(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(status)
}

package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strings"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// errorBody is the error document. Its codes are part of the API and never change.
type errorBody struct {
	Code    int            `json:"code"`
	Name    string         `json:"name"`
	Message string         `json:"message"`
	Fields  map[string]any `json:"fields,omitempty"`
	// Options replaces Fields if the error is about a query parameter.
	Options map[string]any `json:"options,omitempty"`
}

// problem is an error with its document.
type problem struct {
	status int
	doc    errorBody
}

// Error implements error.
func (p *problem) Error() string { return p.doc.Message }

// call holds the parts of a failed call that its answer may need.
type call struct {
	collection Collection
	// given is the body, key is the key in the path.
	given map[string]any
	key   string
	// detailed requests the error document for a missing resource.
	detailed bool
}

// fail answers a call with its error. Only here do domain errors become documents of this
// API.
func (a *API) fail(w http.ResponseWriter, r *http.Request, err error, c call) {
	entry := httpkit.EntryOf(r.Context())
	httpkit.Later(w, err)
	if e, ok := errors.AsType[*httpkit.BodyError](err); ok {
		entry.Code = "bad_body"
		e.Write(w)
		return
	}
	if p, ok := errors.AsType[*problem](err); ok {
		entry.Code = p.doc.Name
		reply(w, r, p.status, p.doc)
		return
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		entry.Code = "canceled"
		httpkit.WriteMessage(w, http.StatusServiceUnavailable, "The request was not completed in time")
		return
	}
	if a.failUnreadable(w, entry, err) {
		return
	}
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		e = fault.Wrap(fault.Internal, err, httpkit.TextInternal)
	}
	entry.Code = string(e.Code)
	if p := c.problem(e); p != nil {
		reply(w, r, p.status, p.doc)
		return
	}
	status, known := statuses[e.Code]
	text := e.Detail
	switch {
	case !known:
		entry.Cause = err
		status, text = http.StatusInternalServerError, httpkit.TextInternal
	case e.Code == fault.NotFound:
		text = "Not found"
	case e.Code == fault.Unavailable, e.Code == fault.Unstored:
		entry.Cause = err
	}
	httpkit.WriteMessage(w, status, text)
}

// statuses lists the faults that are answered with their detail alone.
var statuses = map[fault.Code]int{
	fault.NotFound:    http.StatusNotFound,
	fault.Conflict:    http.StatusConflict,
	fault.Forbidden:   http.StatusForbidden,
	fault.Denied:      http.StatusUnauthorized,
	fault.Unsupported: http.StatusNotImplemented,
	fault.Unavailable: http.StatusServiceUnavailable,
	fault.Unstored:    http.StatusInsufficientStorage,
	fault.TooLarge:    http.StatusRequestEntityTooLarge,
}

// problem returns the error document of a fault, or nil if it has none.
func (c call) problem(e *fault.Error) *problem {
	switch e.Code {
	case fault.Invalid:
		return schemaViolation(e.Violations)
	case fault.Unique:
		if s, ok := e.Subject.(store.UniqueViolation); ok {
			return c.uniqueViolation(s)
		}
	case fault.Exists:
		id, _ := c.given[model.FieldID].(string)
		key := map[string]any{model.FieldID: strings.ToLower(id)}
		return &problem{http.StatusBadRequest, errorBody{Code: 3, Name: "primary key violation", Message: "primary key violation on key '" + literal(key) + "'", Fields: key}}
	case fault.Dangling:
		return dangling(e.Subject)
	case fault.Referenced:
		if s, ok := e.Subject.(store.StillReferenced); ok {
			by := plural(s.By)
			text := fmt.Sprintf("an existing '%s' entity references this '%s' entity", by, plural(s.Key.Kind))
			if s.Field != "" {
				text += fmt.Sprintf(" (%s of %s)", s.Field, s.Name)
			}
			return &problem{http.StatusBadRequest, errorBody{Code: 4, Name: "foreign key violation", Message: text, Fields: map[string]any{"@referenced_by": by}}}
		}
	case fault.NotFound:
		if s, ok := e.Subject.(admit.Missing); ok && c.detailed {
			return notFound(s)
		}
	default:
	}
	return nil
}

func notFound(s admit.Missing) *problem {
	key := map[string]any{s.Field: s.Value}
	text := "could not find the entity with "
	if s.Field == model.FieldID {
		text += "primary key "
	}
	return &problem{http.StatusNotFound, errorBody{Code: 6, Name: "not found", Message: text + "'" + literal(key) + "'", Fields: key}}
}

// uniqueViolation shows the value that the caller sent, because the index may hold something
// derived from it.
func (c call) uniqueViolation(s store.UniqueViolation) *problem {
	fields := map[string]any{s.Index: s.Value}
	if s.Kind != c.collection.Kind {
		// The violation is about a resource that is written with the entity, such as a server
		// name of a certificate.
	} else if explain := c.collection.Composite[s.Index]; explain != nil {
		fields = explain(s.Value)
	} else if sent, ok := c.given[s.Index].(string); ok {
		fields[s.Index] = sent
	} else if s.Index == c.collection.Kind.Schema.Key && c.key != "" {
		fields[s.Index] = c.key
	}
	return &problem{http.StatusConflict, errorBody{Code: 5, Name: "unique constraint violation", Message: "UNIQUE violation detected on '" + literal(fields) + "'", Fields: fields}}
}

func dangling(subject any) *problem {
	switch s := subject.(type) {
	case store.DanglingReference:
		key := map[string]any{model.FieldID: s.To.Name}
		text := fmt.Sprintf("the foreign key '%s' does not reference an existing '%s' entity.", literal(key), plural(s.To.Kind))
		return &problem{http.StatusBadRequest, errorBody{Code: 4, Name: "foreign key violation", Message: text, Fields: map[string]any{s.Ref: key}}}
	case admit.Unresolved:
		key := map[string]any{s.Index: s.Value}
		why := fmt.Sprintf("the foreign key cannot be resolved with '%s' for an existing '%s' entity", literal(key), plural(s.To.Name))
		return &problem{http.StatusBadRequest, errorBody{
			Code: 13, Name: "foreign keys unresolved", Message: fmt.Sprintf("foreign key unresolved (%s.%s: %s)", s.Field, s.Index, why),
			Fields: map[string]any{s.Field: map[string]any{s.Index: why}},
		}}
	}
	return nil
}

// plural returns the name of a kind's collection in texts.
func plural(kind string) string { return kind + "s" }

// literal writes keys as {name="x",service=null}, sorted.
func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for name, e := range v {
			parts = append(parts, name+"="+literal(e))
		}
		sort.Strings(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return fmt.Sprintf(`"%v"`, v)
}

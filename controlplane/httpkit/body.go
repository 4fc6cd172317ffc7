package httpkit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

const (
	// MaxArguments bounds the arguments of a query or form.
	MaxArguments = 1000
	// MaxDepth bounds the nesting of JSON documents and of form names.
	MaxDepth = 32
)

// BodyError is the error of a body or query that cannot be parsed.
type BodyError struct {
	Status int
	// Message is for the client; an empty one means an empty body.
	Message string
	// Query says that it was the query.
	Query bool
}

// Error implements error.
func (e *BodyError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Message) }

// Write answers with the error.
func (e *BodyError) Write(w http.ResponseWriter) {
	if e.Message == "" {
		w.WriteHeader(e.Status)
		return
	}
	WriteMessage(w, e.Status, e.Message)
}

var (
	errNotJSON     = &BodyError{Status: http.StatusBadRequest, Message: "Cannot parse JSON body"}
	errNotForm     = &BodyError{Status: http.StatusBadRequest, Message: "Cannot parse form body"}
	errArguments   = &BodyError{Status: http.StatusBadRequest, Message: textArguments}
	errMediaType   = &BodyError{Status: http.StatusUnsupportedMediaType}
	errTwoTypes    = &BodyError{Status: http.StatusBadRequest, Message: "Multiple Content-Type headers"}
	errTooLarge    = &BodyError{Status: http.StatusRequestEntityTooLarge, Message: "Request body too large"}
	errUnreadable  = &BodyError{Status: http.StatusBadRequest, Message: "Cannot read the request body"}
	errQuerySyntax = &BodyError{Status: http.StatusBadRequest, Message: "Cannot parse the query", Query: true}
	errQueryLength = &BodyError{Status: http.StatusBadRequest, Message: textArguments, Query: true}
)

const textArguments = "Too many arguments"

// Body is a decoded request body.
type Body struct {
	Values map[string]any
	// Text says that all leaves are untyped texts of a form. Otherwise numbers are
	// json.Number.
	Text bool
	// Repeated are the members that are given twice. Values has only one of the two: the
	// last one in JSON.
	Repeated []fault.Violation
}

// ReadBody decodes a JSON, form or multipart body into a tree. A request without body and
// type yields an empty object. Its errors are [*BodyError]s. The caller must have limited
// the body's size (http.MaxBytesReader).
func ReadBody(r *http.Request) (Body, error) {
	kinds := r.Header.Values("Content-Type")
	if len(kinds) > 1 {
		return Body{}, errTwoTypes
	}
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return Body{}, errTooLarge
		}
		return Body{}, errUnreadable
	}
	if len(kinds) == 0 || kinds[0] == "" {
		if len(raw) > 0 {
			return Body{}, errMediaType
		}
		return Body{Values: map[string]any{}}, nil
	}
	kind, params, err := mime.ParseMediaType(kinds[0])
	if err != nil {
		return Body{}, errMediaType
	}
	switch kind {
	case "application/json":
		v, err := decodeJSON(raw)
		if err != nil {
			return Body{}, err
		}
		return Body{Values: v, Repeated: givenTwice(raw, false)}, nil
	case "application/x-www-form-urlencoded":
		args, err := parseArguments(string(raw), errNotForm, errArguments)
		if err != nil {
			return Body{}, err
		}
		return form(args), nil
	case "multipart/form-data":
		args, err := readMultipart(raw, params["boundary"])
		if err != nil {
			return Body{}, err
		}
		return form(args), nil
	}
	return Body{}, errMediaType
}

// Query parses the query of a request within the limits.
func Query(r *http.Request) (url.Values, error) {
	args, err := parseArguments(r.URL.RawQuery, errQuerySyntax, errQueryLength)
	if err != nil {
		return nil, err
	}
	v := make(url.Values, len(args))
	for _, a := range args {
		v.Add(a.name, a.value)
	}
	return v, nil
}

func decodeJSON(raw []byte) (map[string]any, error) {
	if model.TooDeep(raw, MaxDepth) {
		return nil, errNotJSON
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil || v == nil {
		return nil, errNotJSON
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotJSON
	}
	return v, nil
}

// argument is one name and value, in the order of arrival.
type argument struct{ name, value string }

func parseArguments(s string, bad, tooMany *BodyError) ([]argument, error) {
	var args []argument
	for part := range strings.SplitSeq(s, "&") {
		if part == "" {
			continue
		}
		if len(args) == MaxArguments {
			return nil, tooMany
		}
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return nil, bad
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, bad
		}
		args = append(args, argument{name, value})
	}
	return args, nil
}

func readMultipart(raw []byte, boundary string) ([]argument, error) {
	if boundary == "" {
		return nil, errNotForm
	}
	if len(raw) == 0 {
		return nil, nil
	}
	parts := multipart.NewReader(bytes.NewReader(raw), boundary)
	var args []argument
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return args, nil
		}
		if err != nil {
			return nil, errNotForm
		}
		if len(args) == MaxArguments {
			return nil, errArguments
		}
		value, err := io.ReadAll(part) // bounded by raw
		if err != nil {
			return nil, errNotForm
		}
		args = append(args, argument{part.FormName(), string(value)})
	}
}

package meshapi

import (
	"net/http"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// strictness says what becomes of members of a document that mean nothing. A member
// that is dropped in silence leaves its default behind, and that may be an open door.
type strictness string

// What a client may ask for with ?fieldValidation.
const (
	strict strictness = "strict"
	warn   strictness = "warn"
	ignore strictness = "ignore"
)

const argFieldValidation = "fieldValidation"

// strictnessOf reads what a request asks for.
func strictnessOf(r *http.Request) (strictness, error) {
	switch s := strictness(r.URL.Query().Get(argFieldValidation)); s {
	case "":
		return strict, nil
	case strict, warn, ignore:
		return s, nil
	}
	return "", fault.Violated([]fault.Violation{{
		Path: argFieldValidation, Message: `must be one of ["strict", "warn", "ignore"]`,
	}})
}

// maxWarningHeaders bounds the headers of an answer; the body has all warnings.
const maxWarningHeaders = 10

// warned is the body of a write that succeeded with warnings.
type warned struct {
	Warnings []string `json:"warnings"`
}

// stored answers a write that succeeded, with a warning for each member that was
// dropped (RFC 9111, 5.5: code 299).
func stored(w http.ResponseWriter, r *http.Request, status int, dropped []fault.Violation) {
	if len(dropped) == 0 {
		empty(w, status)
		return
	}
	var body warned
	for i, v := range dropped {
		text := v.Path + ": " + v.Message
		if body.Warnings = append(body.Warnings, text); i < maxWarningHeaders {
			w.Header().Add("Warning", "299 - "+strconv.QuoteToASCII(text))
		}
	}
	reply(w, r, status, body)
}

package meshapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// strictnessOf reads the strictness of a request.
func strictnessOf(r *http.Request) (httpkit.Strictness, error) {
	s, ok := httpkit.ParseStrictness(r.URL.Query().Get(httpkit.ArgFieldValidation))
	if !ok {
		return "", fault.Violated([]fault.Violation{{Path: httpkit.ArgFieldValidation, Message: httpkit.TextFieldValidation}})
	}
	return s, nil
}

// warned is the body of a successful write with warnings.
type warned struct {
	Warnings []string `json:"warnings"`
}

// stored answers a successful write, with a warning for each member that was dropped, has no
// effect or selects nothing.
func stored(w http.ResponseWriter, r *http.Request, status int, dropped []fault.Violation) {
	if len(dropped) == 0 {
		empty(w, status)
		return
	}
	reply(w, r, status, warned{httpkit.Warnings(w.Header(), dropped)})
}

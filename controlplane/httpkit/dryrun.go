package httpkit

import (
	"net/http"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// ArgDryRun is the parameter of the query that asks what a write would do.
const ArgDryRun = "dryRun"

// ParamDryRun declares it. An endpoint that declares it honours it.
var ParamDryRun = Parameter{
	Name: ArgDryRun, Type: "boolean",
	Summary: "true: nothing is written, and the answer says what the write would do; false (if not given): it is written",
}

const (
	// TextDryRun says which values the parameter may have.
	TextDryRun = "must be true or false, and given once"
	// TextUnknownParameter begins what is said of a parameter that an endpoint does not have.
	TextUnknownParameter = "unknown parameter"
	textNoRun            = "cannot be tried here without doing it: nothing was done"
)

// WantsDryRun reports whether a request asks for a dry run. The error is Invalid for a value that
// the parameter cannot have.
func WantsDryRun(r *http.Request) (bool, error) {
	query, err := Query(r)
	if err != nil {
		return false, fault.Wrap(fault.Invalid, err, "the query is malformed")
	}
	values, given := query[ArgDryRun]
	switch {
	case !given:
		return false, nil
	case len(values) == 1 && (values[0] == "true" || values[0] == "false"):
		return values[0] == "true", nil
	}
	return false, fault.Violated([]fault.Violation{{Path: ArgDryRun, Message: TextDryRun}})
}

// undry returns an error for a request that asks for a dry run and would not get it. Whoever asks
// for one must not cause a write instead, even if the parameter is mistyped.
func (e *Endpoint) undry(r *http.Request) error {
	if reads(e.Method) || r.URL.RawQuery == "" {
		return nil
	}
	query, err := Query(r)
	if err != nil { // in what cannot be read there may be the parameter
		return fault.New(fault.Invalid, "the query is malformed")
	}
	for name := range query {
		if name != ArgDryRun && folded(name) {
			return fault.Violated([]fault.Violation{{Path: name, Message: TextUnknownParameter + fault.Meant(name, []string{ArgDryRun})}})
		}
	}
	dry, err := WantsDryRun(r)
	if err != nil || !dry {
		return err
	}
	EntryOf(r.Context()).DryRun = true
	if !slices.ContainsFunc(e.Contract.Query, func(p Parameter) bool { return p.Name == ArgDryRun }) {
		return fault.Violated([]fault.Violation{{Path: ArgDryRun, Message: textNoRun}})
	}
	return nil
}

// reads reports whether a method changes nothing.
func reads(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// folded reports whether a text has the name of the parameter in it, in whatever spelling.
func folded(text string) bool {
	return strings.Contains(strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(text)), "dryrun")
}

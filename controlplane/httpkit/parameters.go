package httpkit

import (
	"maps"
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// unknown returns an error that lists all query parameters that a closed contract does not
// name. It leaves a malformed query to the handler, which reports it in the style of its
// API.
func (c *Contract) unknown(r *http.Request) error {
	if !c.Closed || r.URL.RawQuery == "" {
		return nil
	}
	query, err := Query(r)
	if err != nil {
		return nil //nolint:nilerr // as said above
	}
	known := make([]string, len(c.Query))
	for i, p := range c.Query {
		known[i] = p.Name
	}
	var wrong []fault.Violation
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name == ArgDryRun && !reads(r.Method) {
			continue // a write that is to be a write; see undry
		}
		if !slices.Contains(known, name) {
			wrong = append(wrong, fault.Violation{Path: name, Message: TextUnknownParameter + fault.Meant(name, known)})
		}
	}
	return fault.Violated(wrong)
}

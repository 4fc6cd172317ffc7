package meshapi

import (
	"net/http"
	"net/url"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/openapi"
)

const queryShadow = "shadow"

// showConfig answers with the configuration that a node has or should have.
func (a *API) showConfig(w http.ResponseWriter, r *http.Request, node string) {
	query, diff, err := wantsDiff(r)
	if err != nil {
		fail(w, r, opDecode, err)
		return
	}
	shadow := false
	switch query.Get(queryShadow) {
	case "", "false":
	case "true":
		shadow = true
	default:
		fail(w, r, opDecode, nodes.Unsupported(queryShadow))
		return
	}
	err = a.Dumps.Configuration(r.Context(), node, shadow, diff, func(doc []byte) { write(w, http.StatusOK, mediaJSON, doc) })
	if err != nil {
		fail(w, r, opDump, err)
	}
}

// showCompared answers with the three configurations of a node side by side.
func (a *API) showCompared(w http.ResponseWriter, r *http.Request, node string) {
	_, diff, err := wantsDiff(r)
	if err != nil {
		fail(w, r, opDecode, err)
		return
	}
	if err := a.Dumps.Compare(r.Context(), node, diff, func(doc []byte) { write(w, http.StatusOK, mediaJSON, doc) }); err != nil {
		fail(w, r, opDump, err)
	}
}

// wantsDiff reports whether a query asks for a difference. It may say so more than once.
func wantsDiff(r *http.Request) (query url.Values, diff bool, err error) {
	query, err = httpkit.Query(r)
	if err != nil {
		return nil, false, fault.Wrap(fault.Invalid, err, "the query is malformed")
	}
	diff, err = nodes.WantsDiff(query[nodes.ParamInclude])
	return query, diff, err
}

// describeConfigurations adds the schemas of configurations.
func describeConfigurations(out schemas) {
	byName := &openapi.Schema{Type: openapi.Types{openapi.Object}, AdditionalProperties: openapi.Of(openapi.Object)}
	out[schemaConfig] = openapi.Closed(schemas{
		"xds":             (&openapi.Schema{Type: openapi.Types{openapi.Object}, AdditionalProperties: byName}).Says("Resources by type and name, without secrets"),
		nodes.IncludeDiff: openapi.List(openapi.For[nodes.Edit]()).Says("A JSON patch (RFC 6902) from what is acknowledged to xds; only if it was asked for"),
	}, "xds")
	out[schemaCompared] = openapi.For[nodes.Comparison]()
}

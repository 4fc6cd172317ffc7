package meshapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

var opRevoke = operation{"Could not revoke a token", map[fault.Code]row{
	fault.Invalid: {status: http.StatusBadRequest}, fault.NotFound: {status: http.StatusNotFound},
}}

// tokenRevocation lists tokens by their ids.
type tokenRevocation struct {
	// Mesh is the mesh of dataplane tokens.
	Mesh string `json:"mesh"`
	// IDs are the jti claims of the tokens.
	IDs []string `json:"ids"`
}

// revocations returns the endpoints that add to the revoked tokens, for administrators only.
// A PUT of the secret with the list would replace the whole list.
func (a *API) revocations() []httpkit.Endpoint {
	if a.Revoke == nil {
		return nil
	}
	route := func(pattern, summary string, ofMesh bool) httpkit.Endpoint {
		e := endpoint(http.MethodPost, pattern, httpkit.Administrator, summary, mediaJSON,
			func(w http.ResponseWriter, r *http.Request) { a.revokeTokens(w, r, ofMesh) })
		return about("revoke tokens", does(e, httpkit.Contract{
			Body: schemaRevocation, Answers: map[int]string{http.StatusOK: schemaAdded},
		}, http.StatusNotFound, http.StatusConflict))
	}
	return []httpkit.Endpoint{
		route("/tokens/dataplane/revocations", "Add ids to the dataplane tokens of a mesh that no longer count", true),
		route("/tokens/gateway/revocations", "Add ids to the tokens of gateways that no longer count", false),
	}
}

// revokeTokens answers when the streams and links of the tokens are being ended. A request
// may be repeated: ids that are listed already are not added again.
func (a *API) revokeTokens(w http.ResponseWriter, r *http.Request, ofMesh bool) {
	raw, err := body(w, r)
	if err != nil {
		fail(w, r, opDecode, err)
		return
	}
	var in tokenRevocation
	if err := httpkit.DecodeObject(raw, &in); err != nil {
		fail(w, r, opRevoke, fault.Wrap(fault.Invalid, err, "the request cannot be read: %s", err))
		return
	}
	switch {
	case ofMesh && in.Mesh == "":
		err = fault.Violated([]fault.Violation{{Path: "mesh", Message: "cannot be empty"}})
	case !ofMesh && in.Mesh != "":
		err = fault.Violated([]fault.Violation{{Path: "mesh", Message: "does not belong to tokens of gateways"}})
	}
	added := 0
	if err == nil {
		added, err = a.Revoke(r.Context(), in.Mesh, in.IDs)
	}
	if err != nil {
		fail(w, r, opRevoke, err)
		return
	}
	reply(w, r, http.StatusOK, map[string]int{"added": added})
}

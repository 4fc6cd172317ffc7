package meshapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
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

// revocations returns the endpoints that add to the revoked tokens, for those who may issue them.
// A PUT of the secret with the list would replace the whole list.
func (a *API) revocations() []httpkit.Endpoint {
	if a.Revoke == nil {
		return nil
	}
	route := func(of identity.TokenKind, right access.Right, summary string, ofMesh bool) httpkit.Endpoint {
		e := endpoint(http.MethodPost, "/tokens/"+string(of)+"/revocations", right, summary, mediaJSON,
			func(w http.ResponseWriter, r *http.Request) { a.revokeTokens(w, r, of) })
		if ofMesh {
			e.Where = somewhere
		}
		return about(subjectRevoke, does(e, httpkit.Contract{
			Body: schemaRevocation, Answers: map[int]string{http.StatusOK: schemaAdded},
		}, http.StatusNotFound, http.StatusConflict))
	}
	list := []httpkit.Endpoint{
		route(identity.DataplaneToken, access.DataplaneTokens, "Add ids to the dataplane tokens of a mesh that no longer count", true),
		route(identity.GatewayToken, httpkit.Administrator, "Add ids to the tokens of gateways that no longer count", false),
	}
	if a.ControlPlaneTokens == nil {
		return list
	}
	return append(list,
		route(identity.UserToken, access.UserTokens, "Add ids to the tokens of users that no longer count", false),
		route(identity.ZoneToken, access.ZoneTokens, "Add ids to the tokens of zones that no longer count", false),
		route(identity.ZoneIngressToken, access.ZoneTokens, "Add ids to the older tokens of ingresses that no longer count", false),
	)
}

const subjectRevoke = "revoke tokens"

// revokeTokens answers when the streams and links of the tokens are being ended. A request
// may be repeated: ids that are listed already are not added again.
func (a *API) revokeTokens(w http.ResponseWriter, r *http.Request, of identity.TokenKind) {
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
	switch ofMesh := of == identity.DataplaneToken; {
	case ofMesh && in.Mesh == "":
		err = fault.Violated([]fault.Violation{{Path: "mesh", Message: "cannot be empty"}})
	case !ofMesh && in.Mesh != "":
		err = fault.Violated([]fault.Violation{{Path: "mesh", Message: "does not belong to tokens of " + string(of) + "s"}})
	case ofMesh:
		err = httpkit.Permit(a.Rules, r, access.DataplaneTokens, access.Scope{Mesh: in.Mesh}, func(who model.Actor) string {
			return httpkit.Cannot(who, subjectRevoke)
		})
	}
	added := 0
	if err == nil {
		added, err = a.Revoke(r.Context(), of, in.Mesh, in.IDs)
	}
	if err != nil {
		fail(w, r, opRevoke, err)
		return
	}
	reply(w, r, http.StatusOK, map[string]int{"added": added})
}

package meshapi

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
)

const maxTokenBody = 64 << 10

// tokens returns the endpoints that issue tokens, for administrators only.
func (a *API) tokens() []httpkit.Endpoint {
	var list []httpkit.Endpoint
	if a.DataplaneTokens != nil {
		for _, method := range []string{http.MethodPost, http.MethodPut} {
			e := endpoint(method, "/tokens/dataplane", httpkit.Administrator, "Issue the token of dataplanes", mediaText, a.dataplaneToken)
			list = append(list, about("generate dataplane token", does(e, issues(schemaToken), http.StatusNotFound)))
		}
	}
	if a.Tokens != nil {
		// Clients of this endpoint need not declare JSON as their content type.
		list = append(list, does(httpkit.Endpoint{
			Method: http.MethodPost, Pattern: "/tokens/gateway", Auth: httpkit.Administrator,
			Subject: "generate gateway token", Summary: "Issue the node token of an oauth-gateway", Handler: a.gatewayToken,
		}, issues(schemaGateway)))
	}
	return list
}

// issues returns the contract of an endpoint that answers with a bare token.
func issues(request string) httpkit.Contract {
	return httpkit.Contract{Body: request, Answers: map[int]string{http.StatusOK: schemaText}}
}

// writeToken answers with the bare token as text.
func writeToken(w http.ResponseWriter, mediaType, token string) {
	write(w, http.StatusOK, mediaType, []byte(token))
}

// dataplaneTokenRequest is the body of /tokens/dataplane.
type dataplaneTokenRequest struct {
	Name     string              `json:"name"`
	Mesh     string              `json:"mesh"`
	Tags     map[string][]string `json:"tags"`
	Type     string              `json:"type"`
	ValidFor string              `json:"validFor"`
}

// dataplaneToken answers a body that cannot be read with an empty body. It refuses unknown
// members, and members that are given twice, by name: a mistyped restriction would otherwise
// produce a token for every proxy of the mesh.
func (a *API) dataplaneToken(w http.ResponseWriter, r *http.Request) {
	raw, err := body(w, r)
	if fault.Is(err, fault.TooLarge) {
		fail(w, r, opDecode, err)
		return
	}
	var in dataplaneTokenRequest
	if err != nil || json.Unmarshal(raw, &in) != nil {
		empty(w, http.StatusBadRequest)
		return
	}
	in = dataplaneTokenRequest{}
	if err := httpkit.DecodeObject(raw, &in); err != nil {
		fail(w, r, opToken, fault.Wrap(fault.Invalid, err, "the request cannot be read: %s", err))
		return
	}
	token, err := a.DataplaneTokens.Issue(r.Context(), identity.DataplaneTokenRequest(in))
	if err != nil {
		fail(w, r, opToken, err)
		return
	}
	writeToken(w, mediaText, token)
}

type gatewayTokenRequest struct {
	// Name of the instance.
	Name string `json:"name"`
	// ControlPlane is "default" if it is empty.
	ControlPlane string `json:"controlPlane"`
	// ValidFor is a duration such as 720h; [identity.GatewayTokenLife] if it is empty.
	ValidFor string `json:"validFor"`
}

func (a *API) gatewayToken(w http.ResponseWriter, r *http.Request) {
	token, err := a.issueGateway(w, r)
	if err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
		status, text := http.StatusInternalServerError, httpkit.TextInternal
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.Invalid {
			status, text = http.StatusBadRequest, e.Error()
		}
		httpkit.WriteMessage(w, status, text)
		return
	}
	writeToken(w, "text/plain; charset=utf-8", token)
}

func (a *API) issueGateway(w http.ResponseWriter, r *http.Request) (string, error) {
	var in gatewayTokenRequest
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTokenBody))
	if err == nil {
		err = httpkit.DecodeObject(raw, &in)
	}
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the request is not valid JSON")
	}
	life := identity.GatewayTokenLife
	if in.ValidFor != "" {
		if life, err = time.ParseDuration(in.ValidFor); err != nil {
			return "", fault.Violated([]fault.Violation{{Path: "validFor", Message: "must be a duration such as 720h"}})
		}
	}
	if in.ControlPlane == "" {
		in.ControlPlane = model.DefaultControlPlane
	}
	if in.ControlPlane != model.DefaultControlPlane {
		return "", fault.Violated([]fault.Violation{{Path: "controlPlane", Message: "does not exist"}})
	}
	return a.Tokens.Gateway(in.ControlPlane, in.Name, life)
}

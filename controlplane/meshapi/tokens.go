package meshapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
)

const maxTokenBody = 64 << 10

// textNoIssuing is what clients compare.
const textNoIssuing = "issuing tokens using the control plane is disabled."

// tokens returns the endpoints that issue tokens. Only administrators have their rights, unless
// settings say otherwise.
func (a *API) tokens() []httpkit.Endpoint {
	var list []httpkit.Endpoint
	if a.DataplaneTokens != nil {
		for _, at := range []struct{ method, pattern string }{
			{http.MethodPost, "/tokens/dataplane"}, {http.MethodPut, "/tokens/dataplane"}, {http.MethodPost, "/tokens"}, // clients of 1.x
		} {
			e := endpoint(at.method, at.pattern, access.DataplaneTokens, "Issue the token of dataplanes", mediaText, issuing(a, a.mayDataplane, a.DataplaneTokens.Issue))
			e.Where = somewhere
			list = append(list, about(subjectDataplane, does(e, issues(schemaToken), http.StatusNotFound)))
		}
	}
	if a.ControlPlaneTokens != nil {
		list = append(list, a.globalTokens()...)
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

// globalTokens returns the endpoints for the tokens of users and zones.
func (a *API) globalTokens() []httpkit.Endpoint {
	issue := func(pattern string, right access.Right, summary, request string, h http.HandlerFunc, refusal func(*http.Request, model.Actor) string) httpkit.Endpoint {
		e := does(endpoint(http.MethodPost, pattern, right, summary, mediaText, h), issues(request), http.StatusNotFound)
		e.Refusal = refusal
		return e
	}
	return []httpkit.Endpoint{
		issue("/tokens/zone", access.ZoneTokens, "Issue the token of the proxies between zones", schemaForZone, issuing(a, nil, a.ControlPlaneTokens.IssueZone), cannotZone),
		issue("/tokens/zone-ingress", access.ZoneTokens, "Issue the older token of the ingress of a zone", schemaIngress, issuing(a, nil, a.ControlPlaneTokens.IssueZoneIngress), cannotZone),
		issue("/tokens/user", access.UserTokens, "Issue the token of a user", schemaForUser, issuing(a, a.mayUser, a.ControlPlaneTokens.IssueUser), cannotUser),
	}
}

const (
	subjectDataplane = "generate dataplane token"
	textNotAllowed   = "action not allowed"
)

// mayDataplane judges a caller when the mesh is known.
func (a *API) mayDataplane(r *http.Request, in identity.DataplaneTokenRequest) error {
	return httpkit.Permit(a.Rules, r, access.DataplaneTokens, access.Scope{Mesh: in.Mesh}, func(who model.Actor) string {
		return httpkit.Cannot(who, subjectDataplane)
	})
}

// mayUser refuses the tokens of users who may do more than the caller. Otherwise the right to
// issue tokens of users would be the right to do everything.
func (a *API) mayUser(r *http.Request, in identity.UserTokenRequest) error {
	if a.Rules.Exceeds(model.User(in.Name, in.Groups...), httpkit.CallerOf(r)) {
		return fault.New(fault.Forbidden, textNotAllowed)
	}
	return nil
}

func cannotUser(*http.Request, model.Actor) string { return textNotAllowed }

// cannotZone names the zone of the request that is refused, as clients expect.
func cannotZone(r *http.Request, who model.Actor) string {
	var in struct {
		Zone string `json:"zone"`
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxTokenBody))
	if err == nil {
		_ = json.Unmarshal(raw, &in) // a request that cannot be read names no zone
	}
	return httpkit.Cannot(who, "generate zone token for zone '"+in.Zone+"'")
}

// issuing returns a handler that reads a request, judges the caller, and issues a token. It
// answers a body that cannot be read with an empty body. It refuses unknown members, and
// members that are given twice, by name: a mistyped restriction would otherwise produce a
// token for every proxy of the mesh.
func issuing[T requested](a *API, permit func(*http.Request, T) error, issue func(context.Context, T) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if a.NoIssuing {
			fail(w, r, opIssue, fault.New(fault.Invalid, textNoIssuing))
			return
		}
		raw, err := body(w, r)
		if fault.Is(err, fault.TooLarge) {
			fail(w, r, opDecode, err)
			return
		}
		var loose, in T
		if err != nil || json.Unmarshal(raw, &loose) != nil {
			empty(w, http.StatusBadRequest)
			return
		}
		if err := httpkit.DecodeObject(raw, &in); err != nil {
			fail(w, r, opToken, fault.Wrap(fault.Invalid, err, "the request cannot be read: %s", err))
			return
		}
		if permit != nil {
			if err := permit(r, in); err != nil {
				fail(w, r, opToken, err)
				return
			}
		}
		token, err := issue(r.Context(), in)
		if err == nil {
			err = a.issued(r.Context(), in)
		}
		if err != nil {
			fail(w, r, opToken, err)
			return
		}
		writeToken(w, mediaText, token)
	}
}

// requested is the request of a token. It says what the token is of.
type requested interface {
	Subject() (about model.Key, scoping model.Scoping)
}

// issued tells of a token that is about to be shown.
func (a *API) issued(ctx context.Context, in requested) error {
	if a.Issued == nil {
		return nil
	}
	about, scoping := in.Subject()
	return a.Issued(ctx, about, scoping, in)
}

// issues returns the contract of an endpoint that answers with a bare token.
func issues(request string) httpkit.Contract {
	return httpkit.Contract{Body: request, Answers: map[int]string{http.StatusOK: schemaText}}
}

// writeToken answers with the bare token as text.
func writeToken(w http.ResponseWriter, mediaType, token string) {
	write(w, http.StatusOK, mediaType, []byte(token))
}

type gatewayTokenRequest struct {
	// Name of the instance.
	Name string `json:"name"`
	// ControlPlane is "default" if it is empty.
	ControlPlane string `json:"controlPlane"`
	// ValidFor is a duration such as 720h; [identity.GatewayTokenLife] if it is empty.
	ValidFor string `json:"validFor"`
}

// Subject implements requested.
func (r gatewayTokenRequest) Subject() (model.Key, model.Scoping) {
	return model.Key{Kind: "gateway_token", Scope: r.ControlPlane, Name: r.Name}, model.ControlPlane
}

func (a *API) gatewayToken(w http.ResponseWriter, r *http.Request) {
	token, err := a.issueGateway(w, r)
	if err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
		status, text := http.StatusInternalServerError, httpkit.TextInternal
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.Invalid {
			status, text = http.StatusBadRequest, e.Shown()
		}
		httpkit.WriteMessage(w, status, text)
		return
	}
	writeToken(w, "text/plain; charset=utf-8", token)
}

func (a *API) issueGateway(w http.ResponseWriter, r *http.Request) (string, error) {
	var in gatewayTokenRequest
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxTokenBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return "", fault.Wrap(fault.Invalid, err, "the request is larger than %d bytes", maxTokenBody)
	}
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the request broke off")
	}
	if err := httpkit.DecodeObject(raw, &in); err != nil {
		return "", fault.New(fault.Invalid, "the request is not valid JSON: %s", err)
	}
	life := identity.GatewayTokenLife
	if in.ValidFor != "" {
		if life, err = time.ParseDuration(in.ValidFor); err != nil || len(in.ValidFor) > identity.MaxDuration {
			return "", fault.Violated([]fault.Violation{{Path: "validFor", Message: "must be a duration such as 720h"}})
		}
	}
	if in.ControlPlane == "" {
		in.ControlPlane = model.DefaultControlPlane
	}
	scope, err := a.planeNamed(r.Context(), in.ControlPlane)
	if err != nil {
		return "", err
	}
	token, err := a.Tokens.Gateway(scope, in.Name, life)
	in.ControlPlane = scope // names change
	if err == nil {
		err = a.issued(r.Context(), in)
	}
	if err != nil {
		return "", err
	}
	return token, nil
}

// planeNamed returns the scope of the control plane of a name or id.
func (a *API) planeNamed(ctx context.Context, named string) (string, error) {
	if named == model.DefaultControlPlane {
		return named, nil
	}
	var err error = fault.New(fault.NotFound, "no other control plane")
	scope := ""
	if a.ControlPlaneNamed != nil {
		scope, err = a.ControlPlaneNamed(ctx, named)
	}
	if fault.Is(err, fault.NotFound) {
		return "", fault.Violated([]fault.Violation{{Path: "controlPlane", Message: "does not exist"}})
	}
	return scope, err
}

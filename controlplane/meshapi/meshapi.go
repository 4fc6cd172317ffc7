// Package meshapi is the mesh API. Of it exists what gateways need: tokens for
// their instances, and how far a revision has come.
package meshapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
)

const (
	maxBody = 64 << 10
	// DefaultTokenLife is the validity of a node token unless asked otherwise.
	DefaultTokenLife = 10 * 365 * 24 * time.Hour
)

// Options of the API.
type Options struct {
	Tokens *identity.Tokens
	// Version is shown at /.
	Version string
	// Revisions serves GET /revisions/{revision}.
	Revisions http.HandlerFunc
	// Guard protects a loopback listener without authentication.
	Guard httpkit.BrowserGuard
}

// Handler returns the handler of every endpoint.
func Handler(o Options) http.Handler {
	endpoints := []httpkit.Endpoint{
		{Method: http.MethodGet, Pattern: "/", Auth: httpkit.Administrator, Summary: "What this is", Handler: func(w http.ResponseWriter, _ *http.Request) {
			_ = httpkit.WriteJSON(w, http.StatusOK, map[string]string{"product": "meshgate", "version": o.Version})
		}},
		{Method: http.MethodPost, Pattern: "/tokens/gateway", Auth: httpkit.Administrator, Summary: "Issue the node token of an oauth-gateway", Handler: o.gatewayToken},
		{Method: http.MethodGet, Pattern: "/revisions/{revision}", Auth: httpkit.Administrator, Summary: "How far proxies are with a revision", Handler: o.Revisions},
	}
	return o.Guard.Wrap(httpkit.NewRouter(endpoints, func(_ httpkit.Authorisation, h http.Handler) http.Handler { return h }))
}

type gatewayTokenRequest struct {
	// Name of the instance.
	Name string `json:"name"`
	// ControlPlane is "default" if empty.
	ControlPlane string `json:"controlPlane"`
	// ValidFor is a duration such as 720h.
	ValidFor string `json:"validFor"`
}

// gatewayToken answers the bare token as text.
func (o *Options) gatewayToken(w http.ResponseWriter, r *http.Request) {
	token, err := o.issue(w, r)
	if err != nil {
		httpkit.EntryOf(r.Context()).Cause = err
		status, text := http.StatusInternalServerError, httpkit.TextInternal
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.Invalid {
			status, text = http.StatusBadRequest, e.Error()
		}
		httpkit.WriteMessage(w, status, text)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(token))
}

func (o *Options) issue(w http.ResponseWriter, r *http.Request) (string, error) {
	var in gatewayTokenRequest
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return "", fault.Wrap(fault.Invalid, err, "the request is not valid JSON")
	}
	life := DefaultTokenLife
	if in.ValidFor != "" {
		var err error
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
	return o.Tokens.Gateway(in.ControlPlane, in.Name, life)
}

package meshapi

import (
	"net/http"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// user is the answer of /who-am-i.
type user struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups"`
}

// whoAmI tells callers who they are.
func whoAmI(w http.ResponseWriter, r *http.Request) {
	who := httpkit.CallerOf(r)
	reply(w, r, http.StatusOK, user{who.Name, who.Groups})
}

// pathGUI is where clients expect a console, which shows nothing before its user has a token.
const pathGUI = "gui"

// authenticate identifies the caller before anything else is checked. Everybody may call GET
// /, which describes the control plane, and load the console, whatever token they show.
func (a *API) authenticate(next http.Handler) http.Handler {
	identify := func(r *http.Request) (model.Actor, error) {
		who, err := a.Identify(r)
		if parts := split(r.URL.Path); err != nil && (len(parts) == 0 || parts[0] == pathGUI) {
			return model.Anonymous(), nil
		}
		return who, err
	}
	return httpkit.Identified(identify, func(w http.ResponseWriter, r *http.Request, err error) {
		fail(w, r, opAuthenticate, err)
	}, next)
}

// forbid answers a caller who may not call an endpoint, or not in this way.
func forbid(w http.ResponseWriter, r *http.Request, err error) {
	if fault.Is(err, fault.Invalid) {
		fail(w, r, opDecode, err)
		return
	}
	fail(w, r, operation{}, err)
}

// about names what an endpoint gives access to, for the refusal of callers without access.
func about(subject string, e httpkit.Endpoint) httpkit.Endpoint {
	e.Subject = subject
	return e
}

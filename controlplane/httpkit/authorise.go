package httpkit

import (
	"errors"
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Authorisation is what a request needs before its handler runs. There is no default: a
// router does not start with an endpoint that declares no authorisation, or one that is not
// enforced.
type Authorisation string

// Authorisations.
const (
	// Open endpoints answer everybody who can reach the port.
	Open Authorisation = "open"
	// Administrator endpoints need a caller whom the port trusts with administration.
	Administrator Authorisation = "administrator"
)

// permits reports whether an actor may call an endpoint.
func (a Authorisation) permits(who model.Actor) bool {
	switch a {
	case Open:
		return true
	case Administrator:
		return who.Administrates()
	}
	return false
}

// Refuse answers a request that is not served. err is Denied for a caller that could not
// prove its identity, Forbidden for a caller that may not call the endpoint, and Invalid for
// parameters that do not exist; see [Contract].
type Refuse func(w http.ResponseWriter, r *http.Request, err error)

// Enforce returns the handler of an endpoint behind the authorisation that the endpoint
// declares. Every router must send its requests through it. A request without an identity is
// anonymous. Enforce panics on an endpoint without a handler or with an unknown
// authorisation, because this is a mistake in the program.
func Enforce(e Endpoint, refuse Refuse) http.Handler {
	if e.Handler == nil || !slices.Contains([]Authorisation{Open, Administrator}, e.Auth) {
		panic("httpkit: endpoint without handler or authorisation: " + e.Method + " " + e.Pattern)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who := CallerOf(r); !e.Auth.permits(who) {
			what := e.Subject
			if what == "" {
				what = e.Method + " " + e.Pattern
			}
			refuse(w, r, fault.New(fault.Forbidden, "user %q cannot access %s", who, what))
			return
		}
		if err := e.undry(r); err != nil {
			refuse(w, r, err)
			return
		}
		if err := e.Contract.unknown(r); err != nil {
			refuse(w, r, err)
			return
		}
		e.Handler(w, r)
	})
}

// Identified returns next behind identify, which says who makes a request. refuse answers an
// error of identify. Handlers and their writes find the caller in the context of the
// request.
func Identified(identify func(*http.Request) (model.Actor, error), refuse Refuse, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := identify(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, As(r, who))
	})
}

// Everybody identifies each caller as the same actor.
func Everybody(who model.Actor) func(*http.Request) (model.Actor, error) {
	return func(*http.Request) (model.Actor, error) { return who, nil }
}

// As returns a request with an actor, and names the actor in the log.
func As(r *http.Request, who model.Actor) *http.Request {
	EntryOf(r.Context()).Actor = who.ID()
	return r.WithContext(model.WithActor(r.Context(), who))
}

// CallerOf returns who makes a request. A request without an identity is anonymous.
func CallerOf(r *http.Request) model.Actor {
	if who, ok := model.ActorOf(r.Context()); ok {
		return who
	}
	return model.Anonymous()
}

// RefuseMessage answers with the message of the error: 401 with a challenge (RFC 6750
// section 3) for a caller without an identity, 403 for a caller with one, and 400 for
// parameters that do not exist.
func RefuseMessage(w http.ResponseWriter, r *http.Request, err error) {
	if e, ok := errors.AsType[*unauthenticated](err); ok {
		EntryOf(r.Context()).Code = "unauthenticated"
		w.Header().Set("WWW-Authenticate", e.challenge)
		WriteMessage(w, http.StatusUnauthorized, e.text)
		return
	}
	EntryOf(r.Context()).Code = string(fault.CodeOf(err))
	if fault.Is(err, fault.Invalid) {
		WriteMessage(w, http.StatusBadRequest, err.Error())
		return
	}
	if _, known := model.ActorOf(r.Context()); !known || CallerOf(r).Name == model.UserAnonymous {
		w.Header().Set("WWW-Authenticate", challengeBearer)
		WriteMessage(w, http.StatusUnauthorized, textNoToken)
		return
	}
	WriteMessage(w, http.StatusForbidden, "the caller may not use this endpoint")
}

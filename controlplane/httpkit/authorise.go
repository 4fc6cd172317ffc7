package httpkit

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Authorisation is what a request needs before its handler runs. There is no default: a
// router does not start with an endpoint that declares no authorisation, or one that is not
// enforced.
type Authorisation = access.Right

// Authorisations that need no scope.
const (
	// Open endpoints answer everybody who can reach the port.
	Open = access.Open
	// Administrator endpoints need a caller whom the port trusts with administration.
	Administrator = access.Administrator
)

// Refuse answers a request that is not served. err is Denied for a caller that could not
// prove its identity, Forbidden for a caller that may not call the endpoint, and Invalid for
// parameters that do not exist; see [Contract].
type Refuse func(w http.ResponseWriter, r *http.Request, err error)

// Enforce returns the handler of an endpoint behind the authorisation that the endpoint
// declares. Every router must send its requests through it. A request without an identity is
// anonymous. Enforce panics on an endpoint without a handler or with an unknown
// authorisation, because this is a mistake in the program.
func Enforce(e Endpoint, rules *access.Rules, refuse Refuse) http.Handler {
	if e.Handler == nil || !slices.Contains(access.Rights, e.Auth) {
		panic("httpkit: endpoint without handler or authorisation: " + e.Method + " " + e.Pattern)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := Permit(rules, r, e.Auth, e.scope(r), e.refusal(r)); err != nil {
			refuse(w, r, err)
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

// Permit returns nil if the caller of a request has a right in a scope. Otherwise it returns
// a Denied fault for a caller that needs an identity, and a Forbidden fault with the text of
// refusal for others. The log has the reason.
func Permit(rules *access.Rules, r *http.Request, right access.Right, in access.Scope, refusal func(model.Actor) string) error {
	who := CallerOf(r)
	v := rules.Decide(who, right, in)
	switch {
	case v.Allowed:
		return nil
	case v.Unidentified:
		return fault.New(fault.Denied, "the API needs an identity")
	}
	EntryOf(r.Context()).Cause = errors.New(v.Reason)
	return fault.New(fault.Forbidden, "%s", refusal(who))
}

// scope returns where a request acts.
func (e *Endpoint) scope(r *http.Request) access.Scope {
	if e.Where == nil {
		return access.Scope{}
	}
	return e.Where(r)
}

// refusal returns the text for a caller that may not call the endpoint.
func (e *Endpoint) refusal(r *http.Request) func(model.Actor) string {
	return func(who model.Actor) string {
		if e.Refusal != nil {
			return e.Refusal(r, who)
		}
		return Cannot(who, cmp.Or(e.Subject, e.Method+" "+e.Pattern))
	}
}

// Cannot is the text for a caller that cannot access something.
func Cannot(who model.Actor, what string) string {
	return fmt.Sprintf("user %q cannot access %s", who, what)
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

// RefuseMessage answers with what is shown of the error: 401 with a challenge (RFC 6750
// section 3) for a caller without an identity, 403 for a caller with one, 400 for
// parameters that do not exist, and 503 or 500 if nobody can tell the identity. Why that is so
// is for the log: anybody can ask, and the cause may name what only the control plane reaches.
func RefuseMessage(w http.ResponseWriter, r *http.Request, err error) {
	if e, ok := errors.AsType[*unauthenticated](err); ok {
		EntryOf(r.Context()).Code = "unauthenticated"
		w.Header().Set("WWW-Authenticate", e.challenge)
		WriteMessage(w, http.StatusUnauthorized, e.text)
		return
	}
	err = Unawaited(r, err)
	entry := EntryOf(r.Context())
	entry.Code = string(fault.CodeOf(err))
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		e = fault.Wrap(fault.Internal, err, TextInternal)
	}
	switch e.Code {
	case fault.Unavailable:
		entry.Cause = err
		WriteMessage(w, http.StatusServiceUnavailable, e.Shown())
		return
	case fault.Internal:
		entry.Cause = err
		WriteMessage(w, http.StatusInternalServerError, TextInternal)
		return
	case fault.Invalid:
		WriteMessage(w, http.StatusBadRequest, e.Shown())
		return
	default:
	}
	if _, known := model.ActorOf(r.Context()); !known || CallerOf(r).Name == model.UserAnonymous {
		w.Header().Set("WWW-Authenticate", challengeBearer)
		WriteMessage(w, http.StatusUnauthorized, textNoToken)
		return
	}
	WriteMessage(w, http.StatusForbidden, "the caller may not use this endpoint")
}

package oauth

import (
	"net/http"
	"net/url"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Observer is told what became of requests. All it is told is chosen by this
// package, so of each there are few. It must not block.
type Observer interface {
	// Issued says that an access token was issued by a grant: a value of grant_type,
	// or implicit.
	Issued(grant string)
	// CodeIssued says that an authorisation code was issued.
	CodeIssued()
	// Refused says that a request was refused. The grant is [NoGrant] at endpoints
	// that have none, [OtherGrant] for one that does not exist; the reason is a value
	// of error of the document that was answered, or one of the Reason constants.
	Refused(endpoint, grant, reason string)
}

// Grants that are none.
const (
	// NoGrant is that of endpoints that issue nothing.
	NoGrant = "none"
	// OtherGrant stands for all that do not exist.
	OtherGrant = "other"
	// ImplicitGrant is that of tokens from the authorisation endpoint.
	ImplicitGrant = "implicit"
)

// Reasons of refusals that are none of the client's.
const (
	ReasonUnavailable = "unavailable"
	ReasonServerError = "server_error"
)

// Route is the endpoint that a URL leads to, without what the client chose of the
// path; empty if there is none.
func Route(u *url.URL) string {
	is, _ := recognise(sentPath(u))
	return is.path()
}

// path is what the path of an endpoint ends with, or begins with for metadata.
func (e endpoint) path() string {
	for _, s := range suffixes {
		if s.is == e {
			return s.path
		}
	}
	if e == endpointMetadata {
		return pathMetadata
	}
	return ""
}

// label is the endpoint in metrics.
func (e endpoint) label() string {
	switch e {
	case endpointToken:
		return "token"
	case endpointAuthorize:
		return "authorize"
	case endpointIntrospect:
		return "introspect"
	case endpointRevoke:
		return "revoke"
	case endpointMetadata:
		return "metadata"
	case endpointUnknown:
	}
	return "unknown"
}

// outcome is what became of a request.
type outcome struct {
	grant, reason string
	token, code   bool
}

// refuse writes an error document and notes why.
func (t *Request) refuse(w http.ResponseWriter, e *Error) error {
	t.outcome.reason = e.Type
	return refuse(w, e, t.state())
}

// knownGrant is a value of grant_type if it is one that exists.
func (s *Server) knownGrant(name string) string {
	if s.grants[name] == nil {
		return OtherGrant
	}
	return name
}

// tell counts what became of a request; err is that of its handler.
func (s *Server) tell(is endpoint, o outcome, err error) {
	if s.Observer == nil {
		return
	}
	if o.grant == "" {
		o.grant = NoGrant
	}
	switch {
	case o.token:
		s.Observer.Issued(o.grant)
		return
	case o.code:
		s.Observer.CodeIssued()
		return
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Unavailable):
		o.reason = ReasonUnavailable
	case fault.Is(err, fault.Unstored):
		o.reason = errUnstored.Type
	case err != nil:
		o.reason = ReasonServerError
	case o.reason == "":
		return
	}
	s.Observer.Refused(is.label(), o.grant, o.reason)
}

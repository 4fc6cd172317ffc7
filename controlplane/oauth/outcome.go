package oauth

import (
	"net/http"
	"net/url"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Observer is told the outcome of requests. This package chooses all values, so there are few
// different ones. An observer must not block.
type Observer interface {
	// Issued reports that an access token was issued by a grant: a value of grant_type, or
	// implicit.
	Issued(grant string)
	// CodeIssued reports that an authorisation code was issued.
	CodeIssued()
	// Refused reports that a request was refused. The grant is [NoGrant] for endpoints that
	// have no grants, and [OtherGrant] for a grant that does not exist. The reason is the
	// value of error in the answer, or one of the Reason constants.
	Refused(endpoint, grant, reason string)
}

// Values that are told in place of a grant_type.
const (
	// NoGrant stands for endpoints that issue nothing.
	NoGrant = "none"
	// OtherGrant stands for all grants that do not exist.
	OtherGrant = "other"
	// ImplicitGrant stands for tokens from the authorisation endpoint.
	ImplicitGrant = "implicit"
)

// Reasons of refusals that are not the client's fault.
const (
	ReasonUnavailable = "unavailable"
	ReasonServerError = "server_error"
)

// Route returns the path of the endpoint of a URL, without the parts of the path that the
// client chose; empty if the URL leads to no endpoint.
func Route(u *url.URL) string {
	is, _ := recognise(sentPath(u))
	return is.path()
}

// path returns the suffix of the path of an endpoint, or the prefix for metadata.
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

// label returns the name of the endpoint in metrics.
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

// outcome is the outcome of a request.
type outcome struct {
	grant, reason string
	token, code   bool
}

// refuse writes an error document and notes the reason.
func (t *Request) refuse(w http.ResponseWriter, e *Error) error {
	t.outcome.reason = e.Type
	return refuse(w, e, t.state())
}

// knownGrant returns a grant_type if it exists, and [OtherGrant] if not.
func (s *Server) knownGrant(name string) string {
	if s.grants[name] == nil {
		return OtherGrant
	}
	return name
}

// tell reports the outcome of a request. err is the error of its handler.
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

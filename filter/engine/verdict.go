package engine

import "github.com/meshgate/meshgate/filter/contract"

// Tokens is the first level of the token cache as a decision sees it.
type Tokens interface {
	// Lookup asks for a token hash. For contract.Found it has copied the packed
	// record into dst, which holds at least contract.MaxPacked bytes, and
	// returns its length. It never blocks and never allocates.
	Lookup(hash contract.Hash, dst []byte) (n int, answer contract.Answer)
}

// Request is what a decision reads of a request. Its memory belongs to the
// proxy and is not kept beyond the call.
type Request struct {
	// Path is :path as the proxy routed it, normalised, query included.
	Path []byte
	// Credential is the value of the header that Program.Header names.
	Credential []byte
	// HasCredential tells an empty header from an absent one.
	HasCredential bool
}

// Action is what the proxy must do.
type Action uint8

const (
	// Refuse sends Verdict.Refusal. It is the zero value on purpose.
	Refuse Action = iota
	// Continue sends the request upstream with the identity headers edited.
	Continue
	// Lookup asks the deeper levels for Verdict.Hash and then decides again with
	// a Tokens that knows the answer.
	Lookup
	// Issue hands the request to the OAuth server.
	Issue
)

// Verdict is the outcome of a decision.
type Verdict struct {
	Action Action
	// RemoveCredential says to drop the header that Program.Header names.
	RemoveCredential bool
	// Refusal is set for Refuse; it is shared and must not be changed.
	Refusal *Refusal
	// Plugin is the id of the plugin instance that decided, for Lookup and Issue.
	Plugin string
	// Hash is the token to look up, for Lookup.
	Hash contract.Hash
	// Headers holds, for Continue, where in the buffer the value of each identity
	// header is. A header without length must be absent from the request.
	Headers [contract.NumIdentityHeaders]contract.Span
}

// Refusal is a prepared answer.
type Refusal struct {
	Status int
	// GRPCStatus is sent as the grpc-status header to gRPC clients.
	GRPCStatus int
	// Headers are sent in order; content-type is among them.
	Headers [][2]string
	Body    string
	// Reason is a short constant for statistics, such as token_missing.
	Reason string
}

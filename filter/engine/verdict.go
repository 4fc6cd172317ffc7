package engine

import "github.com/meshgate/meshgate/filter/contract"

// MaxBody bounds in bytes the body that credentials are looked for in. In a
// longer one there are none.
const MaxBody = 1 << 20

// MaxHeaders bounds the headers that a program reads.
const MaxHeaders = 8 + contract.MaxCredentialNames + contract.MaxTriggers

// Tokens is the first level of the token cache as a decision sees it.
type Tokens interface {
	// Lookup asks for a token hash. For contract.Found, and for contract.Expired
	// where it is still there, it has copied the packed record into dst, which holds
	// at least contract.MaxPacked bytes, and returns its length. It never blocks and
	// never allocates.
	Lookup(hash contract.Hash, dst []byte) (n int, answer contract.Answer)
}

// BodyState is what is known of the body of a request.
type BodyState uint8

// States of bodies.
const (
	// BodyUnread: there may be a body, nobody has looked.
	BodyUnread BodyState = iota
	// BodyRead: Request.Body is all of it, be it empty.
	BodyRead
	// BodyTooLarge: it is longer than [MaxBody], or cannot be had.
	BodyTooLarge
)

// Request is what a decision reads of a request. Its memory belongs to the
// proxy and is not kept beyond the call.
type Request struct {
	// Path is :path as the proxy routed it, normalised, query included.
	Path []byte
	// Headers are the first values of the headers that Program.Headers names, in
	// its order: nil for one that was not sent, and not nil for an empty one. At
	// least Program.Early of them must be there, or all.
	Headers [][]byte
	// Repeated has bit i set if header i was sent more than once.
	Repeated uint32
	// HTTP2 says that the client speaks HTTP/2 or later. It is read by programs
	// for which Program.ReadsProtocol holds.
	HTTP2 bool
	// BodyState says whether Body has been read.
	BodyState BodyState
	Body      []byte
}

// Action is what the proxy must do.
type Action uint8

const (
	// Refuse sends Verdict.Refusal. It is the zero value on purpose.
	Refuse Action = iota
	// Continue sends the request upstream with the identity headers edited.
	Continue
	// Lookup asks the deeper levels for Verdict.Hash and then decides again with
	// a Tokens that knows the answer, beside those it has given before.
	Lookup
	// Issue hands the request to the OAuth server.
	Issue
	// NeedHeaders wants all headers of Program.Headers, and to decide again.
	NeedHeaders
	// NeedBody wants the body, or the news that it is too large, and to decide
	// again. It never follows Lookup unless Program.BodyAfterLookup holds.
	NeedBody
)

// Verdict is the outcome of a decision.
type Verdict struct {
	Action Action
	// Remove has bit i set if the header i of Program.Headers must be dropped,
	// for Continue and Issue.
	Remove uint32
	// HideQuery and HideBody are for Program.Rewrite, which must be applied if
	// either is not zero, for Continue and Issue.
	HideQuery, HideBody uint16
	// Refusal is set for Refuse; it is shared and must not be changed.
	Refusal *Refusal
	// Plugin is the id of the plugin instance that decided, for Lookup and Issue.
	Plugin string
	// Hash is the token to look up, for Lookup; for Continue with Repeats the one that was
	// accepted.
	Hash contract.Hash
	// Repeats says, for Continue, that the verdict is the same for every request with the
	// same headers and protocol and any path that has no query and is no endpoint of an
	// OAuth server, for as long as a look-up of Hash finds the same record. It is said of
	// requests that are such themselves.
	Repeats bool
	// Headers holds, for Continue, where in the buffer the value of each identity
	// header is. A header without length must be absent from the request. For Refuse
	// it says who asked, for logs, as far as that is known: values may be such as no
	// header can carry.
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
	// grpcText is the grpc-message, unless it is the name of the status.
	grpcText string
	// Reason is for logs and statistics.
	Reason contract.Reason
}

package engine

import "github.com/meshgate/meshgate/filter/contract"

// MaxBody is the largest body, in bytes, that is searched for credentials. A longer body
// counts as having none.
const MaxBody = contract.MaxBody

// MaxHeaders bounds the number of headers that a program reads.
const MaxHeaders = 8 + contract.MaxCredentialNames + contract.MaxTriggers

// Tokens is the first level of the token cache, as a decision sees it.
type Tokens interface {
	// Lookup asks for a token hash. For contract.Found it copies the packed record into dst,
	// which holds at least contract.MaxPacked bytes, and returns its length. It does so for
	// contract.Expired too if the record is still stored. It never blocks and never
	// allocates.
	Lookup(hash contract.Hash, dst []byte) (n int, answer contract.Answer)
}

// BodyState is what is known of the body of a request.
type BodyState uint8

// States of bodies.
const (
	// BodyUnread: there may be a body, but it has not been read.
	BodyUnread BodyState = iota
	// BodyRead: Request.Body is the whole body, which may be empty.
	BodyRead
	// BodyTooLarge: the body is longer than [MaxBody], or cannot be read.
	BodyTooLarge
)

// Request is what a decision reads of a request. Its memory belongs to the proxy and is not
// kept after the call.
type Request struct {
	// Path is :path as the proxy routed it, normalised, query included.
	Path []byte
	// Headers are the first values of the headers that Program.Headers names, in its order.
	// A value is nil if the header was not sent, and not nil if the header is empty. At
	// least Program.Early of them must be there.
	Headers [][]byte
	// Repeated has bit i set if header i was sent more than once.
	Repeated uint32
	// HTTP2 says that the client speaks HTTP/2 or later. Only programs for which
	// Program.ReadsProtocol holds read it.
	HTTP2     bool
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
	// Lookup asks the deeper levels for Verdict.Hash. The proxy then decides again, with a
	// Tokens that knows this answer and the earlier ones.
	Lookup
	// Issue hands the request to the OAuth server.
	Issue
	// NeedHeaders asks for all headers of Program.Headers. The proxy then decides again.
	NeedHeaders
	// NeedBody asks for the body, or the news that it is too large. The proxy then decides
	// again. It never follows Lookup unless Program.BodyAfterLookup holds.
	NeedBody
)

// Verdict is the outcome of a decision.
type Verdict struct {
	Action Action
	// Remove has bit i set if header i of Program.Headers must be dropped, for Continue and
	// Issue.
	Remove uint32
	// HideQuery and HideBody are for Program.Rewrite, for Continue and Issue. It must be
	// applied if one of them is not zero.
	HideQuery, HideBody uint16
	// Refusal is set for Refuse. It is shared and must not be changed.
	Refusal *Refusal
	// Plugin is the id of the plugin instance that decided, for Lookup and Issue.
	Plugin string
	// Hash is the token to look up, for Lookup; for Continue with Repeats the one that was
	// accepted.
	Hash contract.Hash
	// Repeats says, for Continue, that the verdict is the same for every request with the
	// same headers, protocol and query and any path that is no endpoint of an OAuth server,
	// for as long as a look-up of Hash finds the same record. All queries that tell nothing,
	// see [Program.QueryNames], count as the same. It is said of requests whose own path is
	// no endpoint.
	Repeats bool
	// Headers holds, for Continue, where in the buffer the value of each identity header
	// is. A header with an empty value must be absent from the request. For Refuse it says
	// who asked, for logs, as far as this is known; such a value may contain bytes that no
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
	// grpcText is the grpc-message, unless that is the name of the status.
	grpcText string
	// Reason is for logs and statistics.
	Reason contract.Reason
}

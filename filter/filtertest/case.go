package filtertest

import "github.com/meshgate/meshgate/filter/contract"

// Case is one row of the behaviour table.
type Case struct {
	// Name is unique and a valid DNS label, so that it can name a virtual host.
	Name string
	// Chain is the configuration of the route, byte for byte. It may be broken.
	Chain string
	// Tokens are what the authority knows. A value has the same record in all cases, so that
	// one Redis can hold the tokens of the whole table.
	Tokens []Token
	// Down says that no authority can be asked.
	Down bool
	// Request is what the client sends.
	Request Request
	// Want is the expected outcome.
	Want Want
}

// Token is an access token, or an API key if the record is one, with what the authority
// knows about it.
type Token struct {
	Value  string
	Record contract.Record
}

// Hash returns the key of the token in caches.
func (t *Token) Hash() contract.Hash {
	if t.Record.Key {
		return contract.HashKey([]byte(t.Value))
	}
	return contract.HashToken([]byte(t.Value))
}

// Request is a client's request. The runner chooses its Host.
type Request struct {
	// Method is GET if empty.
	Method string
	// Path is sent as written, not normalised, including the query.
	Path string
	// Headers are sent in order, repeated names as separate lines.
	Headers [][2]string
	// HTTP2 asks for HTTP/2, which gRPC needs.
	HTTP2 bool
	// Body is sent with its length, or without it if Chunked.
	Body    string
	Chunked bool
	// Trailers sends a trailer after the body, which then has no length.
	Trailers bool
}

// Outcome is where a request ends.
type Outcome int

// Outcomes.
const (
	// Refused: the filter answers itself.
	Refused Outcome = iota + 1
	// Proxied: the upstream of the route gets the request.
	Proxied
	// Issued: the OAuth server gets the request.
	Issued
)

// String names the outcome in test output.
func (o Outcome) String() string {
	switch o {
	case Refused:
		return "refused"
	case Proxied:
		return "proxied"
	case Issued:
		return "issued"
	default:
		return "nothing"
	}
}

// Want is the expected outcome of a case.
type Want struct {
	Outcome Outcome
	// Status of a refusal. It is not checked for gRPC, because Envoy sends its own answers
	// to gRPC clients with status 200.
	Status int
	// GRPCStatus and GRPCMessage are those of a refused gRPC request. If GRPCStatus is
	// empty, the request is not gRPC.
	GRPCStatus  string
	GRPCMessage string
	// Headers that the answer must have, once and with exactly this value.
	Headers [][2]string
	// NoHeaders must not be in the answer.
	NoHeaders []string
	// Body of a refusal that is not gRPC.
	Body string
	// Upstream headers that must arrive once and with exactly this value. Identity and
	// hand-over headers that are not listed must not arrive in any spelling.
	Upstream [][2]string
	// NoUpstream headers must not arrive either.
	NoUpstream []string
	// Path is what must arrive as the path, including the query. If it is empty, the path of
	// the request must arrive, normalised.
	Path string
	// Sent is the body that must arrive. If it is empty, the body of the request must
	// arrive. For Nothing, no body may arrive.
	Sent string
}

// Nothing is the Want.Sent of a body that is removed completely.
const Nothing = "\x00"

// Cases returns the table.
func Cases() []Case {
	var all []Case
	for _, part := range [][]Case{
		tokenCases, parameterCases, acceptanceCases, upstreamCases, hiddenCases, hiddenParameterCases, anonymousCases,
		issuingCases, guardedCases, furtherCases, failureCases, keyCases, bothCases, eitherCases, terminationCases, protocolCases,
	} {
		all = append(all, part...)
	}
	return all
}

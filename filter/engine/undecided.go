package engine

import "strings"

// Undecided is the refusal where there is no decision: something that decides is missing,
// or has failed.
var Undecided = &Refusal{
	Status: 503, GRPCStatus: grpcUnavailable, Reason: "undecided",
	Headers: [][2]string{{"content-type", jsonType}},
	Body:    `{"message":"The request cannot be authorized at the moment"}`,
}

// IsGRPC reports, by the content-type of a request, whether its client expects the answers of
// gRPC. Source: the gRPC project's PROTOCOL-HTTP2 document.
func IsGRPC(contentType string) bool {
	rest, ok := strings.CutPrefix(contentType, "application/grpc")
	return ok && (rest == "" || rest[0] == '+' || rest[0] == ';')
}

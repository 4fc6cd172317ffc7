package engine

import "github.com/meshgate/meshgate/filter/contract"

// Undecided is the refusal where there is no decision: something that decides is missing,
// or has failed. Adapters send it for a verdict without a refusal.
var Undecided = &Refusal{
	Status: 503, GRPCStatus: grpcUnavailable, Reason: contract.ReasonUndecided,
	Headers: [][2]string{{"content-type", jsonType}},
	Body:    `{"message":"The request cannot be authorized at the moment"}`,
}

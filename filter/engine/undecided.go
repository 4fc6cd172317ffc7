package engine

import (
	"net/http"

	"github.com/meshgate/meshgate/filter/contract"
)

// Undecided is the refusal where there is no decision: something that decides is missing,
// or has failed. Adapters send it for a verdict without a refusal.
var Undecided = &Refusal{
	Status: 503, GRPCStatus: grpcUnavailable, Reason: contract.ReasonUndecided,
	Headers: [][2]string{{"content-type", jsonType}},
	Body:    `{"message":"The request cannot be authorized at the moment"}`,
}

// Unmarked is the refusal of a route that should say whether it has a chain, and does not.
var Unmarked = because503(contract.ReasonRouteUnmarked)

// because503 returns the answer of Undecided with another reason for the log.
func because503(reason contract.Reason) *Refusal {
	r := *Undecided
	r.Reason = reason
	return &r
}

// Refusals of bodies that are held back for a decision. Adapters that bound such bodies by
// themselves send them. The dynamic module has a generated copy.
var (
	// BodyBudget: there is no room for more of it.
	BodyBudget = refuseBody(http.StatusServiceUnavailable, grpcUnavailable, contract.ReasonBodyBudget,
		"The request body cannot be held at the moment", [2]string{"retry-after", "1"})
	// BodyDeadline: it did not arrive in time.
	BodyDeadline = refuseBody(http.StatusRequestTimeout, grpcDeadlineExceeded, contract.ReasonBodyDeadline,
		"The request body took too long")
)

func refuseBody(status, grpc int, reason contract.Reason, text string, headers ...[2]string) *Refusal {
	r := answer(status, reason, message(text), headers...)
	r.GRPCStatus, r.grpcText = grpc, text
	return r
}

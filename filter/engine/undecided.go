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

// Refusals of bodies that are held back for a decision. Adapters that bound those by
// themselves send them.
var (
	// BodyBudget: there is no room for more of it.
	BodyBudget = answer(http.StatusServiceUnavailable, contract.ReasonBodyBudget,
		message("The request body cannot be held at the moment"), [2]string{"retry-after", "1"})
	// BodyDeadline: it did not arrive in time.
	BodyDeadline = &Refusal{
		Status: http.StatusRequestTimeout, GRPCStatus: grpcDeadlineExceeded, Reason: contract.ReasonBodyDeadline,
		Headers: [][2]string{{"content-type", jsonType}},
		Body:    message("The request body took too long"),
	}
)

package engine_test

import (
	"testing"

	"github.com/meshgate/meshgate/filter/engine"
)

// TestBodyRefusals: a client of gRPC reads the same text as one that gets the body.
func TestBodyRefusals(t *testing.T) {
	for _, r := range []*engine.Refusal{engine.BodyBudget, engine.BodyDeadline} {
		if want := `{"message":"` + r.GRPCMessage() + `"}`; r.Body != want {
			t.Errorf("%s: the body is %s, want %s", r.Reason, r.Body, want)
		}
	}
}

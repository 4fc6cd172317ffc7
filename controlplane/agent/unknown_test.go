package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// The trust file in the run directory is removed before Envoy starts if the control plane
// counts no filter of the node: an operator has declared the node gone for good, and no
// revocation has waited for it since.
func TestForgottenNodeForgets(t *testing.T) {
	for name, remembered := range map[string]bool{"it is remembered": true, "it was forgotten": false} {
		t.Run(name, func(t *testing.T) {
			cp := newControlPlane(t)
			cp.enrolment.Remembers = func(string) bool { return remembered }
			o, _ := cp.options(t, "gw")
			a := newAgent(t, o)
			trust := filepath.Join(a.dir.path, contract.TrustFile)
			if err := replace(trust, []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if _, err := a.enrolFirst(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(trust); errors.Is(err, os.ErrNotExist) == remembered {
				t.Errorf("what a filter left: %v", err)
			}
		})
	}
}

// A gateway that was removed but still runs enrols again.
func TestRemovedGatewayEnrolsAgain(t *testing.T) {
	cp := newControlPlane(t)
	enrolled := make(chan string, 1)
	cp.enrolment.Enrolled = func(_ context.Context, node string) { enrolled <- node }
	o, _ := cp.options(t, "gw")
	a := newAgent(t, o)
	a.registerAgain(t.Context())
	select {
	case node := <-enrolled:
		if node != "cp/default/gw" {
			t.Error(node)
		}
	default:
		t.Error("it did not enrol")
	}
}

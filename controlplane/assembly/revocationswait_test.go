package assembly

import (
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/controlplane/operator"
	"github.com/meshgate/meshgate/controlplane/revoke"
)

// TestRevocationsWait: the condition says that revocations wait, for which gateways, and what
// to do. The control plane is ready nevertheless.
func TestRevocationsWait(t *testing.T) {
	for _, tc := range []struct {
		waits  revoke.Waits
		reason string
		says   []string
	}{
		{revoke.Waits{Former: true, Filters: 1, Known: 3, Away: "cp/default/edge"}, "gateways_away", []string{"1 of 3 gateways", "restored or its Redis was replaced", "(cp/default/edge)", "DELETE /nodes/{name}", "?former=true"}},
		{revoke.Waits{Former: true, Filters: 2, Known: 3, Away: "a", Linked: "b"}, "gateways_away", []string{"2 of 3 gateways", "(a; connected: b)"}},
		{revoke.Waits{Former: true, None: true, Filters: 1, Known: 1, Away: "a"}, "gateways_away", []string{"Redis is not used any more", "(a)"}},
		{revoke.Waits{Filters: 1, Known: 1, Away: "a"}, "gateways_away", []string{"Redis cannot be written", "(a)", "DELETE /nodes/{name}"}},
		{revoke.Waits{Former: true, Filters: 1, Known: 1, Linked: "b"}, "not_confirmed", []string{"(b)", "state directories"}},
		{revoke.Waits{Strangers: true}, "gateways_unknown", []string{"condition redis"}},
	} {
		cp := atEase()
		tell := revocationsWait(cp.ready.conditions)
		tell(tc.waits)
		status, a := readyOf(t, cp)
		c := conditionOf(a, conditionRevocations)
		if status != http.StatusOK || a.Message != health.Ready || c.State != health.Degraded || c.Reason != tc.reason {
			t.Errorf("%+v: %d %+v", tc.waits, status, a)
		}
		for _, word := range append(tc.says, "503") {
			if !strings.Contains(c.Text, word) {
				t.Errorf("%+v: %q does not say %q", tc.waits, c.Text, word)
			}
		}
		address := serveStatus(t, cp, nodestest.New())
		out, err := clitest.Execute(t, operator.StatusCommand(), "--address", address)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), "revocations_wait degraded") || clitest.Code(err) != operator.ExitUneven {
			t.Errorf("status: %v\n%s", err, out)
		}
		tell(revoke.Waits{})
		for _, c := range asked(t, cp, "").Conditions {
			if c.State != health.OK {
				t.Errorf("it is over: %+v", c)
			}
		}
	}
}

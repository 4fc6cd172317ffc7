package agent

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/meshgate/meshgate/controlplane/health"
)

// TestReadySaysWhatIsTheMatter: a problem with which Envoy serves leaves the proxy ready.
// Its text, with files and addresses, is only for the machine itself.
func TestReadySaysWhatIsTheMatter(t *testing.T) {
	configured := make(chan struct{})
	close(configured)
	envoy := &fakeEnvoy{pid: 1, answer: func(context.Context) error { return nil }}
	s := &status{envoy: envoy, admin: envoy, leaving: t.Context(), configured: configured, refused: func() map[string]string { return nil }, conditions: newConditions(slog.New(slog.DiscardHandler))}
	s.enrolled.Store(true)
	s.conditions.Set(conditionControlPlane, health.Finding{State: health.Degraded, Reason: "refused", Text: "see /var/lib"})
	for from, want := range map[string]string{"127.0.0.1:1": "see /var/lib", "[::1]:1": "see /var/lib", "[::ffff:127.0.0.1]:1": "see /var/lib", "10.0.0.1:1": "", "": ""} {
		r, w := httptest.NewRequest(http.MethodGet, "/ready", nil), httptest.NewRecorder()
		r.RemoteAddr = from
		s.handler().ServeHTTP(w, r)
		var a health.Answer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK || a.Message != "ready" || len(a.Conditions) != 8 {
			t.Fatalf("%d %s %v", w.Code, w.Body, err)
		}
		if c := a.Conditions[0]; c.Name != conditionControlPlane || c.Reason != "refused" || c.Text != want {
			t.Errorf("to %q: %+v", from, c)
		}
	}
}

// TestTells: the control plane is told what the status says on this machine. Of the
// conditions it gets those that are not in order.
func TestTells(t *testing.T) {
	a := &Agent{conditions: newConditions(slog.New(slog.DiscardHandler))}
	a.conditions.Set(conditionToken, health.Finding{State: health.Degraded, Reason: "ends_soon", Text: "put one there"})
	r := a.tells(t.Context())
	if r.NotReady != statusStarting || r.Trouble != "" || len(r.Conditions) != 1 || r.Conditions[0].Name != conditionToken || r.Conditions[0].Text != "put one there" {
		t.Errorf("%+v", r)
	}
}

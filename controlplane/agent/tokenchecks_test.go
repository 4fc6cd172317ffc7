package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/filter/contract"
)

// TestTokenChecksStop: with both the control plane and its Redis away, no token can be
// decided. The proxy stays ready for requests that need none, and reports both causes. With
// only one of them away, checks continue. A proxy that checks no tokens reports nothing of
// this.
func TestTokenChecksStop(t *testing.T) {
	cp := newControlPlane(t)
	o, _ := cp.options(t, "gw")
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	a.asks = patience
	url, identity, end := aRedis(t, 7)
	write := writing(t, a)
	configured := make(chan struct{})
	close(configured)
	envoy := &fakeEnvoy{pid: 1, answer: func(context.Context) error { return nil }}
	s := &status{envoy: envoy, admin: envoy, leaving: t.Context(), configured: configured, refused: func() map[string]string { return nil }, conditions: a.conditions}
	s.enrolled.Store(true)
	a.conditions.Watch(conditionTokenChecks, 0, a.judgeTokenChecks)
	expect := func(when, redis, checks, text string) {
		t.Helper()
		r, w := httptest.NewRequest(http.MethodGet, "/ready", nil), httptest.NewRecorder()
		r.RemoteAddr = "127.0.0.1:1"
		s.handler().ServeHTTP(w, r)
		var answer health.Answer
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		message := health.Ready
		if checks != "" {
			message = "ready, but token checks have stopped"
		}
		got := map[string]health.Condition{}
		for _, c := range answer.Conditions {
			got[c.Name] = c
		}
		c := got["token_checks"]
		if w.Code != http.StatusOK || answer.Message != message || got["token_redis"].Reason != redis || c.Reason != checks || !strings.Contains(c.Text, text) || c.Name == "" {
			t.Errorf("%s: %d %s", when, w.Code, w.Body)
		}
	}
	long := time.Now().Add(-time.Minute)
	a.report(errors.New("away"))
	a.lost.Store(&long)
	expect("no token is checked here", "", "", "")
	write("settings.json", `{"control_plane":{"address":%q,"ca_file":"ca","token_file":"token","node":%q}}`, a.host, a.NodeID())
	write(contract.TrustFile, `{"address":%q,"node":%q,"trust":{"epoch":7,"servers":[%q]},"scopes":{"of":"default","members":["default"]},"leased_ms":%d}`, a.host, a.NodeID(), identity, time.Now().UnixMilli())
	write(contract.Level2File, `{"address":%q,"node":%q,"level2":{"keys":[]}}`, a.host, a.NodeID())
	expect("no Redis stands in", "", "stopped", "no Redis stands in for the control plane (redis.nodeURL is not set")
	write(contract.Level2File, `{"address":%q,"node":%q,"level2":{"redis":{"url":%q}}}`, a.host, a.NodeID(), url)
	expect("a Redis stands in", "", "", "")
	end()
	looked := time.Now().Add(-time.Minute)
	a.looked.Store(&looked)
	a.report(errors.New("away"))
	if a.conditions.Get(conditionTokenChecks).Reason != "stopped" {
		t.Error("an attempt to reach the control plane is no occasion to look")
	}
	expect("both are away", health.Refused, "stopped", "the control plane "+a.Address+" is out of reach (the condition control_plane says why), and the Redis that stands in for the control plane cannot be read from here (")
	a.report(nil)
	expect("Redis alone is away", health.Refused, "", "")
	a.report(errors.New("away"))
	if a.lost.Load() == nil {
		t.Error("nobody knows since when it is away")
	}
	just := time.Now().Add(patience) // a busy machine may take longer than a lease until it looks
	a.lost.Store(&just)
	expect("within a lease", health.Refused, "", "")
}

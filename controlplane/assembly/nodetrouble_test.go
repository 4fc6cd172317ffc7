package assembly

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/server"
)

// TestNodesCondition: troubles that agents report of connected proxies are a condition of the
// control plane, for as long as they are connected and report them. The worst trouble is the
// reason.
func TestNodesCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		insights, err := insight.Open(t.Context(), insight.Options{Store: memstore.NewStatus(), Instance: "cp-1", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		b := newConditions(slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); watchNodes(ctx, b, insights) }()
		expect := func(when, reason, text string) {
			t.Helper()
			for range 3 { // changes within the pause are shown together
				<-time.After(nodesPause) // in the time of the bubble
				synctest.Wait()
			}
			c := b.Get(conditionNodes)
			if text != "" {
				text += ". `meshgate status` says what and what to do, and so does /ready of each"
			}
			if c.Reason != reason || c.Text != text || (c.State == health.OK) != (reason == "") {
				t.Errorf("%s: %+v", when, c)
			}
		}
		web, edge := server.Event{Node: "default.web", Stream: 1}, server.Event{Node: "cp/default/edge", Stream: 2}
		insights.Connected(web)
		insights.Connected(edge)
		expect("all is well", "", "")
		insights.Told(web.Node, "", "", []health.Condition{{Name: "token", State: health.Degraded, Reason: "ends_soon"}})
		expect("a token ends", "degraded", "1 connected nodes say that something is the matter (default.web: token ends_soon)")
		insights.Told(edge.Node, "its Envoy hangs", "envoy away", nil)
		expect("an Envoy hangs", "envoy_away", "2 connected nodes say that something is the matter (cp/default/edge: its Envoy hangs; default.web: token ends_soon)")
		insights.Disconnected(edge)
		expect("it leaves", "degraded", "1 connected nodes say that something is the matter (default.web: token ends_soon)")
		insights.Told(web.Node, "", "starting", nil)
		expect("one starts", "not_ready", "1 connected nodes say that something is the matter (default.web: starting)")
		insights.Told(web.Node, "", "", nil)
		expect("it is well", "", "")
		cancel()
		<-done
		if err := insights.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

package assembly

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/config"
)

// TestEachSinkHasMetrics: each syslog collector has its own figures, under the address that the settings give it.
func TestEachSinkHasMetrics(t *testing.T) {
	cp := startServing(t, config.Config{Audit: config.Audit{Syslog: "udp://127.0.0.1:9,tcp://127.0.0.1"}}, slog.New(slog.DiscardHandler))
	registry := prometheus.NewRegistry()
	registry.MustRegister(sinkMetrics{cp})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, f := range families {
		if name, ok := strings.CutPrefix(f.GetName(), "meshgate_audit_sink_"); ok {
			for _, m := range f.GetMetric() {
				got[name+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()+m.GetCounter().GetValue() >= 0
			}
		}
	}
	for _, family := range []string{"events_waiting", "failures_total", "events_lost_total"} {
		for _, sink := range []string{"udp://127.0.0.1:9", "tcp://127.0.0.1:8071"} {
			if !got[family+" "+sink] {
				t.Errorf("%s of %s is missing or no number: %v", family, sink, got)
			}
		}
	}
}

package edge

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/view"
)

// TestLongestProbe: Envoy does not confirm a cluster before its targets were probed once. A
// probe of several hours would delay all other new configuration for as long.
func TestLongestProbe(t *testing.T) {
	for given, want := range map[float64]time.Duration{0.5: 500 * time.Millisecond, 60: time.Minute, 65535: time.Minute} {
		u := &gateway.Upstream{Healthchecks: gateway.Healthchecks{Active: gateway.ActiveCheck{
			Type: gateway.CheckHTTP, Timeout: given, HTTPPath: "/", Healthy: gateway.ProbedHealthy{Interval: 65535},
		}}}
		check, err := activeCheck(clusterKey{upstream: &view.Upstream{Spec: u}})
		if err != nil {
			t.Fatal(err)
		}
		if got := check.GetTimeout().AsDuration(); got != want {
			t.Errorf("a timeout of %v s is %v", given, got)
		}
		if got := check.GetInterval().AsDuration(); got != 65535*time.Second {
			t.Errorf("the interval is %v", got)
		}
	}
}

package assembly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestGatewaysAreAskedFewAtATime: a reader of the health of upstreams asks a bounded number
// of gateways at a time, and still asks all of them.
func TestGatewaysAreAskedFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("gw-%02d", i))
		}
		open := make(chan struct{}, len(names))
		most := make(chan int, len(names))
		out := askGateways(t.Context(), names, func(_ context.Context, name string) ([]byte, error) {
			open <- struct{}{}
			most <- len(open)
			time.Sleep(time.Millisecond) // virtual time
			<-open
			if name == "gw-07" {
				return nil, errors.New("it is away")
			}
			return []byte(name), nil
		})
		close(most)
		highest := 0
		for n := range most {
			highest = max(highest, n)
		}
		if highest != clustersAtOnce {
			t.Errorf("%d were asked at once, not %d", highest, clustersAtOnce)
		}
		if len(out) != len(names)-1 || out["gw-07"] != nil || string(out["gw-99"]) != "gw-99" {
			t.Errorf("%d answers", len(out))
		}
	})
}

// TestGatewaysThatHang: a few gateways that do not answer do not cost the answers of the
// others. However many hang, the reader waits no longer than the deadline.
func TestGatewaysThatHang(t *testing.T) {
	for hang, answers := range map[int]int{clustersAtOnce: 20, 100: 0} {
		synctest.Test(t, func(t *testing.T) {
			var names []string
			for i := range hang {
				names = append(names, fmt.Sprintf("a-%d", i))
			}
			for i := range 20 {
				names = append(names, fmt.Sprintf("b-%d", i))
			}
			slices.Sort(names)
			began := time.Now()
			out := askGateways(t.Context(), names, func(ctx context.Context, name string) ([]byte, error) {
				if name[0] == 'b' {
					return []byte(name), ctx.Err()
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
			if took := time.Since(began); len(out) != answers || took > clustersTimeout {
				t.Errorf("%d of %d that hang: %d answers after %s", hang, len(names), len(out), took)
			}
		})
	}
}

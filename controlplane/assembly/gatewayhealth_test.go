package assembly

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestGatewaysAreAskedFewAtATime: two readers of the health of upstreams together ask a bounded
// number of gateways at a time, and each still asks all of them. No answer is kept once it was
// read.
func TestGatewaysAreAskedFewAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprintf("gw-%02d", i))
		}
		asking := make(chan struct{}, clustersAtOnce)
		var held, highest atomic.Int64
		var readers sync.WaitGroup
		for range 2 {
			readers.Go(func() {
				out := map[string]bool{}
				askGateways(t.Context(), asking, names, func(_ context.Context, name string) ([]byte, error) {
					n := held.Add(1)
					for old := highest.Load(); n > old && !highest.CompareAndSwap(old, n); old = highest.Load() {
					}
					time.Sleep(time.Millisecond) // virtual time
					if name == "gw-07" {
						held.Add(-1)
						return nil, errors.New("it is away")
					}
					return []byte(name), nil
				}, func(name string, text []byte) {
					out[name] = string(text) == name
					held.Add(-1)
				})
				if len(out) != len(names)-1 || out["gw-07"] || !out["gw-99"] {
					t.Errorf("%d answers", len(out))
				}
			})
		}
		readers.Wait()
		if n := highest.Load(); n != clustersAtOnce {
			t.Errorf("%d were asked or held at once, not %d", n, clustersAtOnce)
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
			out := 0
			askGateways(t.Context(), make(chan struct{}, clustersAtOnce), names, func(ctx context.Context, name string) ([]byte, error) {
				if name[0] == 'b' {
					return []byte(name), ctx.Err()
				}
				<-ctx.Done()
				return nil, ctx.Err()
			}, func(string, []byte) { out++ })
			if took := time.Since(began); out != answers || took > clustersTimeout {
				t.Errorf("%d of %d that hang: %d answers after %s", hang, len(names), out, took)
			}
		})
	}
}

package dryrun_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
)

// BenchmarkDryRun is one dry run in a mesh of 1,000 connected proxies that serve 40 services and
// call five each. It also reports how long the writer's lock is held, and the size of the answer.
func BenchmarkDryRun(b *testing.B) {
	w := newWorld(b, 999, 40)
	lonely := dataplane(999, 40)
	lonely.Networking.Inbound[0].Tags[mesh.TagService] = "lonely"
	w.must(w.write(w.ctx, put(mesh.Dataplanes, "lonely", lonely)))
	w.Connect(b, "m.lonely")
	w.Settle(b)
	one := breaker("*", 7)
	one.Sources[0].Match[mesh.TagService] = "lonely"
	for name, c := range map[string]struct {
		spec *circuitbreaker.Spec
		want int
	}{"PolicyForAll": {breaker("*", 7), 1000}, "PolicyForOne": {one, 1}} {
		b.Run(name, func(b *testing.B) {
			locked, size := time.Duration(0), 0
			b.ReportAllocs()
			for b.Loop() {
				a, err := w.Run(w.ctx, func(ctx context.Context) error {
					begin := time.Time{}
					_, err := w.gate.Write(ctx, model.Config, func(tx store.Tx) error {
						begin = time.Now()
						return put(circuitbreaker.Kind, "b", c.spec)(tx)
					})
					locked += time.Since(begin)
					return err
				})
				if err != nil || a.Nodes.Changed != c.want {
					b.Fatalf("%+v %v", a, err)
				}
				text, _ := json.Marshal(a)
				size = len(text)
			}
			b.ReportMetric(float64(locked.Microseconds())/float64(b.N), "locked-µs/op")
			b.ReportMetric(float64(size), "answer-bytes")
		})
	}
}

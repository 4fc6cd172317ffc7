package sidecar_test

import (
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
)

// large returns a mesh of proxies that serve services and call others. All have joined.
func large(b *testing.B, proxies, services, outbounds int) *world {
	b.Helper()
	w := newWorld(b)
	commit, err := w.db.Update(ctx, model.Config, func(tx store.Tx) error {
		for i := range proxies {
			var calls []string
			for j := range outbounds {
				calls = append(calls, fmt.Sprintf("s%d", (i+1+j)%services))
			}
			d := dataplane(address(i), fmt.Sprintf("s%d", i%services), "http", calls...)
			if outbounds == 0 {
				d.Networking.TransparentProxying = &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001}
			}
			if _, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: meshName, Name: fmt.Sprintf("d%d", i), Spec: d}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	w.written = commit.Revision
	w.put(mesh.Trusts, meshName, meshName, trust("root"))
	w.put(mesh.Meshes, "", meshName, mtls(mesh.ModeStrict))
	w.restart()
	for i := range proxies {
		w.planner.Join(fmt.Sprintf("d%d", i))
	}
	w.planner.Plan()
	return w
}

func address(i int) string { return fmt.Sprintf("10.0.%d.%d", i/250, i%250+1) }

// toggle measures the cost of a write that goes back and forth. It requires that the given
// number of proxies get something new by it.
func toggle(b *testing.B, w *world, affected int, write func(i int)) {
	b.Helper()
	var changes [2]view.Change[*view.Mesh]
	for i := range changes {
		write(i)
		changes[i] = w.take()
		w.planner.Update(changes[i].State, changes[i].Keys, changes[i].All)
		w.planner.Plan()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		w.planner.Update(changes[i%2].State, changes[i%2].Keys, false)
		if got := len(w.planner.Plan()); got != affected {
			b.Fatalf("%d proxies changed", got)
		}
	}
}

func endpoint(w *world, service string) func(int) {
	return func(i int) {
		d := dataplane(fmt.Sprintf("10.9.0.%d", i+1), service, "http")
		w.put(mesh.Dataplanes, meshName, "extra", d)
	}
}

func BenchmarkEndpointChange(b *testing.B) {
	w := large(b, 1000, 50, 10)
	toggle(b, w, 200, endpoint(w, "s7"))
}

func BenchmarkPolicyForAll(b *testing.B) {
	w := large(b, 1000, 50, 10)
	toggle(b, w, 1000, func(i int) {
		w.put(circuitbreaker.Kind, meshName, "circuit-breaker-all-"+meshName, breaker("*", "*", uint32(7+i)))
	})
}

func BenchmarkUnrelatedDataplane(b *testing.B) {
	w := large(b, 1000, 50, 10)
	toggle(b, w, 0, endpoint(w, "unrelated"))
}

func BenchmarkJoinKnownClass(b *testing.B) {
	w := large(b, 1000, 50, 10)
	b.ReportAllocs()
	for b.Loop() {
		w.planner.Leave("d7")
		w.planner.Join("d7")
		if got := len(w.planner.Plan()); got != 1 {
			b.Fatalf("%d proxies changed", got)
		}
	}
}

func BenchmarkTransparentEndpointChange(b *testing.B) {
	w := large(b, 300, 300, 0)
	toggle(b, w, 300, endpoint(w, "s7"))
}

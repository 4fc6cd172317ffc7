package publish_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	plan "github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/resource"
)

// ofGateways is what was foretold of gateways in all runs.
type ofGateways struct {
	broken, kept bool
	changes      int
}

// gatewayed is a loop with two gateways of a group of a and b, of which writes are foretold.
type gatewayed struct {
	*rapid.T
	ctx  context.Context //nolint:containedctx // that of the run
	db   store.Store
	loop *publish.Loop
	out  *recorder
	seen *ofGateways
}

func startGatewayed(rt *rapid.T, seen *ofGateways) (g *gatewayed, end func()) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	log, db := slog.New(slog.DiscardHandler), memstore.New()
	views := view.NewResolved(db, scopestest.Resolver{}, nil, log)
	out := &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}
	other := plan.Params{HTTPPort: 9000, OAuth: plan.Endpoint{Host: "127.0.0.1", Port: 5678}}
	l := publish.New(publish.Options{Views: views, Publisher: out, Parameters: parameters{nodeB: other}, Latest: db.Revision, Log: log, Check: true})
	var all sync.WaitGroup
	all.Go(func() { _ = l.Run(ctx) })
	g = &gatewayed{T: rt, ctx: ctx, db: db, loop: l, out: out, seen: seen}
	end = func() {
		cancel()
		all.Wait()
		views.Close()
		_ = db.Close()
	}
	g.write(func(tx store.Tx) error { return scopestest.Set(tx, "default", "a", "b") })
	for _, node := range []string{nodeA, nodeB} {
		release, err := l.Connect(ctx, node, false)
		if err != nil {
			rt.Fatal(err)
		}
		ends := end
		end = func() { release(); ends() }
	}
	return g, end
}

func (g *gatewayed) write(fn func(store.Tx) error) {
	g.Helper()
	c, err := g.db.Update(g.ctx, model.Config, fn)
	if err == nil {
		err = g.loop.Settled(g.ctx, c.Revision)
	}
	if err != nil {
		g.Fatal(err)
	}
}

// foretell foresees a write, makes it, and compares what has become of each gateway and what cannot be made.
func (g *gatewayed) foretell(fn func(store.Tx) error) {
	g.Helper()
	had := map[string]*resource.Set{nodeA: g.out.set(nodeA), nodeB: g.out.set(nodeB)}
	fates := map[string]publish.Fate{}
	seen := foresee(g, g.db, g.loop, 10, fn)
	for _, f := range seen {
		for _, x := range f.Fates {
			fates[x.Node] = x
		}
	}
	g.write(fn)
	if len(seen) > 0 {
		told := troubles(func(yield func(publish.Failure)) {
			for _, x := range seen[0].Failures {
				g.seen.broken, g.seen.kept = true, g.seen.kept || x.Kept
				yield(x.Failure)
			}
		})
		is := troubles(func(yield func(publish.Failure)) {
			for _, x := range g.loop.FailuresOf(publish.ControlPlaneScope(model.DefaultControlPlane), "") {
				yield(publish.Failure{Failure: x})
			}
		})
		if diff := cmp.Diff(is, told); diff != "" {
			g.Fatalf("other problems were foretold (-is +foretold):\n%s", diff)
		}
	}
	for node, set := range had {
		is := g.out.set(node)
		fate, told := fates[node]
		if !told && !is.Equal(set) {
			g.Fatalf("nobody foresaw that %s changes", node)
		}
		if told && !maps.Equal(patched(set, fate), holdingOf(is)) {
			g.Fatalf("%s has become something else than was foretold:\n%v\n%v", node, patched(set, fate), holdingOf(is))
		}
		if told {
			g.seen.changes++
		}
	}
}

// TestForeseenOfGateways: the same for gateways of two sorts, of a group whose members come and go,
// with routes that cannot be made.
func TestForeseenOfGateways(t *testing.T) {
	seen := &ofGateways{}
	rapid.Check(t, func(rt *rapid.T) {
		g, end := startGatewayed(rt, seen)
		defer end()
		for range rapid.IntRange(1, 15).Draw(rt, "writes") {
			g.foretell(anyEntity(rt))
		}
		// Chance seldom breaks what is in order. Every run ends with that.
		const routeID, serviceID = "00000000-0000-4000-8000-000000020001", "00000000-0000-4000-8000-000000010001"
		way, broken := route("/a"), service(9000)
		way.Service, broken.Protocol = serviceID, "nonsense"
		g.foretell(func(tx store.Tx) error {
			return errors.Join(scopestest.Set(tx, "default", "a"), stored(tx, gateway.Services, "a", serviceID, service(9000)), stored(tx, gateway.Routes, "a", routeID, way))
		})
		g.foretell(func(tx store.Tx) error { return stored(tx, gateway.Services, "a", serviceID, broken) })
	})
	if !seen.broken || !seen.kept || seen.changes == 0 {
		t.Errorf("foretold was %+v", seen)
	}
}

// troubles lists failures in order, each once.
func troubles(each func(yield func(publish.Failure))) []string {
	all := map[string]bool{}
	each(func(f publish.Failure) {
		all[fmt.Sprintf("%s: %v, kept %t, awaited %t", f.Cell, f.Err, f.Kept, f.Awaited)] = true
	})
	return slices.Sorted(maps.Keys(all))
}

// TestForeseenOfWhatIsKept: gateways that keep the last good cluster of a service get what is
// foretold, though a plan from nothing has no such cluster.
func TestForeseenOfWhatIsKept(t *testing.T) {
	const routeID, serviceID = "00000000-0000-4000-8000-000000020001", "00000000-0000-4000-8000-000000010001"
	db, out := memstore.New(), &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}
	l := publish.Begin(t, db, publish.Options{Publisher: out, Parameters: parameters{}}, nil)
	release, err := l.Connect(t.Context(), nodeA, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	write := func(fn func(store.Tx) error) {
		t.Helper()
		c, err := db.Update(t.Context(), model.Config, fn)
		if err == nil {
			err = l.Settled(t.Context(), c.Revision)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(k *model.Kind, name string, spec any) func(store.Tx) error {
		return func(tx store.Tx) error {
			r := &model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: name, Spec: spec}
			if _, err := tx.Get(k, r.Scope, name); err == nil {
				_, err = tx.Update(r, 0)
				return err
			}
			_, err := tx.Create(r)
			return err
		}
	}
	way := func(path string) func(store.Tx) error {
		r := route(path)
		r.Service = serviceID
		return put(gateway.Routes, routeID, r)
	}
	broken := service(9000)
	broken.Protocol = "nonsense"
	write(put(gateway.Services, serviceID, service(9000)))
	write(way("/a"))
	write(put(gateway.Services, serviceID, broken))
	if fs := l.Failures(); len(fs) != 1 || !fs[0].Kept {
		t.Fatalf("nothing is kept: %+v", fs)
	}
	for _, step := range []struct {
		name    string
		fn      func(store.Tx) error
		removes bool
	}{
		{"another path", way("/b"), false},
		{"no route", func(tx store.Tx) error { return tx.Delete(gateway.Routes, model.DefaultControlPlane, routeID, 0) }, true},
	} {
		had := out.set(nodeA)
		seen := foresee(t, db, l, 10, step.fn)
		if len(seen) != 1 || len(seen[0].Fates) != 1 {
			t.Fatalf("%s: %+v", step.name, seen)
		}
		if fs := seen[0].Failures; !step.removes && (len(fs) != 1 || !fs[0].Kept || !fs[0].Already) {
			t.Errorf("%s: %+v", step.name, fs)
		}
		write(step.fn)
		fate, is := seen[0].Fates[0], out.set(nodeA)
		if !maps.Equal(patched(had, fate), holdingOf(is)) {
			t.Errorf("%s: foretold was\n%v\nand there is\n%v", step.name, patched(had, fate), holdingOf(is))
		}
		if gone := fate.Before.Len(resource.Cluster) > fate.After.Len(resource.Cluster); gone != step.removes {
			t.Errorf("%s: the cluster goes: %t", step.name, gone)
		}
	}
}

// anyEntity returns a random write of a member, or of the group.
func anyEntity(rt *rapid.T) func(store.Tx) error {
	id := func(kind int, n string) string {
		return fmt.Sprintf("00000000-0000-4000-8000-0000000%d000%d", kind, rapid.IntRange(1, 2).Draw(rt, n))
	}
	scope := rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "scope")
	put := func(k *model.Kind, name string, spec any) func(store.Tx) error {
		return func(tx store.Tx) error {
			r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
			if _, err := tx.Get(k, scope, name); err == nil {
				_, err = tx.Update(r, 0)
				return err
			}
			_, err := tx.Create(r)
			return err
		}
	}
	on := func(name string, fn func(store.Tx) error) func(store.Tx) error {
		return func(tx store.Tx) error {
			if _, err := tx.Get(gateway.Services, scope, name); err != nil {
				if err := put(gateway.Services, name, service(9000))(tx); err != nil {
					return err
				}
			}
			return fn(tx)
		}
	}
	switch rapid.SampledFrom([]string{"service", "route", "route", "route", "plugin", "delete", "members"}).Draw(rt, "what") {
	case "service":
		s := service(rapid.IntRange(9000, 9002).Draw(rt, "port"))
		s.Host = rapid.SampledFrom([]string{"127.0.0.1", "127.0.0.2"}).Draw(rt, "host")
		s.Protocol = rapid.SampledFrom([]string{"http", "http", "https", "nonsense"}).Draw(rt, "protocol") // the last cannot be made, and was stored in some other way
		return put(gateway.Services, id(1, "service"), s)
	case "route":
		r := route(rapid.SampledFrom([]string{"/a", "/b", "~/x[0-9]", "~/("}).Draw(rt, "path"))
		r.Service = id(1, "service")
		return on(r.Service, put(gateway.Routes, id(2, "route"), r))
	case "plugin":
		p := &gateway.Plugin{
			Name: "request-termination", Enabled: rapid.Bool().Draw(rt, "on"), Service: id(1, "service"), Protocols: []string{"http", "https"},
			Config: json.RawMessage(rapid.SampledFrom([]string{`{"status_code":503}`, `{"status_code":403,"message":"no"}`}).Draw(rt, "config")),
		}
		return on(p.Service, put(gateway.Plugins, strings.Replace(p.Service, "-00000000000", "-10000000000", 1), p))
	case "delete":
		name := id(1, "service")
		return func(tx store.Tx) error {
			if _, err := tx.Get(gateway.Services, scope, name); err != nil {
				return nil //nolint:nilerr // there is nothing to delete
			}
			routes, err := tx.List(gateway.Routes, store.Query{Scope: scope})
			if err != nil {
				return err
			}
			for _, r := range routes {
				if err := tx.Delete(gateway.Routes, scope, r.Name, 0); err != nil {
					return err
				}
			}
			return tx.Delete(gateway.Services, scope, name, 0)
		}
	}
	members := rapid.SampledFrom([][]string{{"a", "b"}, {"a"}, {"b"}}).Draw(rt, "members")
	return func(tx store.Tx) error { return scopestest.Set(tx, "default", members...) }
}

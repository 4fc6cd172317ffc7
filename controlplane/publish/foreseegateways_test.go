package publish_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestForeseenOfGateways: the same for gateways of two sorts, of a group whose members come and go,
// with routes that cannot be made.
func TestForeseenOfGateways(t *testing.T) {
	broken, foretold := false, 0
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		log, db := slog.New(slog.DiscardHandler), memstore.New()
		views := view.NewResolved(db, scopestest.Resolver{}, nil, log)
		out := &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}
		other := plan.Params{HTTPPort: 9000, OAuth: plan.Endpoint{Host: "127.0.0.1", Port: 5678}}
		l := publish.New(publish.Options{Views: views, Publisher: out, Parameters: parameters{nodeB: other}, Latest: db.Revision, Log: log, Check: true})
		var all sync.WaitGroup
		all.Go(func() { _ = l.Run(ctx) })
		defer func() {
			cancel()
			all.Wait()
			views.Close()
			_ = db.Close()
		}()
		write := func(fn func(store.Tx) error) {
			c, err := db.Update(ctx, model.Config, fn)
			if err == nil {
				err = l.Settled(ctx, c.Revision)
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		write(func(tx store.Tx) error { return scopestest.Set(tx, "default", "a", "b") })
		for _, node := range []string{nodeA, nodeB} {
			release, err := l.Connect(ctx, node, false)
			if err != nil {
				rt.Fatal(err)
			}
			defer release()
		}
		for range rapid.IntRange(1, 15).Draw(rt, "writes") {
			fn := anyEntity(rt)
			had := map[string]*resource.Set{nodeA: out.set(nodeA), nodeB: out.set(nodeB)}
			fates := map[string]publish.Fate{}
			for _, f := range foresee(rt, db, l, 10, fn) {
				broken = broken || len(f.Failures) > 0
				for _, x := range f.Fates {
					fates[x.Node] = x
				}
			}
			write(fn)
			for node, set := range had {
				is := out.set(node)
				fate, told := fates[node]
				if !told && !is.Equal(set) {
					rt.Fatalf("nobody foresaw that %s changes", node)
				}
				if told && !maps.Equal(patched(set, fate), holdingOf(is)) {
					rt.Fatalf("%s has become something else than was foretold:\n%v\n%v", node, patched(set, fate), holdingOf(is))
				}
				if told {
					foretold++
				}
			}
		}
	})
	if !broken || foretold == 0 {
		t.Errorf("something could not be made: %t; %d changes were foretold", broken, foretold)
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

package publish_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestClashStopsNobody has members clash before a gateway of their group comes, as after a
// restart. It is let in, changes of both reach it, and the clash is listed as long as it is
// one.
func TestClashStopsNobody(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	log, db := slog.New(slog.DiscardHandler), memstore.New()
	views := view.NewResolved(db, scopestest.Resolver{}, nil, log)
	out := &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}
	l := publish.New(publish.Options{Views: views, Publisher: out, Parameters: parameters{}, Latest: db.Revision, Log: log})
	var all sync.WaitGroup
	all.Go(func() { _ = l.Run(ctx) })
	defer func() {
		cancel()
		all.Wait()
		views.Close()
		_ = db.Close()
	}()
	write := func(fn func(tx store.Tx) error) {
		t.Helper()
		c, err := db.Update(ctx, model.Config, fn)
		if err == nil {
			err = l.Settled(ctx, c.Revision)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	row := func(scope string, k *model.Kind, name string, at int64, spec any) *model.Resource {
		return &model.Resource{Kind: k, Scope: scope, Name: name, Created: time.Unix(at, 0), Spec: spec}
	}
	create := func(rows ...*model.Resource) func(store.Tx) error {
		return func(tx store.Tx) error {
			for _, r := range rows {
				if _, err := tx.Create(r); err != nil {
					return err
				}
			}
			return nil
		}
	}
	write(func(tx store.Tx) error { return scopestest.Set(tx, "default", "a", "b") })
	write(create(
		row("a", gateway.Services, serviceID, 1, service(9000)), row("a", gateway.Routes, routeID, 1, route("/a")),
		row("b", gateway.Services, serviceID, 2, service(9001)), row("b", gateway.Services, pluginID, 2, service(9002))))
	release, err := l.Connect(ctx, nodeA, false)
	if err != nil {
		t.Fatalf("a gateway of the group is not let in: %v", err)
	}
	defer release()
	fs := l.Failures()
	if len(fs) != 1 || fs[0].ControlPlane != "default" || fs[0].Kept {
		t.Fatalf("failures %+v, want the one of the clash", fs)
	}
	want := scopes.Clash{
		Left: model.Key{Kind: "service", Scope: "b", Name: serviceID}, Rival: model.Key{Kind: "service", Scope: "a", Name: serviceID}, Value: serviceID,
	}
	if !errors.Is(fs[0].Err, want) {
		t.Errorf("listed is %v, want %v", fs[0].Err, want)
	}
	before := out.set(nodeA)
	write(func(tx store.Tx) error {
		_, err := tx.Update(row("a", gateway.Services, serviceID, 1, service(9009)), 0)
		return err
	})
	if now := out.set(nodeA); now == nil || now.Equal(before) {
		t.Error("a change of the older service does not reach the gateway")
	}
	write(func(tx store.Tx) error { return tx.Delete(gateway.Services, "b", serviceID, 0) })
	if fs := l.Failures(); len(fs) != 0 {
		t.Errorf("the clash is over, and listed are %+v", fs)
	}
}

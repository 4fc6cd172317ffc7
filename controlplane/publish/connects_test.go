package publish_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
	xds "github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// counted counts what is written about proxies.
type counted struct {
	store.Status
	puts atomic.Int64
}

// Put implements store.Status.
func (c *counted) Put(ctx context.Context, rows []store.StatusRow) error {
	c.puts.Add(int64(len(rows)))
	return c.Status.Put(ctx, rows)
}

// connecting is a loop with a proxy that connects.
type connecting struct {
	*testing.T
	loop     *publish.Loop
	insights *insight.Insights
}

// connect has the proxy connect, take everything and leave.
func (c connecting) connect(stream uint64) {
	c.Helper()
	release, err := c.loop.Connect(c.Context(), "m.web-1", false)
	if err != nil {
		c.Fatal(err)
	}
	e := xds.Event{Node: "m.web-1", Stream: stream}
	c.insights.Connected(e)
	for _, typ := range resource.Types {
		answered := e
		answered.Type, answered.Resources = typ, 1
		c.insights.Sent(answered)
		c.insights.Acknowledged(answered)
	}
	c.insights.Disconnected(e)
	release()
}

// TestConnectsPlanNothing: a proxy that connects again and again, and what is written about it, make no new
// state of its mesh and no round. Otherwise a fleet that reconnects would have everything planned anew.
func TestConnectsPlanNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, status, log := memstore.New(), &counted{Status: memstore.NewStatus()}, slog.New(slog.DiscardHandler)
		change := func(port uint32) {
			storetest.Place(t, db, mesh.Dataplanes, "m", "web-1", &mesh.Dataplane{Networking: &mesh.Networking{
				Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: port, Tags: mesh.Tags{mesh.TagService: "web"}}},
			}})
		}
		quiet := func() { time.Sleep(time.Second); synctest.Wait() }
		storetest.Place(t, db, mesh.Meshes, "", "m", &mesh.Mesh{})
		change(80)
		insights, err := insight.Open(t.Context(), insight.Options{Store: status, Instance: "cp", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := insights.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}()
		var rounds, shown atomic.Int64
		views := view.New(db, all.Kinds(), log)
		c := connecting{t, publish.Begin(t, db, publish.Options{
			Views: views, Publisher: snapshot.New(), Parameters: parameters{}, Issued: insights.IssuedBackends,
			Planned: func(time.Duration) { rounds.Add(1) }, Shown: func(*view.Mesh) { shown.Add(1) },
		}, nil), insights}
		c.connect(0)
		scope, err := views.Mesh(t.Context(), "m")
		if err != nil {
			t.Fatal(err)
		}
		defer scope.Release()
		quiet()
		state, revision, planned, seen, written := scope.State(), db.Revision(), rounds.Load(), shown.Load(), status.puts.Load()
		for n := range uint64(1000) {
			c.connect(n + 1)
			time.Sleep(200 * time.Millisecond) // longer than the pause between two rounds
		}
		quiet()
		if n := status.puts.Load() - written; n < 100 {
			t.Errorf("%d rows were written about the proxy", n)
		}
		if scope.State() != state || db.Revision() != revision || rounds.Load() != planned || shown.Load() != seen {
			t.Errorf("another state %t, revision %d after %d, %d rounds, %d states planned",
				scope.State() != state, db.Revision(), revision, rounds.Load()-planned, shown.Load()-seen)
		}
		change(81) // does what connects do not
		quiet()
		if scope.State() == state || rounds.Load() == planned || shown.Load() == seen {
			t.Error("a change is not noticed here")
		}
	})
}

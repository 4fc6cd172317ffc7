package insight_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a status store that counts transactions and can fail.
type recorder struct {
	store.Status
	mu    sync.Mutex
	puts  []int
	fails int
}

func (r *recorder) Put(ctx context.Context, rows []store.StatusRow) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails > 0 {
		r.fails--
		return errors.New("the disk is full")
	}
	r.puts = append(r.puts, len(rows))
	return r.Status.Put(ctx, rows)
}

func (r *recorder) fail(times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = times
}

// taken returns the sizes of the transactions since the last call.
func (r *recorder) taken() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.puts
	r.puts = nil
	return out
}

// rig holds insights on a store that outlives them. It runs inside a synctest bubble, so all
// time is virtual.
type rig struct {
	*insight.Insights
	t     *testing.T
	store *recorder
}

// bubble runs a test with virtual time.
func bubble(t *testing.T, fn func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, store: &recorder{Status: memstore.NewStatus()}}
		r.open()
		fn(t, r)
		r.close()
	})
}

func (r *rig) open() {
	r.t.Helper()
	s, err := insight.Open(r.t.Context(), insight.Options{
		Store: r.store, Instance: "cp-1", Log: slog.New(slog.DiscardHandler),
		Backends: func(mesh string) []string { return []string{mesh + "-1", mesh + "-2"} },
	})
	if err != nil {
		r.t.Fatal(err)
	}
	r.Insights = s
}

func (r *rig) close() {
	r.t.Helper()
	if err := r.Close(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// pass lets virtual time pass, and waits for what is due in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) read(name string) *insight.DataplaneInsight {
	r.t.Helper()
	in, ok, err := r.Read(r.t.Context(), "default", name)
	if err != nil || ok != (in != nil) {
		r.t.Fatalf("Read: %v, %v, %v", in, ok, err)
	}
	return in
}

// stored returns the row of a dataplane, or nil if there is none.
func (r *rig) stored(name string) []byte {
	r.t.Helper()
	rows, err := r.store.List(r.t.Context(), "dataplane_insight", "default")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, row := range rows {
		if row.Key == (model.Key{Kind: "dataplane_insight", Scope: "default", Name: name}) {
			return row.Value
		}
	}
	return nil
}

func event(name string, stream uint64) server.Event {
	return server.Event{Node: "default." + name, Stream: stream}
}

func typed(name string, stream uint64, t resource.TypeURL) server.Event {
	e := event(name, stream)
	e.Type = t
	return e
}

// shown returns an insight as JSON, with comparable ids.
func shown(t *testing.T, in *insight.DataplaneInsight) string {
	t.Helper()
	c := *in
	c.Subscriptions = append([]insight.Subscription(nil), in.Subscriptions...)
	for i := range c.Subscriptions {
		if len(c.Subscriptions[i].ID) != 36 {
			t.Errorf("id %q", c.Subscriptions[i].ID)
		}
		c.Subscriptions[i].ID = fmt.Sprint(i)
	}
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

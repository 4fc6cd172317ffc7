package insight_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestOnlyWhatChangedIsWritten: changes are written together after an interval, and nothing
// is written while nothing changes.
func TestOnlyWhatChangedIsWritten(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		for i := range uint64(3) {
			r.Connected(event(fmt.Sprint("dp-", i), i))
		}
		pass(insight.Interval - time.Millisecond)
		if puts := r.store.taken(); len(puts) > 0 {
			t.Errorf("written early: %v", puts)
		}
		pass(time.Millisecond)
		if d := cmp.Diff([]int{3}, r.store.taken()); d != "" {
			t.Errorf("first interval (-want +got):\n%s", d)
		}
		pass(10 * insight.Interval)
		if puts := r.store.taken(); len(puts) > 0 {
			t.Errorf("written again: %v", puts)
		}
		r.Sent(typed("dp-1", 1, resource.Cluster))
		pass(insight.Interval)
		if d := cmp.Diff([]int{1}, r.store.taken()); d != "" {
			t.Errorf("one changed (-want +got):\n%s", d)
		}
		// A stream that is always busy is still written once in an interval.
		for range 2*insight.Interval/time.Second + 1 {
			r.Sent(typed("dp-1", 1, resource.Cluster))
			pass(time.Second)
		}
		if d := cmp.Diff([]int{1, 1}, r.store.taken()); d != "" {
			t.Errorf("a busy one (-want +got):\n%s", d)
		}
		if n := r.read("dp-1").Last().Generation; n != 4 {
			t.Errorf("generation %d", n)
		}
	})
}

// TestDisconnectsAreWrittenAtOnce: a thousand disconnects are written in two transactions.
func TestDisconnectsAreWrittenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		const n = 1000
		for i := range uint64(n) {
			r.Connected(event(fmt.Sprint("dp-", i), i))
		}
		pass(insight.Interval)
		r.store.taken()
		for i := range uint64(n) {
			r.Disconnected(event(fmt.Sprint("dp-", i), i))
		}
		// Other changes do not make it less urgent.
		r.Issued("default", "dp-7", "ca", time.Now().Add(time.Hour), time.Now())
		pass(100 * time.Millisecond)
		if d := cmp.Diff([]int{500, 500}, r.store.taken()); d != "" {
			t.Errorf("transactions (-want +got):\n%s", d)
		}
	})
}

// TestRestart: facts survive a restart, streams do not.
func TestRestart(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Connected(event("web", 1))
		r.Sent(typed("web", 1, resource.Cluster))
		r.Issued("default", "web", "ca-1", time.Now().Add(time.Hour), time.Now())
		r.Issued("default", "web", "ca-2", time.Now().Add(2*time.Hour), time.Now())
		r.Expect("default.api")
		r.Expect("other.web")
		r.Issued("default", "api", "ca-1", time.Now().Add(time.Hour), time.Now())
		r.Issued("other", "web", "ca-9", time.Now().Add(time.Hour), time.Now())
		before := r.read("web")
		r.close()
		time.Sleep(time.Minute)
		r.open()
		after := r.read("web")
		if after.Online() || time.Since(*after.Last().DisconnectTime) != 0 {
			t.Error("a stream survived the process")
		}
		after.Subscriptions[0].DisconnectTime = nil
		before.Subscriptions[0].Generation++ // written once since
		if d := cmp.Diff(before, after); d != "" {
			t.Errorf("insight (-before +after):\n%s", d)
		}
		issued := func(want map[string]string) {
			t.Helper()
			got, err := r.IssuedBackends(t.Context(), "default")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("issued (-want +got):\n%s", d)
			}
		}
		issued(map[string]string{"web": "ca-2", "api": "ca-1"})
		time.Sleep(time.Hour)
		issued(map[string]string{"web": "ca-2"})
		if n := r.read("web").MTLS.CertificateRegenerations; n != 2 {
			t.Errorf("%d regenerations", n)
		}
		// The closing of the streams is written too.
		r.close()
		if !bytes.Contains(r.stored("web"), []byte("disconnectTime")) {
			t.Error("the stored stream is open")
		}
		r.store.taken()
		r.open()
		pass(insight.Interval)
		if puts := r.store.taken(); len(puts) > 0 {
			t.Errorf("nothing happened, and %v was written", puts)
		}
	})
}

// TestForget: an insight is deleted with its dataplane, even if the proxy takes longer to
// go.
func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.Expect("default.idle")
		r.Issued("default", "idle", "ca", time.Now().Add(time.Hour), time.Now())
		for i, name := range []string{"gone", "live", "back"} {
			r.Connected(event(name, uint64(i)))
		}
		r.Disconnected(event("gone", 0))
		pass(insight.Interval)
		for _, name := range []string{"gone", "live", "back", "idle"} {
			if r.stored(name) == nil {
				t.Fatalf("%s was not written", name)
			}
		}
		r.Prune(func(_, name string) bool { return name == "idle" })
		pass(time.Second)
		for _, name := range []string{"gone", "live", "back"} {
			if r.stored(name) != nil {
				t.Errorf("%s is still stored", name)
			}
		}
		if r.read("gone") != nil || !r.read("live").Online() {
			t.Error("who is connected is known as long as that lasts")
		}
		r.Sent(typed("live", 1, resource.Cluster))
		r.Disconnected(event("live", 1))
		r.Connected(event("back", 9))
		pass(insight.Interval)
		// Its identity was being made while its dataplane was deleted.
		r.Issued("default", "live", "ca", time.Now().Add(time.Hour), time.Now())
		pass(insight.Interval)
		if _, known := r.Node("default.live"); known || r.read("live") != nil || r.stored("live") != nil {
			t.Error("the end of the stream, or an identity that came late, brought the insight back")
		}
		if r.read("back") == nil || r.stored("back") == nil {
			t.Error("a dataplane that was created again has no insight")
		}
		if r.read("idle") == nil {
			t.Error("a dataplane that exists was pruned")
		}
	})
}

// TestFailuresAreTriedAgain: a store that fails for a while loses nothing.
func TestFailuresAreTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.store.fail(2)
		r.Connected(event("web", 1))
		r.Disconnected(event("web", 1))
		pass(time.Second)
		if r.stored("web") != nil {
			t.Fatal("the store did not fail")
		}
		pass(insight.Interval)
		if r.stored("web") != nil {
			t.Fatal("the store did not fail again")
		}
		pass(insight.Interval)
		if r.stored("web") == nil {
			t.Error("what could not be written is lost")
		}
		r.Connected(event("web", 2))
		r.store.fail(1)
		if err := r.Close(t.Context()); err == nil {
			t.Error("Close hides that something was not written")
		}
	})
}

// TestUnreadableRows: unreadable rows are left out, because status may be lost.
func TestUnreadableRows(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.close()
		err := r.store.Status.Put(t.Context(), []store.StatusRow{
			{Key: model.Key{Kind: "dataplane_insight", Scope: "default", Name: "bad"}, Value: []byte("{")},
			{Key: model.Key{Kind: "dataplane_insight", Scope: "default", Name: "good"}, Value: []byte(`{"subscriptions":[{"id":"1"}]}`)},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.open()
		if r.read("bad") != nil || r.read("good") == nil {
			t.Error("one bad row is not one")
		}
	})
}

// TestEndedContexts: ended contexts are the only errors of reads.
func TestEndedContexts(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, readErr := r.Read(ctx, "default", "web")
		_, listErr := r.List(ctx, "default")
		_, issuedErr := r.IssuedBackends(ctx, "default")
		for _, err := range []error{readErr, listErr, issuedErr} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		}
	})
}

// TestConcurrentStreams runs many streams and readers over the real store, for the race
// detector. Afterwards everything is in the file.
func TestConcurrentStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.db")
	status, err := sqlstore.OpenStatus(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	o := insight.Options{Store: status, Instance: "cp-1", Log: slog.New(slog.DiscardHandler)}
	s, err := insight.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	const proxies, rounds = 8, 20
	var wg sync.WaitGroup
	for p := range proxies {
		name := fmt.Sprint("dp-", p)
		wg.Go(func() {
			for i := range rounds {
				n := uint64(p*rounds + i)
				s.Described("default."+name, insight.Versions{})
				s.Connected(event(name, n))
				s.Sent(typed(name, n, resource.Endpoint))
				s.Acknowledged(typed(name, n, resource.Endpoint))
				s.Issued("default", name, "ca", time.Now().Add(time.Hour), time.Now())
				s.Disconnected(event(name, n))
			}
		})
		wg.Go(func() {
			for range rounds {
				if _, _, err := s.Read(t.Context(), "default", name); err != nil {
					t.Error(err)
				}
				if _, err := s.List(t.Context(), "default"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	want, err := s.List(t.Context(), "default")
	if err != nil || len(want) != proxies {
		t.Fatalf("%d insights, %v", len(want), err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err = insight.Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	got, err := s.List(t.Context(), "default")
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range got {
		last := in.Last()
		if last == nil || last.ID != want[name].Last().ID || last.Status.EDS.Acknowledged != 1 || in.MTLS.CertificateRegenerations != rounds {
			t.Errorf("%s: %+v", name, in)
		}
	}
	if err := errors.Join(s.Close(t.Context()), status.Close()); err != nil {
		t.Fatal(err)
	}
}

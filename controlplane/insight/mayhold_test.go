package insight_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// lost is a status store that no longer stores anything, as if the process had been killed.
type lost struct{ store.Status }

func (lost) Put(context.Context, []store.StatusRow) error { return nil }

// TestNoRecordSaysNothingForALife: a certificate that was issued shortly before a process
// was killed, or after a backup that was restored, has no record. So a Dataplane without a
// record may hold a certificate until a life has passed, unless it was created since. The
// same is true for one whose record has ended, because the record may be an old one.
func TestNoRecordSaysNothingForALife(t *testing.T) {
	const life = 24 * time.Hour
	synctest.Test(t, func(t *testing.T) {
		status := memstore.NewStatus()
		open := func(s store.Status) *insight.Insights {
			in, err := insight.Open(t.Context(), insight.Options{Store: s, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return in
		}
		shut := func(in *insight.Insights) {
			if err := in.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		issue := func(in *insight.Insights, name string, life time.Duration) {
			in.Expect("m." + name)
			in.Issued("m", name, "ca", time.Now().Add(life), time.Now())
		}
		first := open(status)
		issue(first, "written", 2*life)
		issue(first, "renewed", time.Minute)
		shut(first)
		killed := open(lost{status})
		issue(killed, "unwritten", life)
		issue(killed, "renewed", life)
		shut(killed)

		in, began := open(status), time.Now()
		defer func() { shut(in) }()
		expect := func(want map[string]bool) {
			t.Helper()
			for name, holds := range want {
				if in.MayHold("m", name, life) != holds {
					t.Errorf("after %v it is said of %q that it may hold a certificate: %v", time.Since(began), name, !holds)
				}
			}
		}
		for _, name := range []string{"unwritten", "renewed"} {
			in.Expect("m." + name)
		}
		in.Created("m", "new")
		in.Created("m", "issued")
		in.Issued("m", "issued", "ca", time.Now().Add(life/2), time.Now())
		expect(map[string]bool{"written": true, "unwritten": true, "renewed": true, "unknown": true, "new": false, "issued": true})
		time.Sleep(life - 1)
		expect(map[string]bool{"written": true, "unwritten": true, "renewed": true, "unknown": true, "new": false, "issued": false})
		time.Sleep(time.Nanosecond)
		expect(map[string]bool{"written": true, "unwritten": false, "renewed": false, "unknown": false, "new": false, "issued": false})
		time.Sleep(life)
		expect(map[string]bool{"written": false})
	})
}

// TestCertificatesEndByTheEarliestTime: when callers ask who holds a certificate, a wall
// clock that jumps ahead ends none.
func TestCertificatesEndByTheEarliestTime(t *testing.T) {
	now := time.Now()
	var asked time.Duration
	in, err := insight.Open(t.Context(), insight.Options{
		Store: memstore.NewStatus(), Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now.Add(48 * time.Hour) },
		Past: func(life time.Duration) time.Time {
			asked = life
			return now
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(context.Background()) }()
	in.Created("m", "web")
	in.Issued("m", "web", "ca", now.Add(24*time.Hour), now)
	if held, err := in.IssuedBackends(t.Context(), "m"); err != nil || held["web"] != "ca" {
		t.Errorf("%v, %v", held, err)
	}
	if !in.MayHold("m", "web", 24*time.Hour) || asked != 24*time.Hour {
		t.Errorf("its certificate has ended, as one that lives for %v", asked)
	}
}

// TestEarlierCertificateMayBeHeld: what is recorded of a new certificate does not say that
// its proxy got it. So an earlier one that ends later counts until its end, in the next
// process, too.
func TestEarlierCertificateMayBeHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := memstore.NewStatus()
		open := func() *insight.Insights {
			in, err := insight.Open(t.Context(), insight.Options{Store: status, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			return in
		}
		in := open()
		defer func() { _ = in.Close(context.Background()) }()
		in.Created("m", "web")
		for _, life := range []time.Duration{24 * time.Hour, time.Hour, time.Hour} {
			in.Issued("m", "web", "ca", time.Now().Add(life), time.Now())
			time.Sleep(time.Minute)
		}
		expect := func(want bool) {
			t.Helper()
			if in.MayHold("m", "web", time.Hour) != want {
				t.Errorf("it may hold a certificate: %v", !want)
			}
		}
		time.Sleep(2 * time.Hour)
		expect(true)
		if err := in.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		in = open()
		time.Sleep(21 * time.Hour)
		expect(true)
		time.Sleep(time.Hour)
		expect(false)
	})
}

// TestCreatedIsOnlyWhoWasNeverSeen: of a Dataplane that was there at the start, a creation
// that is told late says nothing of what its proxy was given before.
func TestCreatedIsOnlyWhoWasNeverSeen(t *testing.T) {
	in, err := insight.Open(t.Context(), insight.Options{Store: memstore.NewStatus(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(context.Background()) }()
	in.Expect("m.there")
	in.Created("m", "there")
	in.Created("m", "new")
	if !in.MayHold("m", "there", time.Hour) || in.MayHold("m", "new", time.Hour) {
		t.Error("who was there counts as created, or who was created does not")
	}
	in.Forget("m", "there")
	in.Created("m", "there")
	if in.MayHold("m", "there", time.Hour) {
		t.Error("who was deleted and created again does not count as created")
	}
}

package revoke

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

func voided(revision uint64, expires time.Time) entry {
	e := entry{inv: contract.Invalidation{Subject: contract.SubjectToken, Revision: revision}, expires: expires.UnixMilli()}
	e.inv.Token[0], e.inv.Token[1], e.inv.Token[2] = byte(revision), byte(revision>>8), byte(revision>>16)
	return e
}

// items decodes frames, which must lead from one position to another.
func items(t *testing.T, frames []frame, from, to contract.Position) (revisions []uint64) {
	t.Helper()
	at := from
	for i, f := range frames {
		m, err := contract.DecodeInvalidate(f.body)
		if err != nil || m.From != at || (i < len(frames)-1 && m.To != at) {
			t.Fatalf("frame %d: %+v %v at %d", i, m, err, at)
		}
		for _, it := range m.Items {
			revisions = append(revisions, it.Revision)
		}
		at = m.To
	}
	if at != to {
		t.Fatalf("they lead to %d, not %d", at, to)
	}
	return revisions
}

// Expired entries leave the log. A filter that may lack them starts anew. A filter that has
// applied them continues.
func TestLogDropsWhatHasExpired(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	h := newHistory(now, nil)
	soon, late := now.Add(time.Minute), now.Add(time.Hour)
	gone := h.add(now, []entry{voided(1, soon)})
	kept := h.add(now, []entry{voided(2, late)})
	now = now.Add(2 * time.Minute)
	for i := range spare {
		h.add(now, []entry{voided(uint64(10+i), soon)})
	}
	if len(h.entries) > spare {
		t.Fatalf("%d entries", len(h.entries))
	}
	hello := contract.Hello{Log: h.id, Applied: gone}
	if from := h.resume(&hello); from != 0 {
		t.Errorf("resumed at %d", from)
	}
	if got := items(t, h.missed(0, now, anyone, false), 0, h.at); len(got) != 1 || got[0] != 2 {
		t.Errorf("told of %v", got)
	}
	if hello.Applied = h.at; h.resume(&hello) != h.at {
		t.Error("the one that has applied everything starts anew")
	}
	if h.floor != 0 || h.lost != 0 || kept >= h.dropped {
		t.Errorf("floor %d, lost %d, dropped %d", h.floor, h.lost, h.dropped)
	}
}

// More live entries than the log may hold become a floor. It applies to a filter that
// starts anew and not to one that continues.
func TestFullLog(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	late := now.Add(time.Hour)
	h := newHistory(now, nil)
	revision := uint64(1)
	for len(h.entries) < maxLog {
		var batch []entry
		for range 1000 {
			batch = append(batch, voided(revision, late))
			revision++
		}
		h.add(now, batch)
		if h.lost != 0 {
			break
		}
	}
	if len(h.entries) > maxLog || h.floor == 0 || h.lost == 0 {
		t.Fatalf("%d entries, floor %d, lost %d", len(h.entries), h.floor, h.lost)
	}
	got := items(t, h.missed(0, now, anyone, false), 0, h.at)
	if uint64(len(got))+h.floor != revision-1 || got[0] != h.floor+1 {
		t.Errorf("%d entries from %d, floor %d of %d", len(got), got[0], h.floor, revision-1)
	}
	hello := contract.Hello{Log: h.id, Applied: h.at - 1}
	if from := h.resume(&hello); from != h.at-1 {
		t.Errorf("resumed at %d", from)
	}
	if rest := items(t, h.missed(h.at-1, now, anyone, false), h.at-1, h.at); len(rest) != 1000 {
		t.Errorf("%d entries", len(rest))
	}
	if hello.Applied = h.lost - 1; h.resume(&hello) != 0 {
		t.Error("resumed before what was lost")
	}
}

// Filters that come back at once share their frames.
func TestWelcomesAreShared(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	h := newHistory(now, []entry{voided(1, now.Add(time.Hour))})
	a, b := h.missed(0, now, anyone, false), h.missed(0, now, anyone, false)
	if &a[0].body[0] != &b[0].body[0] {
		t.Error("encoded twice")
	}
	h.add(now, []entry{voided(2, now.Add(time.Hour))})
	if got := items(t, h.missed(0, now, anyone, false), 0, h.at); len(got) != 2 {
		t.Errorf("told of %v", got)
	}
}

// A tombstone lives as long as records from before it can be used, plus a margin.
func TestTombstonesLifetime(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	r := &Revoker{o: Options{Clock: taken{func() time.Time { return now }}}}
	for _, tt := range []struct {
		expires int64
		want    time.Duration
	}{
		{0, contract.RecordLife},
		{now.Add(time.Hour).UnixMilli(), time.Hour},
		{now.Add(90 * 24 * time.Hour).UnixMilli(), contract.RecordLife},
		{1, 0},
	} {
		if got := time.UnixMilli(r.lasting(tt.expires)).Sub(now); got != tt.want+expiryMargin {
			t.Errorf("%d: %v, want %v", tt.expires, got, tt.want+expiryMargin)
		}
	}
}

// Rows that never expire, and an epoch without servers, come from an older release. They
// are understood, and Redis is put in order anew.
func TestRowsOfAnOlderRelease(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		w.close(w.r)
		hash := contract.HashToken([]byte("old"))
		if _, err := w.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
			if err := write(tx, &Tombstone{Subject: contract.SubjectToken, Token: hex.EncodeToString(hash[:])}); err != nil {
				return err
			}
			_, err := tx.Get(epochs, "", singleton)
			if err := put(tx, &model.Resource{Kind: epochs, Name: singleton, Spec: &Epoch{Epoch: 7}}, err); err != nil {
				return err
			}
			_, err = tx.Create(&model.Resource{Kind: filters, Name: "i@node", Spec: &Filter{Seen: time.Now().UnixMilli()}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		w.open(nil)
		w.settles(t)
		if e := redis.entry(t, "old"); len(w.r.history.entries) != 1 || e.Record != nil || w.trust().Epoch == 7 || w.r.Stats().KnownFilters != 1 {
			t.Errorf("%d entries, %+v, %+v", len(w.r.history.entries), e, w.trust())
		}
		w.close(w.r)
		time.Sleep(contract.RecordLife + expiryMargin)
		w.open(nil)
		if n := len(w.r.history.entries); n != 0 {
			t.Errorf("%d entries a day later", n)
		}
	})
}

// anyone is told of what an older release left, as the entries of these tests are.
var anyone = &members{scopes: &contract.Scopes{}}

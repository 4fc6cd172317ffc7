package sqlstore

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestBeginComesBeforeTheFirstSweep: a clock that learns the time from the last process keeps
// a row that its own time would have ended.
func TestBeginComesBeforeTheFirstSweep(t *testing.T) {
	t.Parallel()
	const born = 1_700_000_000_000
	var clock atomic.Int64
	swept := removals{slog.DiscardHandler, make(chan int64, 1000)}
	o := Options{
		Path: filepath.Join(t.TempDir(), "meshgate.db"), Kinds: []*model.Kind{mortals}, Log: slog.New(swept),
		Now: func() time.Time { return time.UnixMilli(clock.Load()) },
	}
	open := func() *sqlite {
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return s.(*sqlite)
	}
	clock.Store(born)
	s := open()
	bear(t, s, "over", 1, born+1000, "")
	bear(t, s, "stays", 1, born+300_000, "")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Store(born + 480_000)
	o.Begin = func(tx store.Tx) error {
		if n, err := tx.Count(mortals, store.Query{}); n != 0 || err != nil {
			t.Errorf("%d rows, %v", n, err)
		}
		clock.Store(born + 2000)
		return nil
	}
	s = open()
	defer func() { _ = s.Close() }()
	select {
	case rows := <-swept.rows:
		if rows != 1 {
			t.Errorf("the first sweep removed %d rows", rows)
		}
	case <-time.After(patience):
		t.Fatal("nothing was swept")
	}
	if rows, _ := s.left(t); rows != 1 {
		t.Errorf("%d rows are left", rows)
	}
}

// TestBeginFails: if Begin fails, the store leaves nothing open.
func TestBeginFails(t *testing.T) {
	t.Parallel()
	o := Options{Path: filepath.Join(t.TempDir(), "meshgate.db"), Kinds: []*model.Kind{mortals}, Log: slog.New(slog.DiscardHandler)}
	o.Begin = func(store.Tx) error { return errors.New("not this time") }
	if s, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "not this time") {
		t.Fatalf("%v, %v", s, err)
	}
	o.Begin = nil
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestBeginIsWrittenBeforeTheFirstSweep: what Begin writes is there before the first row is
// removed. While the disk does not take it, the store is open and keeps rows that have ended.
func TestBeginIsWrittenBeforeTheFirstSweep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := Options{Path: filepath.Join(t.TempDir(), "meshgate.db"), Kinds: []*model.Kind{mortals, whispers}, Log: slog.New(slog.DiscardHandler)}
		open := func() *sqlite {
			s, err := Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			return s.(*sqlite)
		}
		s := open()
		bear(t, s, "over", 1, time.Now().Add(time.Minute).UnixMilli(), "")
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		var full atomic.Bool
		full.Store(true)
		o.Begin = func(tx store.Tx) error {
			if _, err := tx.Create(&model.Resource{Kind: whispers, Name: "began", Spec: &note{}}); err != nil || full.Load() {
				return store.DiskFull.Fault(err)
			}
			return nil
		}
		s = open()
		defer func() { _ = s.Close() }()
		rows := func() (n int) {
			time.Sleep(2 * sweepRetry)
			synctest.Wait()
			n, _ = s.left(t)
			return n
		}
		if n := rows(); n != 1 {
			t.Errorf("%d rows while the disk is full", n)
		}
		if err := s.View(t.Context(), func(r store.Reader) error {
			if n, err := r.Count(mortals, store.Query{}); n != 0 || err != nil {
				t.Errorf("%d rows are seen that have ended, %v", n, err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		full.Store(false)
		if n := rows(); n != 1 { // the ended row is removed, and the written one is there
			t.Errorf("%d rows when the disk takes writes", n)
		}
		if err := s.View(t.Context(), func(r store.Reader) error {
			_, err := r.Get(whispers, "", "began")
			return err
		}); err != nil {
			t.Error(err)
		}
	})
}

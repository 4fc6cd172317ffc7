package sqlstore

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
)

type mortal struct {
	Ends int64
	Of   string
}

var (
	mortals = &model.Kind{
		Name: "mortal", Class: model.Credential, Announce: model.AnnounceRevocations, New: func() any { return new(mortal) },
		Unique: []model.Index{{Name: "self", Value: func(spec any) (string, bool) { return fmt.Sprint(spec.(*mortal)), true }}},
		Refs:   []model.Ref{{Name: "of", To: "mortal", OnDelete: model.Cascade, Target: func(spec any) (string, bool) { of := spec.(*mortal).Of; return of, of != "" }}},
		Expires: func(spec any) time.Time {
			if at := spec.(*mortal).Ends; at > 0 {
				return time.UnixMilli(at)
			}
			return time.Time{}
		},
	}
)

// removals passes on the number of rows that each finished sweep has removed.
type removals struct {
	slog.Handler
	rows chan int64
}

// Enabled implements slog.Handler.
func (removals) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (r removals) Handle(_ context.Context, rec slog.Record) error {
	rec.Attrs(func(a slog.Attr) bool {
		if a.Key == "rows" {
			r.rows <- a.Value.Int64()
		}
		return true
	})
	return nil
}

// mortality opens a store with its own clock.
func mortality(t testing.TB) (s *sqlite, clock *atomic.Int64, swept removals) {
	t.Helper()
	clock = new(atomic.Int64)
	clock.Store(1_700_000_000_000)
	swept = removals{slog.DiscardHandler, make(chan int64, 1000)}
	opened, err := Open(t.Context(), Options{
		Path: filepath.Join(t.TempDir(), "meshgate.db"), Kinds: []*model.Kind{mortals}, Log: slog.New(swept),
		Now: func() time.Time { return time.UnixMilli(clock.Load()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
	return opened.(*sqlite), clock, swept
}

// bear stores rows that end.
func bear(t testing.TB, s store.Store, prefix string, n int, ends int64, of string) {
	t.Helper()
	for start := 0; start < n; start += 500 {
		if _, err := s.Update(t.Context(), model.Credential, func(tx store.Tx) error {
			for i := start; i < min(start+500, n); i++ {
				name := fmt.Sprintf("%s%d", prefix, i)
				if _, err := tx.Create(&model.Resource{Kind: mortals, Name: name, Spec: &mortal{Ends: ends + int64(i), Of: of}}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// left counts all rows, including those that have ended, and their index entries.
func (s *sqlite) left(t testing.TB) (rows, entries int) {
	t.Helper()
	session, err := s.readers.acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.readers.release(session)
	for query, n := range map[string]*int{`SELECT count(*) FROM resources`: &rows, `SELECT count(*) FROM uniques`: &entries} {
		if _, err := session.row(query, nil, n); err != nil {
			t.Fatal(err)
		}
	}
	return rows, entries
}

// TestSweepCatchesUp: all rows that have ended when the alarm goes off are removed before the
// next alarm, in steps between which others can write.
func TestSweepCatchesUp(t *testing.T) {
	t.Parallel()
	s, clock, swept := mortality(t)
	const n = 3000
	bear(t, s, "m", n, clock.Load()+100, "")
	bear(t, s, "stays", 10, clock.Load()+1_000_000, "")
	clock.Add(100 + n)
	select {
	case rows := <-swept.rows:
		if rows != n {
			t.Errorf("the first sweep removed %d rows of %d", rows, n)
		}
	case <-time.After(patience):
		t.Fatal("nothing was swept")
	}
	if rows, entries := s.left(t); rows != 10 || entries != 10 {
		t.Errorf("%d rows and %d entries are left", rows, entries)
	}
}

// TestSweepTakesAlong: rows that are removed with an ended one are announced, unless they
// have ended themselves.
func TestSweepTakesAlong(t *testing.T) {
	t.Parallel()
	s, clock, swept := mortality(t)
	bear(t, s, "old", 1, clock.Load()+50, "")
	bear(t, s, "ends", 300, clock.Load()+60, "old0")
	bear(t, s, "lives", 300, clock.Load()+1_000_000, "old0")
	before := s.Revision()
	clock.Add(1000)
	select {
	case <-swept.rows:
	case <-time.After(patience):
		t.Fatal("nothing was swept")
	}
	if rows, _ := s.left(t); rows != 0 {
		t.Errorf("%d rows are left", rows)
	}
	for events, err := range s.Watch(t.Context(), before) {
		if err != nil || len(events) != 300 {
			t.Errorf("%d events, %v", len(events), err)
		}
		break
	}
}

// BenchmarkSweep removes b.N tokens that have ended; ns/op is the time for each.
func BenchmarkSweep(b *testing.B) {
	var clock atomic.Int64
	clock.Store(1_700_000_000_000)
	swept := removals{slog.DiscardHandler, make(chan int64, 1000)}
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(b.Context(), Options{
		Path: filepath.Join(b.TempDir(), "meshgate.db"), Kinds: gateway.Kinds(), Log: slog.New(swept), Sealer: keys,
		Now: func() time.Time { return time.UnixMilli(clock.Load()) },
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	put := func(class model.Class, rs ...*model.Resource) {
		if _, err := s.Update(b.Context(), class, func(tx store.Tx) error {
			for _, r := range rs {
				if _, err := tx.Create(r); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	put(model.Config, &model.Resource{Kind: gateway.Consumers, Name: "c", Spec: &gateway.Consumer{Username: "c"}},
		&model.Resource{Kind: gateway.Services, Name: "s", Spec: &gateway.Service{Name: "s", Host: "h"}},
		&model.Resource{Kind: gateway.Applications, Name: "a", Spec: &gateway.Application{Consumer: "c", ClientID: "a", Name: "a"}})
	const batch = 500
	for i := 0; i < b.N; i += batch {
		var rs []*model.Resource
		for j := i; j < min(i+batch, b.N); j++ {
			rs = append(rs, &model.Resource{Kind: gateway.Tokens, Name: fmt.Sprint(j), Spec: &gateway.Token{
				Credential: "a", Service: "s", AccessToken: fmt.Sprint("access", j), RefreshToken: fmt.Sprint("refresh", j),
				TokenType: gateway.TokenBearer, AuthenticatedUserID: "u", Family: fmt.Sprint(j), DropAt: clock.Load() + 1000,
			}})
		}
		put(model.Credential, rs...)
	}
	b.ResetTimer()
	clock.Add(1000)
	for left := int64(b.N); left > 0; {
		left -= <-swept.rows
	}
}

package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// writers are the actors whose records a test writes, with the origin of their changes.
var writers = []struct {
	actor  model.Actor
	origin model.Origin
	// fleeting is set if the records are about fleeting resources.
	fleeting bool
	budget   store.Budget
}{
	{model.User("ann"), model.OriginAPI, false, store.OfOperators},
	{model.Actor{Kind: model.ActorToken, Name: "t"}, model.OriginFile, false, store.OfOperators},
	{model.System("rotation"), "", false, store.OfOperators},
	{model.Node("default.web"), model.OriginProxy, false, store.OfProxies},
	{model.System("removal"), model.OriginProxy, false, store.OfProxies},
	{model.User("ann"), model.OriginAPI, true, store.OfTokens},
	{model.Node("default.web"), model.OriginProxy, true, store.OfProxies},
}

// testFlood makes a proxy write without end. No record of an operator is dropped.
func testFlood(t *testing.T, open OpenRetaining) {
	s, _ := open(t, store.Retention{Rows: 100}, time.Now)
	write(t, s, Box, "s", "of-ann", "ann")
	for n := range 400 {
		must(t, s, func(tx store.Tx) error {
			r := noted(Box, "s", "flood", "default.web")
			r.Actor, r.Origin = model.Node("default.web"), model.OriginProxy
			tx.Record(r)
			_, err := tx.Create(res(Box, fmt.Sprint("flood", n), Item{}))
			return err
		})
	}
	if page, count := records(t, s, store.RecordQuery{Oldest: true, Limit: 2}); !cmp.Equal(page, []string{"1:of-ann", "392:flood"}) || count != 11 {
		t.Errorf("%v of %d", page, count)
	}
	for _, c := range []struct {
		q    store.RecordQuery
		want uint64
	}{
		{store.RecordQuery{}, 391}, {store.RecordQuery{ActorKind: model.ActorNode}, 391}, {store.RecordQuery{Actor: "ann"}, 391},
		{store.RecordQuery{ActorKind: model.ActorUser}, 0}, {store.RecordQuery{ActorKind: model.ActorToken}, 0},
	} {
		if since := kept(t, s, c.q); since != c.want {
			t.Errorf("%+v: all since %d, want %d", c.q, since, c.want)
		}
	}
}

// testTokens revokes tokens without end. No record of an operator is dropped, and only
// queries that ask for records of tokens see them.
func testTokens(t *testing.T, open OpenRetaining) {
	s, _ := open(t, store.Retention{Rows: 100}, time.Now)
	write(t, s, Box, "s", "of-ann", "ann")
	for n := range 400 {
		must(t, s, func(tx store.Tx) error {
			r := noted(Box, "s", "token", "ann")
			r.Fleeting = true
			tx.Record(r)
			_, err := tx.Create(res(Box, fmt.Sprint("token", n), Item{}))
			return err
		})
	}
	for _, c := range []struct {
		q     store.RecordQuery
		first []string
		count int
		since uint64
	}{
		{store.RecordQuery{Oldest: true, Limit: 2}, []string{"1:of-ann"}, 1, 0},
		{store.RecordQuery{Oldest: true, Limit: 2, Actor: "ann"}, []string{"1:of-ann"}, 1, 0},
		{store.RecordQuery{Oldest: true, Limit: 2, Fleeting: true}, []string{"1:of-ann", "302:token"}, 101, 301},
		{store.RecordQuery{Oldest: true, Limit: 2, Kind: Box.Name}, []string{"1:of-ann", "302:token"}, 101, 301},
	} {
		if page, count := records(t, s, c.q); !cmp.Equal(page, c.first) || count != c.count {
			t.Errorf("%+v: %v of %d", c.q, page, count)
		}
		if since := kept(t, s, c.q); since != c.since {
			t.Errorf("%+v: all since %d, want %d", c.q, since, c.since)
		}
	}
}

// ledger is a trivial model of the kept records: lists and loops.
type ledger struct {
	keep    store.Retention
	all     []store.ChangeRecord
	since   map[store.Budget]uint64
	last    uint64
	present uint64
}

// add adds the records of one transaction and drops those that need not be kept.
func (l *ledger) add(now time.Time, list []store.ChangeRecord, revises bool) {
	before := l.present
	if revises {
		l.present++
	}
	for _, r := range list {
		l.last++
		r.Number, r.Previous, r.Revision, r.Time = l.last, before, l.present, now
		l.all = append(l.all, r)
	}
	for _, b := range store.Budgets() {
		left := 0
		for i := range l.all {
			if l.all[i].Budget() == b {
				left++
			}
		}
		over := func(r store.ChangeRecord) bool {
			if r.Budget() != b || left <= l.keep.Of(b) && (left == 1 || !r.Time.Before(now.Add(-l.keep.Age))) {
				return false
			}
			left--
			l.since[b] = r.Previous + 1
			return true
		}
		l.all = slices.DeleteFunc(l.all, over) // the clock of this test never goes back
	}
}

// selected returns what a query finds, in its order, on all pages.
func (l *ledger) selected(q store.RecordQuery) (out []string) {
	for _, r := range l.all {
		if (q.Since == nil || r.Previous >= *q.Since) && (q.User != "" && r.Actor.Kind == model.ActorUser && r.Actor.Name == q.User || (q.ActorKind == "" || r.Actor.Kind == q.ActorKind) && (q.Actor == "" || r.Actor.Name == q.Actor)) &&
			(q.Fleeting || q.Kind == r.Key.Kind || r.Budget() != store.OfTokens) && (q.Kind == "" || q.Kind == r.Key.Kind) && (q.Without == "" || q.Without != r.Key.Kind) {
			out = append(out, listed(&r))
		}
	}
	if !q.Oldest {
		slices.Reverse(out)
	}
	return out
}

// testBudgets writes at random, and compares all queries, page by page, with a ledger.
func testBudgets(t *testing.T, open OpenRetaining) {
	rapid.Check(t, func(rt *rapid.T) {
		clock := time.Unix(1_700_000_000, 0)
		keep := store.Retention{Age: time.Hour, Rows: rapid.SampledFrom([]int{5, 20, 30}).Draw(rt, "rows")}
		s, reopen := open(t, keep, func() time.Time { return clock })
		defer func() { _ = s.Close() }()
		want := &ledger{keep: keep, since: map[store.Budget]uint64{}}
		for n := range rapid.IntRange(1, 30).Draw(rt, "writes") {
			clock = clock.Add(time.Duration(rapid.SampledFrom([]int{0, 1, 1, 25, 70}).Draw(rt, "minutes")) * time.Minute)
			by := rapid.SampledFrom(writers).Draw(rt, "by")
			revises := rapid.Bool().Draw(rt, "revises")
			var list []store.ChangeRecord
			for range rapid.IntRange(1, 4).Draw(rt, "records") {
				r := noted(Box, "s", fmt.Sprint(n), by.actor.Name)
				r.Actor, r.Origin, r.Fleeting = by.actor, by.origin, by.fleeting
				if r.Budget() != by.budget {
					rt.Fatalf("%v by %q is of budget %d", by.actor, by.origin, r.Budget())
				}
				list = append(list, r)
			}
			must(t, s, func(tx store.Tx) error {
				for _, r := range list {
					tx.Record(r)
				}
				if !revises {
					return nil
				}
				_, err := tx.Create(res(Box, fmt.Sprint(n), Item{}))
				return err
			})
			want.add(clock, list, revises)
			if reopen != nil && rapid.IntRange(0, 19).Draw(rt, "reopen") == 0 {
				s = reopen()
			}
		}
		view(t, s, func(r store.Reader) error { return want.compare(rt, r) })
	})
}

// compare makes all kinds of queries on one state.
func (l *ledger) compare(rt *rapid.T, r store.Reader) error {
	since := uint64(rapid.IntRange(0, 30).Draw(rt, "since"))
	for _, q := range []store.RecordQuery{
		{}, {Oldest: true}, {Oldest: true, Since: &since}, {ActorKind: model.ActorUser}, {ActorKind: model.ActorNode, Since: &since},
		{ActorKind: model.ActorSystem, Actor: "removal"}, {ActorKind: model.ActorToken, Oldest: true}, {ActorKind: model.ActorNode, User: "ann", Fleeting: true}, {ActorKind: model.ActorSystem, Actor: "removal", User: "ann"},
		{Fleeting: true}, {Fleeting: true, Oldest: true, Since: &since}, {Fleeting: true, ActorKind: model.ActorUser}, {Kind: Box.Name}, {Kind: "other"}, {Without: "other"}, {Without: Box.Name, Fleeting: true},
	} {
		count, err := r.CountRecords(q)
		if err != nil {
			return err
		}
		var got []string
		q.Limit = 3
		for last := false; !last; {
			page, err := r.Records(q)
			if err != nil {
				return err
			}
			for _, rec := range page {
				got, q.After = append(got, listed(&rec)), rec.Number
			}
			last = len(page) < q.Limit
		}
		if diff := cmp.Diff(l.selected(q), got); diff != "" || count != len(got) {
			rt.Fatalf("%+v: counts %d (-want +got):\n%s", q, count, diff)
		}
		var lost uint64
		for _, b := range q.Budgets() {
			lost = max(lost, l.since[b])
		}
		if since, err := r.RecordsSince(q); err != nil || since != lost {
			rt.Fatalf("%+v: all since %d, %v, want %d", q, since, err, lost)
		}
	}
	return nil
}

package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// noted returns a change record in the form in which its author hands it over.
func noted(k *model.Kind, scope, name, actor string) store.ChangeRecord {
	return store.ChangeRecord{
		Actor: model.Actor{Kind: model.ActorUser, Name: actor}, Origin: model.OriginAPI, Op: store.Created,
		Key: model.Key{Kind: k.Name, Scope: scope, Name: name}, Scoping: model.Mesh, Sealed: k.Sealed, Title: "the " + name,
		Members: []store.Member{{Path: "/n", Old: json.RawMessage(`1`), New: json.RawMessage(`{}`)}, {Path: "/secret", Secret: true}},
		More:    3, Cause: &model.Key{Kind: "box", Scope: scope, Name: "b"}, Count: 2,
	}
}

// write creates a resource and records it, in one transaction.
func write(t *testing.T, s store.Store, k *model.Kind, scope, name, actor string) store.Commit {
	t.Helper()
	return must(t, s, func(tx store.Tx) error {
		tx.Record(noted(k, scope, name, actor))
		_, err := tx.Create(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: &Item{}})
		return err
	})
}

// records returns a page as number:name, and the number of records without limits.
func records(t *testing.T, s store.Store, q store.RecordQuery) (page []string, count int) {
	t.Helper()
	view(t, s, func(r store.Reader) error {
		list, err := r.Records(q)
		if err != nil {
			return err
		}
		for _, rec := range list {
			page = append(page, listed(&rec))
		}
		count, err = r.CountRecords(q)
		return err
	})
	return page, count
}

// listed returns the form in which a record is compared.
func listed(r *store.ChangeRecord) string { return fmt.Sprintf("%d:%s", r.Number, r.Key.Name) }

// kept returns the oldest revision after which all records of a query exist.
func kept(t *testing.T, s store.Store, q store.RecordQuery) (since uint64) {
	t.Helper()
	view(t, s, func(r store.Reader) (err error) {
		since, err = r.RecordsSince(q)
		return err
	})
	return since
}

func testRecords(t *testing.T, open Open) {
	s, reopen := open(t)
	write(t, s, Box, "s", "a", "ann")
	write(t, s, Badge, "s", "b", "bob") // takes no revision
	c := write(t, s, Person, "u", "c", "ann")
	if c.Revision != 2 {
		t.Fatalf("revision %d", c.Revision)
	}
	want := []store.ChangeRecord{noted(Box, "s", "a", "ann"), noted(Badge, "s", "b", "bob"), noted(Person, "u", "c", "ann")}
	for i, revisions := range [][2]uint64{{0, 1}, {1, 1}, {1, 2}} {
		want[i].Number, want[i].Previous, want[i].Revision = uint64(i+1), revisions[0], revisions[1]
	}
	for range 2 {
		view(t, s, func(r store.Reader) error {
			got, err := r.Records(store.RecordQuery{Oldest: true})
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(store.ChangeRecord{}, "Time")); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
			for _, rec := range got {
				if age := time.Since(rec.Time); age < 0 || age > deadline {
					t.Errorf("record %d is %v old", rec.Number, age)
				}
			}
			return err
		})
		if reopen == nil {
			break
		}
		s = reopen()
	}
	write(t, s, Box, "s", "d", "ann")
	if page, _ := records(t, s, store.RecordQuery{Limit: 1}); !cmp.Equal(page, []string{"4:d"}) {
		t.Errorf("after reopening: %v", page)
	}
}

func testRecordQueries(t *testing.T, open Open) {
	s := one(t, open)
	write(t, s, Box, "s", "a", "ann")
	write(t, s, Quiet, "s", "b", "bob")
	write(t, s, Box, "u", "c", "ann")
	write(t, s, Thing, "s", "d", "bob")
	holder := store.RecordQuery{Actor: "bob", ActorKind: model.ActorNode, User: "ann"}
	since := func(n uint64) *uint64 { return &n }
	scoping := func(s model.Scoping) *model.Scoping { return &s }
	for _, c := range []struct {
		name  string
		q     store.RecordQuery
		want  []string
		count int
	}{
		{"all, the newest first", store.RecordQuery{}, []string{"4:d", "3:c", "2:b", "1:a"}, 4},
		{"a page", store.RecordQuery{Limit: 2}, []string{"4:d", "3:c"}, 4},
		{"the next page", store.RecordQuery{Limit: 2, After: 3}, []string{"2:b", "1:a"}, 4},
		{"behind the end", store.RecordQuery{After: 1}, nil, 4},
		{"the oldest first", store.RecordQuery{Oldest: true, Limit: 3}, []string{"1:a", "2:b", "3:c"}, 4},
		{"its next page", store.RecordQuery{Oldest: true, After: 3}, []string{"4:d"}, 4},
		{"since nothing", store.RecordQuery{Oldest: true, Since: since(0)}, []string{"1:a", "2:b", "3:c", "4:d"}, 4},
		{"since a revision, with what took none", store.RecordQuery{Oldest: true, Since: since(1)}, []string{"2:b", "3:c", "4:d"}, 3},
		{"since the one before", store.RecordQuery{Oldest: true, Since: since(2)}, []string{"4:d"}, 1},
		{"since the newest", store.RecordQuery{Oldest: true, Since: since(3)}, nil, 0},
		{"since the future", store.RecordQuery{Since: since(9)}, nil, 0},
		{"a kind", store.RecordQuery{Kind: "box"}, []string{"3:c", "1:a"}, 2},
		{"a scope", store.RecordQuery{Scope: "s"}, []string{"4:d", "2:b", "1:a"}, 3},
		{"a kind in a scope", store.RecordQuery{Kind: "box", Scope: "s"}, []string{"1:a"}, 1},
		{"an actor", store.RecordQuery{Actor: "bob"}, []string{"4:d", "2:b"}, 2},
		{"an actor of a kind", store.RecordQuery{Actor: "bob", ActorKind: model.ActorUser, Since: since(2)}, []string{"4:d"}, 1},
		{"an actor of another kind", store.RecordQuery{Actor: "bob", ActorKind: model.ActorNode}, nil, 0},
		{"an actor of another kind, or a user", holder, []string{"3:c", "1:a"}, 2},
		{"an actor of a kind, or a user", store.RecordQuery{Actor: "bob", ActorKind: model.ActorUser, User: "ann", Kind: "box"}, []string{"3:c", "1:a"}, 2},
		{"an actor, or a user", store.RecordQuery{Actor: "bob", User: "nobody"}, []string{"4:d", "2:b"}, 2},
		{"a sort of scopes", store.RecordQuery{Scoping: scoping(model.Mesh), Limit: 1}, []string{"4:d"}, 4},
		{"another sort of scopes", store.RecordQuery{Scoping: scoping(model.ControlPlane), Scope: "s"}, nil, 0},
	} {
		page, count := records(t, s, c.q)
		if diff := cmp.Diff(c.want, page); diff != "" || count != c.count {
			t.Errorf("%s: %d, want %d (-want +got):\n%s", c.name, count, c.count, diff)
		}
	}
}

// testRecordsGoWithTheirChange: neither a record nor its change exists without the other.
func testRecordsGoWithTheirChange(t *testing.T, open Open) {
	s := one(t, open)
	write(t, s, Box, "s", "a", "ann")
	failed := errors.New("no")
	_, err := s.Update(bounded(t), model.Config, func(tx store.Tx) error {
		tx.Record(noted(Box, "s", "b", "ann"))
		return failed
	})
	if !errors.Is(err, failed) {
		t.Fatal(err)
	}
	var late store.Tx
	must(t, s, func(tx store.Tx) error {
		late = tx
		return nil
	})
	late.Record(noted(Box, "s", "late", "ann"))
	var reader store.Reader
	view(t, s, func(r store.Reader) error {
		reader = r
		return nil
	})
	_, err = reader.Records(store.RecordQuery{})
	wantCode(t, err, fault.Internal)
	write(t, s, Box, "s", "c", "ann")
	if page, _ := records(t, s, store.RecordQuery{}); !cmp.Equal(page, []string{"2:c", "1:a"}) {
		t.Errorf("%v", page)
	}
	// Inside a transaction, only committed records are visible.
	must(t, s, func(tx store.Tx) error {
		tx.Record(noted(Box, "s", "d", "ann"))
		list, err := tx.Records(store.RecordQuery{})
		if len(list) != 2 {
			t.Errorf("%d records inside of the transaction", len(list))
		}
		return err
	})
}

// OpenRetaining opens an empty store with a retention and a clock. The store is closed at the
// end of the test. reopen, unless nil, closes it and opens it again.
type OpenRetaining func(t *testing.T, keep store.Retention, now func() time.Time) (s store.Store, reopen func() store.Store)

// RunRetention tests the [store.Retention] of a store.
func RunRetention(t *testing.T, open OpenRetaining) {
	t.Run("a proxy that floods", func(t *testing.T) { testFlood(t, open) })
	t.Run("tokens without an end", func(t *testing.T) { testTokens(t, open) })
	t.Run("budgets", func(t *testing.T) { testBudgets(t, open) })
	t.Run("number", func(t *testing.T) {
		s, _ := open(t, store.Retention{Rows: 3}, time.Now)
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			write(t, s, Box, "s", name, "ann")
		}
		if page, count := records(t, s, store.RecordQuery{}); !cmp.Equal(page, []string{"5:e", "4:d", "3:c"}) || count != 3 {
			t.Errorf("%v of %d", page, count)
		}
		if since := kept(t, s, store.RecordQuery{}); since != 2 {
			t.Errorf("all since %d", since)
		}
	})
	t.Run("age", func(t *testing.T) {
		clock := time.Unix(1_700_000_000, 0)
		s, _ := open(t, store.Retention{Age: time.Hour}, func() time.Time { return clock })
		write(t, s, Box, "s", "a", "ann")
		clock = clock.Add(time.Hour)
		write(t, s, Box, "s", "b", "ann")
		if page, _ := records(t, s, store.RecordQuery{}); len(page) != 2 {
			t.Errorf("as old as can be: %v", page)
		}
		clock = clock.Add(time.Second)
		create(t, s, res(Box, "unrecorded", Item{}))
		if page, _ := records(t, s, store.RecordQuery{}); len(page) != 2 {
			t.Errorf("nothing was recorded, and %v is left", page)
		}
		write(t, s, Box, "s", "c", "ann")
		if page, _ := records(t, s, store.RecordQuery{}); !cmp.Equal(page, []string{"3:c", "2:b"}) {
			t.Errorf("%v", page)
		}
		// The newest record stays however old it is, and a clock that goes back removes
		// nothing.
		clock = clock.Add(1000 * time.Hour)
		write(t, s, Box, "s", "d", "ann")
		clock = clock.Add(-5000 * time.Hour)
		write(t, s, Box, "s", "e", "ann")
		if page, _ := records(t, s, store.RecordQuery{}); !cmp.Equal(page, []string{"5:e", "4:d"}) {
			t.Errorf("%v", page)
		}
	})
	t.Run("in steps", func(t *testing.T) {
		clock := time.Unix(1_700_000_000, 0)
		s, _ := open(t, store.Retention{Age: time.Hour}, func() time.Time { return clock })
		must(t, s, func(tx store.Tx) error {
			for range 1000 {
				tx.Record(noted(Box, "s", "many", "ann"))
			}
			return nil
		})
		clock = clock.Add(2 * time.Hour)
		for before, steps := 1000, 0; before > 1; steps++ {
			write(t, s, Box, "s", fmt.Sprint("n", steps), "ann")
			_, count := records(t, s, store.RecordQuery{Kind: "box"})
			if gone := before + 1 - count; gone < 1 || gone > 100 {
				t.Fatalf("one transaction took %d of %d", gone, before)
			}
			if before = count - steps; steps > 100 {
				t.Fatal("they never go")
			}
		}
	})
}

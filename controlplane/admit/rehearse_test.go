package admit_test

import (
	"context"
	"errors"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestRehearsal: a write that is rehearsed does all that it would do, its records and revocations
// included, and leaves nothing. Nothing begins that somebody would wait for.
func TestRehearsal(t *testing.T) {
	g, s, r := setup(t)
	ctx := t.Context()
	consumers := func(name string) admit.Address {
		return admit.Address{Kind: gateway.Consumers, Scope: scope, Key: name}
	}
	input := func(name string) admit.Input { return admit.Input{Values: map[string]any{"username": name}} }
	if _, err := g.Create(ctx, consumers(""), input("old")); err != nil {
		t.Fatal(err)
	}
	r.OnPublish = func(context.Context, store.Commit) error { t.Error("it was published"); return nil }
	r.OnSettle = func(context.Context, ...string) error { t.Error("it waits for others"); return nil }
	staged, looked := 0, 0
	r.OnStage = func(tx store.Tx) error {
		if staged++; r.Open.Load() != 0 {
			t.Error("it was begun")
		}
		return nil
	}
	var before, after int
	var subject model.Key
	tried := admit.Rehearse(ctx, &admit.Rehearsal{
		Before: func(r store.Reader) (err error) {
			before, err = r.Count(gateway.Consumers, store.Query{Scope: scope})
			return err
		},
		After: func(tx store.Tx, of model.Key) (err error) {
			looked++
			subject = of
			after, err = tx.Count(gateway.Consumers, store.Query{Scope: scope})
			return err
		},
	})
	if admit.Rehearsed(ctx) || !admit.Rehearsed(tried) {
		t.Error("nobody can tell a rehearsal")
	}
	revision, records := s.Revision(), len(recorded(t, s))
	for name, do := range map[string]func() (changes int, err error){
		"create": func() (int, error) {
			out, err := g.Create(tried, consumers(""), input("new"))
			return len(out.Commit.Changes), err
		},
		"replace": func() (int, error) {
			out, err := g.Replace(tried, consumers("old"), admit.Input{Values: map[string]any{"custom_id": "x"}})
			return len(out.Commit.Changes), err
		},
		"patch": func() (int, error) {
			out, err := g.Patch(tried, consumers("old"), admit.Input{Values: map[string]any{"custom_id": "x"}})
			return len(out.Commit.Changes), err
		},
		"delete": func() (int, error) {
			c, err := g.Delete(tried, consumers("old"))
			return len(c.Changes), err
		},
	} {
		staged, looked = 0, 0
		n, err := do()
		if err != nil || n != 1 || staged != 1 || looked != 1 || subject.Kind != gateway.Consumers.Name {
			t.Errorf("%s: %d changes, staged %d times, looked at %d times, subject %v, %v", name, n, staged, looked, subject, err)
		}
		if want := map[string]int{"create": 2, "delete": 0}[name]; before != 1 || after != want && name != "replace" && name != "patch" {
			t.Errorf("%s: there were %d before and %d after", name, before, after)
		}
		if s.Revision() != revision || len(recorded(t, s)) != records {
			t.Errorf("%s: something was stored", name)
		}
	}
	if _, err := g.Delete(tried, consumers("none")); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
	if _, err := g.Create(tried, consumers(""), input("old")); !fault.Is(err, fault.Unique) {
		t.Errorf("%v", err)
	}
	mine := errors.New("mine")
	failing := admit.Rehearse(ctx, &admit.Rehearsal{After: func(store.Tx, model.Key) error { return mine }})
	if _, err := g.Create(failing, consumers(""), input("new")); !errors.Is(err, mine) {
		t.Errorf("%v", err)
	}
	if r.Open.Load() != 0 {
		t.Error("a write is open")
	}
}

// Package storetest is the conformance suite of stores. What [store.Store]
// documents is what it demands; every backend passes all of it.
package storetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// History is how many events the stores under test must keep.
const History = 4096

// deadline bounds every wait of the suite.
const deadline = 20 * time.Second

// Item is the spec of all kinds of the suite.
type Item struct {
	Label  string   `json:"label,omitempty"`
	Secret string   `json:"secret,omitempty"`
	Tags   []string `json:"tags,omitempty"`
	Box    string   `json:"box,omitempty"`
	Parent string   `json:"parent,omitempty"`
	Person string   `json:"person,omitempty"`
	// In is the scope of parent and person, if that is another one.
	In string `json:"in,omitempty"`
	// Boxes are held.
	Boxes []string `json:"boxes,omitempty"`
	// Ends is the expiry in milliseconds of Unix time; 0 = never.
	Ends int64 `json:"ends,omitempty"`
	N    int   `json:"n,omitempty"`
}

func text(get func(*Item) string) func(any) (string, bool) {
	return func(spec any) (string, bool) {
		v := get(spec.(*Item))
		return v, v != ""
	}
}

func in(spec any) string { return spec.(*Item).In }

func ends(spec any) time.Time {
	if at := spec.(*Item).Ends; at != 0 {
		return time.UnixMilli(at)
	}
	return time.Time{}
}

func newItem() any { return new(Item) }

// Kinds of the suite.
var (
	// Box is announced always, unique by label, listed by tag.
	Box = &model.Kind{
		Name: "box", Class: model.Config, Busy: true, New: newItem,
		Unique: []model.Index{{Name: "label", Value: text(func(i *Item) string { return i.Label })}},
		Lists:  []model.ListIndex{{Name: "tags", Values: func(s any) []string { return s.(*Item).Tags }}},
	}
	// Thing refuses the deletion of its boxes and goes with its parent.
	Thing = &model.Kind{
		Name: "thing", Class: model.Config, New: newItem,
		Refs: []model.Ref{
			{Name: "box", To: "box", OnDelete: model.Refuse, Target: text(func(i *Item) string { return i.Box })},
			{Name: "parent", To: "thing", OnDelete: model.Cascade, Target: text(func(i *Item) string { return i.Parent }), In: in},
			{Name: "person", To: "person", OnDelete: model.Cascade, Target: text(func(i *Item) string { return i.Person }), In: in},
		},
		Holds: []model.Hold{{Name: "boxes", To: "box", Targets: func(s any) []string { return s.(*Item).Boxes }}},
	}
	// Person is a credential of which everything is announced.
	Person = &model.Kind{Name: "person", Class: model.Credential, Announce: model.AnnounceAll, New: newItem, Expires: ends}
	// Badge is a sealed credential of which revocations are announced.
	Badge = &model.Kind{
		Name: "badge", Class: model.Credential, Announce: model.AnnounceRevocations, Sealed: true, New: newItem, Expires: ends,
		Unique: []model.Index{{Name: "secret", Secret: true, Value: text(func(i *Item) string { return i.Secret })}},
		Refs:   []model.Ref{{Name: "person", To: "person", OnDelete: model.Cascade, Target: text(func(i *Item) string { return i.Person }), In: in}},
	}
	// Sign names hosts by labels, which keep their labels for that long.
	Sign = &model.Kind{
		Name: "sign", Class: model.Config, New: newItem,
		Lists: []model.ListIndex{{Name: "host", Values: func(s any) []string { return s.(*Item).Tags }}},
		Refs:  []model.Ref{{Name: "person", To: "host", OnDelete: model.Cascade, Target: text(func(i *Item) string { return i.Person })}},
	}
	Host = &model.Kind{
		Name: "host", Class: model.Credential, Announce: model.AnnounceAll, New: newItem,
		Guards: []model.Guard{{By: Sign, Index: "host", Field: "tags", Texts: func(r *model.Resource) []string {
			return []string{r.Name, r.Spec.(*Item).Label}
		}}},
	}
	// Quiet is a credential that is never announced, but written all the time.
	Quiet = &model.Kind{Name: "quiet", Class: model.Credential, Announce: model.AnnounceNone, Busy: true, New: newItem}
)

// Kinds lists all kinds that stores under test must keep.
func Kinds() []*model.Kind {
	return append([]*model.Kind{Box, Thing, Person, Badge, Sign, Host, Quiet}, gateway.Kinds()...)
}

// Open opens an empty store that keeps [Kinds] and [History] events, and closes
// it when the test ends. reopen closes the store and opens it again on the same
// data; it is nil for stores that keep nothing.
type Open func(t *testing.T) (s store.Store, reopen func() store.Store)

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Open)
	}{
		{"create, read, update, delete", testCRUD},
		{"compare and swap", testVersions},
		{"unique values", testUnique},
		{"dangling references", testDangling},
		{"cascade and refuse", testCascade},
		{"references to several", testHolds},
		{"references to other scopes", testElsewhere},
		{"expired targets of other scopes", testElsewhereExpires},
		{"references to other scopes agree with a map", testElsewhereOracle},
		{"what is named stays", testGuards},
		{"cascade raises durability", testCascadeClass},
		{"classes", testClasses},
		{"pages and indexes", testLists},
		{"some by name", testNamed},
		{"specs are not shared", testSpecsAreCopies},
		{"a failed function leaves nothing", testAtomic},
		{"a panic leaves nothing", testPanic},
		{"a transaction ends", testEnded},
		{"gateway kinds", testGateway},
		{"expired rows are absent", testExpiredAbsent},
		{"expired rows are swept", testSweep},
		{"announcements", testAnnouncements},
		{"revision stamps", testStamps},
		{"since when there is what", testSince},
		{"in what order rows were made", testOrder},
		{"watch resumes", testResume},
		{"watch ends", testWatchEnds},
		{"history is bounded", testHistoryLost},
		{"feed under concurrent writers", testFeedOrder},
		{"readers are consistent", testConsistentReaders},
		{"racing for unique values and references", testRaces},
		{"linearizable compare and swap", testLinearizable},
		{"agrees with a map", testOracle},
		{"change records", testRecords},
		{"queries of change records", testRecordQueries},
		{"change records go with their change", testRecordsGoWithTheirChange},
		{"closed", testClosed},
		{"survives reopening", testReopen},
		{"references to other scopes survive reopening", testElsewhereReopen},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

// one opens a store for tests that do not reopen.
func one(t *testing.T, open Open) store.Store {
	t.Helper()
	s, _ := open(t)
	return s
}

// bounded returns a context that ends with the test or the deadline.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func res(k *model.Kind, name string, spec Item) *model.Resource {
	return &model.Resource{Kind: k, Scope: "s", Name: name, Spec: &spec}
}

// must runs a config transaction that has to succeed.
func must(t *testing.T, s store.Store, fn func(store.Tx) error) store.Commit {
	t.Helper()
	c, err := s.Update(bounded(t), model.Config, fn)
	if err != nil {
		t.Fatalf("Update: %v", err)
	}
	return c
}

// create stores resources in one transaction.
func create(t *testing.T, s store.Store, list ...*model.Resource) store.Commit {
	t.Helper()
	return must(t, s, func(tx store.Tx) error {
		for _, r := range list {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// remove deletes one resource in a transaction of its own.
func remove(ctx context.Context, s store.Store, k *model.Kind, name string) (store.Commit, error) {
	return s.Update(ctx, model.Config, func(tx store.Tx) error { return tx.Delete(k, "s", name, 0) })
}

func view(t *testing.T, s store.Store, fn func(store.Reader) error) {
	t.Helper()
	if err := s.View(bounded(t), fn); err != nil {
		t.Fatalf("View: %v", err)
	}
}

// get returns nil for what is absent.
func get(t *testing.T, s store.Store, k *model.Kind, name string) *model.Resource {
	t.Helper()
	var r *model.Resource
	view(t, s, func(rd store.Reader) (err error) {
		if r, err = rd.Get(k, "s", name); fault.Is(err, fault.NotFound) {
			return nil
		}
		return err
	})
	return r
}

func wantCode(t *testing.T, err error, code fault.Code) {
	t.Helper()
	if !fault.Is(err, code) {
		t.Errorf("got error %v (%s), want code %s", err, fault.CodeOf(err), code)
	}
}

// wantSubject checks code and subject.
func wantSubject(t *testing.T, err error, code fault.Code, subject any) {
	t.Helper()
	wantCode(t, err, code)
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return
	}
	byName := cmp.Comparer(func(a, b *model.Kind) bool { return a == b })
	if diff := cmp.Diff(subject, e.Subject, byName); diff != "" {
		t.Errorf("subject (-want +got):\n%s", diff)
	}
}

func names(list []*model.Resource) []string {
	out := make([]string, 0, len(list))
	for _, r := range list {
		out = append(out, r.Name)
	}
	return out
}

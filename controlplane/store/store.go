// Package store is the one interface behind which resources are kept, with one
// conformance suite (storetest) that every implementation passes. Uniqueness
// and references hold in the store itself: their rows are written in the
// transaction of the resource.
//
// Revisions are a property of the whole store: every commit that announces
// something takes the next one, and the change feed delivers events in revision
// order, without gaps in what is announced and without repetition.
package store

import (
	"context"
	"iter"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// Op is what happened to a resource.
type Op string

// Ops.
const (
	Created Op = "created"
	Updated Op = "updated"
	Deleted Op = "deleted"
)

// Event is one announced change. It carries no spec: the consumer reads the
// state it wants, which may be newer.
type Event struct {
	Revision uint64
	Key      model.Key
	Op       Op
}

// Change is one write of a commit, cascades included. Old is nil for creations,
// New for deletions.
type Change struct {
	Op       Op
	Old, New *model.Resource
	// Cause is the resource whose deletion took this one along, by reference.
	Cause *model.Key
	// Ended says that the row had expired, so that it was absent before.
	Ended bool
}

// Commit is the outcome of an Update.
type Commit struct {
	// Revision of the commit if it announced something, otherwise the newest
	// revision of the store at that moment.
	Revision uint64
	// Changes in the order they were made.
	Changes []Change
}

// Query selects resources of one kind and scope. Results are ordered by name.
type Query struct {
	Scope string
	// After is exclusive; empty starts at the beginning.
	After string
	// Limit bounds the result; 0 means all.
	Limit int
	// Skip leaves out so many of the results before Limit counts; they cost less
	// than results but are not free. Part, if set, must occur in the name.
	Skip int
	Part string
	// Index, if set, names a Ref or ListIndex of the kind whose value must equal Value. Of
	// is the scope of what a Ref names, if that is another one than Scope: what has the
	// same name in two scopes is not the same.
	Index, Value, Of string
}

// Target is the scope of what a Ref that is the index names.
func (q *Query) Target() string {
	if q.Of != "" {
		return q.Of
	}
	return q.Scope
}

// Reader reads a consistent state. Errors are [fault.Error]s: NotFound for
// absent resources; anything else is internal.
type Reader interface {
	// Revision is the newest revision contained in this state.
	Revision() uint64
	// Get returns the named resource.
	Get(k *model.Kind, scope, name string) (*model.Resource, error)
	// Find returns the resource that holds a unique value.
	Find(k *model.Kind, scope, index, value string) (*model.Resource, error)
	// Named returns those of some names that exist, ordered by name. It costs less than a Get for each.
	Named(k *model.Kind, scope string, names []string) ([]*model.Resource, error)
	// List returns a page.
	List(k *model.Kind, q Query) ([]*model.Resource, error)
	// Count counts what List without After, Skip and Limit would return.
	Count(k *model.Kind, q Query) (int, error)
	// Records returns a page of change records.
	Records(q RecordQuery) ([]ChangeRecord, error)
	// CountRecords counts what Records without After and Limit would return.
	CountRecords(q RecordQuery) (int, error)
	// RecordsSince returns the least revision after which all records that a query can
	// select are still there; of the query only the actor counts.
	RecordsSince(q RecordQuery) (uint64, error)
}

// Tx reads and writes. Errors:
//
//   - Exists: Create of a name that is taken
//   - Conflict: the expected version is not the stored one
//   - NotFound: Update or Delete of nothing
//   - Unique, with a [UniqueViolation] as subject
//   - Dangling, with a [DanglingReference] as subject
//   - Referenced, with a [StillReferenced] as subject
//
// A Tx whose method failed with one of these stays usable.
type Tx interface {
	Reader
	// Create stores a new resource; Kind, Scope, Name and Spec are taken, and
	// Created if it is set. It returns what was stored.
	Create(r *model.Resource) (*model.Resource, error)
	// Update replaces a resource's spec (and Created, if set). version 0
	// replaces whatever version is stored.
	Update(r *model.Resource, version uint64) (*model.Resource, error)
	// Delete removes a resource and, by cascade, its referrers. version as in Update.
	Delete(k *model.Kind, scope, name string, version uint64) error
	// Announce makes the commit take a revision and puts an event into the feed
	// for a write whose kind would not announce it by itself.
	Announce(key model.Key, op Op)
	// Announced reports whether the commit will put an event of the key into the feed.
	Announced(key model.Key) bool
	// Changes returns the writes so far, cascades included.
	Changes() []Change
	// Record keeps a change record, which is stored with the commit.
	Record(r ChangeRecord)
}

// Store keeps resources. Implementations are safe for concurrent use.
type Store interface {
	// View runs fn on one consistent state. fn must not keep the Reader.
	View(ctx context.Context, fn func(Reader) error) error
	// Update runs fn in one transaction and commits unless fn fails. class is
	// the strictest durability that fn needs: Config commits survive a power
	// failure once Update has returned, Credential commits survive the death of
	// the process. fn may run more than once and must have no other effects.
	// Writing a Config kind under a laxer class is an internal error.
	//
	// ctx ends the wait for the turn of fn. Once fn has run, Update returns when it
	// is known whether the commit took effect, however long that takes; with
	// [ErrUndecided] if the store ends before. Any other error says that it did not.
	Update(ctx context.Context, class model.Class, fn func(Tx) error) (Commit, error)
	// Watch yields events with a revision above after, first those that have
	// happened, then as they happen, until ctx ends (the sequence then ends
	// with its error). All events of one commit come in one slice. A consumer
	// that is too far behind for the kept history gets a [HistoryLost] error and
	// must start from a fresh View.
	Watch(ctx context.Context, after uint64) iter.Seq2[[]Event, error]
	// Revision returns the newest revision.
	Revision() uint64
	// Close releases the store after running transactions have ended.
	Close() error
}

// ErrUndecided is the error of an Update whose commit took effect or did not: the
// store ended before it could tell. Whoever opens the store next will see. Nothing
// may be done that is right in one of both cases only.
var ErrUndecided error = fault.New(fault.Unavailable, "it is not known whether the change was made: the database could not be read after it, and the control plane is stopping")

// Undecided is implemented by stores whose commits may have an outcome that is not
// known for a while, as on a disk that fails.
type Undecided interface {
	// Undecided says what is not known; it is empty while everything is.
	Undecided() string
	// GiveUp says that the process is about to end: nobody waits any more for an
	// outcome that is not known. The store works on until there is one.
	GiveUp()
}

// UniqueViolation is the subject of Unique errors.
type UniqueViolation struct {
	Kind  *model.Kind
	Index string
	// Value is what the caller sent; it is shown back to the caller only.
	Value string
}

// DanglingReference is the subject of Dangling errors.
type DanglingReference struct {
	Kind *model.Kind
	Ref  string
	To   model.Key
}

// StillReferenced is the subject of Referenced errors.
type StillReferenced struct {
	Key model.Key
	// By is the kind name of a referrer.
	By string
	// Name and Field are set where the referrer names the resource by a text
	// ([model.Guard]): its name, and where the text stands.
	Name, Field string
}

// HistoryLost is the error of a Watch whose start is no longer known.
type HistoryLost struct{ Oldest uint64 }

// Error implements error.
func (e *HistoryLost) Error() string { return "the change history no longer reaches back that far" }

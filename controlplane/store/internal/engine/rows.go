// Package engine holds what every store does alike: which values of a spec are
// indexed, when a write is refused, what a deletion takes with it, what is
// announced, and when a row has expired. A backend only keeps rows ([Rows]);
// it decides nothing, so that two backends cannot come to differ.
//
// Invariants: every reference of a live row points at a row; no two live rows
// of a scope share a unique value; a method of [Tx] that fails with a domain
// error has written nothing but the removal of rows that had expired already.
package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Entry is one indexed value of a row.
type Entry struct {
	Index, Value string
	// Secret values must not be kept in clear.
	Secret bool
}

// Reference is one reference of a row. Scope is that of the row that it names, which need
// not be the scope of the row itself.
type Reference struct {
	Ref, Kind, Scope, Name string
	OnDelete               model.OnDelete
}

// To is the key of what a reference names.
func (r Reference) To() model.Key { return model.Key{Kind: r.Kind, Scope: r.Scope, Name: r.Name} }

// Row is a resource with everything that a backend indexes of it.
type Row struct {
	Resource *model.Resource
	// Spec is the JSON of the spec; empty where only the indexes are asked for.
	Spec []byte
	// Expires is when the row is over in milliseconds of Unix time; 0 = never.
	Expires int64
	Unique  []Entry
	Refs    []Reference
	Lists   []Entry
}

// Referrer is a row that points at another one.
type Referrer struct {
	Resource *model.Resource
	OnDelete model.OnDelete
}

// Rows is what a backend provides: the rows of one transaction or snapshot.
// Reads see the writes before them and include expired rows unless a time is
// passed. Every error is unexpected and breaks the transaction.
type Rows interface {
	// Revision is the newest revision of this state.
	Revision() uint64
	// Get returns nil if there is no such row.
	Get(key model.Key) (*model.Resource, error)
	// Has reports whether there is such a row that has not expired at now.
	Has(key model.Key, now int64) (bool, error)
	// Find returns the holder of a unique value, nil if there is none.
	Find(k *model.Kind, scope string, e Entry) (*model.Resource, error)
	// Named returns the rows with some names that have not expired at now, ordered by name.
	Named(k *model.Kind, scope string, names []string, now int64) ([]*model.Resource, error)
	// List returns rows that have not expired at now. The index of the query is
	// one of the kind's.
	List(k *model.Kind, q store.Query, now int64) ([]*model.Resource, error)
	// Count counts what List would return without After, Skip and Limit.
	Count(k *model.Kind, q store.Query, now int64) (int, error)
	// Referrers returns the rows of all scopes that reference a key, ordered by kind, scope
	// and name. Those that cannot be decoded are among them, with a [store.Unread].
	Referrers(to model.Key) ([]Referrer, error)
	// Targets returns what the index says that a row references.
	Targets(of model.Key) ([]model.Key, error)
	// Expired returns up to limit rows that have expired at now, oldest first. Those
	// that cannot be decoded are among them, as in Referrers.
	Expired(now int64, limit int) ([]*model.Resource, error)
	// Insert adds a row whose key and unique values are free, and sets its
	// [model.Resource.Order], as Add does.
	Insert(row Row) error
	// Add adds a row unless its key or one of its unique values may be taken. It reports
	// whether it did; if not, nothing was written.
	Add(row Row) (added bool, err error)
	// Replace replaces a row by one with the same key. reindex is false if
	// both have the same index entries.
	Replace(old, row Row, reindex bool) error
	// Remove removes a row and its index entries.
	Remove(row Row) error
	// Restamp stores the changed revision of a row that this transaction wrote.
	Restamp(r *model.Resource) error
	Records
}

// Describe extracts what is indexed of a resource, from its kind alone. Of one that
// cannot be decoded nobody knows.
func Describe(r *model.Resource) Row {
	row := Row{Resource: r, Expires: Expiry(r)}
	if store.IsUnread(r) {
		return row
	}
	for i := range r.Kind.Unique {
		ix := &r.Kind.Unique[i]
		if v, ok := ix.Value(r.Spec); ok {
			row.Unique = append(row.Unique, Entry{Index: ix.Name, Value: v, Secret: ix.Secret})
		}
	}
	for i := range r.Kind.Refs {
		ref := &r.Kind.Refs[i]
		if to, ok := ref.Key(r); ok {
			row.Refs = append(row.Refs, Reference{Ref: ref.Name, Kind: to.Kind, Scope: to.Scope, Name: to.Name, OnDelete: ref.OnDelete})
		}
	}
	for i := range r.Kind.Holds {
		hold := &r.Kind.Holds[i]
		for _, name := range slices.Compact(slices.Sorted(slices.Values(hold.Targets(r.Spec)))) {
			row.Refs = append(row.Refs, Reference{Ref: hold.Name, Kind: hold.To, Scope: r.Scope, Name: name, OnDelete: model.Refuse})
		}
	}
	for i := range r.Kind.Lists {
		ix := &r.Kind.Lists[i]
		values := slices.Compact(slices.Sorted(slices.Values(ix.Values(r.Spec))))
		for _, v := range values {
			row.Lists = append(row.Lists, Entry{Index: ix.Name, Value: v})
		}
	}
	return row
}

// Rebuild returns the row of a resource that is stored already, for backends
// that write it anew.
func Rebuild(r *model.Resource) (Row, error) {
	spec, err := json.Marshal(r.Spec)
	if err != nil {
		return Row{}, fmt.Errorf("encoding %s %q: %w", r.Kind.Name, r.Name, err)
	}
	row := Describe(r)
	row.Spec = spec
	return row, nil
}

// sameIndexes reports whether two rows have equal index entries.
func sameIndexes(a, b Row) bool {
	return slices.Equal(a.Unique, b.Unique) && slices.Equal(a.Refs, b.Refs) && slices.Equal(a.Lists, b.Lists)
}

// Expiry returns when a resource is over in milliseconds of Unix time; 0 = never.
func Expiry(r *model.Resource) int64 {
	if u, unread := r.Spec.(*store.Unread); unread {
		return u.Expires
	}
	if r.Kind.Expires == nil {
		return 0
	}
	at := r.Kind.Expires(r.Spec)
	if at.IsZero() {
		return 0
	}
	// A time before 1970 is over as well; 0 and below would read as never.
	return max(at.UnixMilli(), 1)
}

// expired reports whether a resource is over at now (milliseconds).
func expired(r *model.Resource, now int64) bool {
	at := Expiry(r)
	return at != 0 && at <= now
}

// instant is the precision at which stores keep times.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

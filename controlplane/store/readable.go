package store

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/model"
)

// ErrUnreadable is in the error of a read that met a row which cannot be decoded: it
// cannot be the next time either, unlike what failed for a moment.
var ErrUnreadable = errors.New("a row cannot be read")

// Unread stands in for the spec of a row that cannot be decoded. It never leaves a
// read as if it were a spec: it is in an [UnreadableRow], and in what a deletion shows
// of the row, as the old resource of a [Change] and to those who are asked before.
type Unread struct {
	// Targets are what the row refers to, as its index says; set in changes only.
	Targets []model.Key
	// Expires is when the row may be dropped, in milliseconds of Unix time; 0 = never.
	Expires int64
}

// IsUnread reports whether a resource is one that cannot be decoded.
func IsUnread(r *model.Resource) bool {
	_, unread := r.Spec.(*Unread)
	return unread
}

// UnreadableRow is the error of a read that met a row which cannot be decoded. It
// says which, so that whoever is told can delete it. It is an [ErrUnreadable].
type UnreadableRow struct {
	// Resource is the row with an [Unread] as its spec.
	Resource *model.Resource
	// Err is for the log.
	Err error
}

// Error implements error.
func (e *UnreadableRow) Error() string { return ErrUnreadable.Error() + ": " + e.Err.Error() }

// Unwrap returns ErrUnreadable and the cause.
func (e *UnreadableRow) Unwrap() []error { return []error{ErrUnreadable, e.Err} }

// UnreadIn returns the row that a read could not decode, nil if that was not what it
// failed of.
func UnreadIn(err error) *model.Resource {
	if e, ok := errors.AsType[*UnreadableRow](err); ok {
		return e.Resource
	}
	return nil
}

// ListReadable is List for those who look after many resources and must not give up
// all of them for one: a row that cannot be decoded, as after a downgrade, fails the
// List that meets it. It returns the resources of a kind and scope that can be read,
// ordered by name, and why each other one cannot. err says that nothing could be.
func ListReadable(r Reader, k *model.Kind, scope string) (readable []*model.Resource, unreadable []error, err error) {
	page, unreadable, err := PageReadable(r, k, Query{Scope: scope})
	for _, res := range page {
		if res != nil {
			readable = append(readable, res)
		}
	}
	return readable, unreadable, err
}

// ListAll is List for those who delete what they find, and may be shown rows that
// cannot be decoded: these have an [Unread] as their spec.
func ListAll(r Reader, k *model.Kind, q Query) ([]*model.Resource, error) {
	page, unreadable, err := PageReadable(r, k, q)
	if err != nil {
		return nil, err
	}
	for i, res := range page {
		if res != nil {
			continue
		}
		bare := UnreadIn(unreadable[0])
		if bare == nil {
			return nil, unreadable[0]
		}
		page[i], unreadable = bare, unreadable[1:]
	}
	return page, nil
}

// PageReadable is ListReadable for a page. nil stands in it at the place of what
// cannot be read, of which unreadable says why, in the same order.
func PageReadable(r Reader, k *model.Kind, q Query) (page []*model.Resource, unreadable []error, err error) {
	page, err = r.List(k, q)
	if err == nil {
		return page, nil, nil
	}
	n, failed := r.Count(k, q)
	if failed != nil || n == 0 {
		return nil, nil, err
	}
	if q.Limit == 0 || q.Limit > n {
		q.Limit = n
	}
	page, unreadable = halves(r, k, q)
	return page, unreadable, nil
}

// halves lists a page, in halves where it cannot be listed as a whole.
func halves(r Reader, k *model.Kind, q Query) (page []*model.Resource, unreadable []error) {
	page, err := r.List(k, q)
	switch {
	case err == nil:
		return page, nil
	case q.Limit == 1:
		return []*model.Resource{nil}, []error{err}
	}
	first, second := q, q
	first.Limit = q.Limit / 2
	second.Skip, second.Limit = q.Skip+first.Limit, q.Limit-first.Limit
	page, unreadable = halves(r, k, first)
	more, others := halves(r, k, second)
	return append(page[:len(page):len(page)], more...), append(unreadable, others...)
}

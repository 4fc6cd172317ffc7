package store

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/model"
)

// ErrUnreadable is in the error of a read that met a row which cannot be decoded: it
// cannot be the next time either, unlike what failed for a moment.
var ErrUnreadable = errors.New("a row cannot be read")

// Unread stands in for the spec of a row that cannot be decoded. It never leaves a
// read as if it were a spec: it is in an [UnreadableRow], in what [ListAll] lists, and in
// what a deletion shows of the row, as the old resource of a [Change] and to those who
// are asked before.
type Unread struct {
	// Why it cannot be decoded is for the log.
	Why error
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
	resource *model.Resource
	why      error
}

// Unreadable returns the error for a row whose spec is missing from r, and puts an
// [Unread] there.
func Unreadable(r *model.Resource, expires int64, why error) *UnreadableRow {
	r.Spec = &Unread{Why: why, Expires: expires}
	return &UnreadableRow{r, why}
}

// Error implements error.
func (e *UnreadableRow) Error() string { return ErrUnreadable.Error() + ": " + e.why.Error() }

// Unwrap returns ErrUnreadable and the cause.
func (e *UnreadableRow) Unwrap() []error { return []error{ErrUnreadable, e.why} }

// UnreadIn returns the row that a read could not decode, with an [Unread] as its spec;
// nil if that was not what it failed of.
func UnreadIn(err error) *model.Resource {
	if e, ok := errors.AsType[*UnreadableRow](err); ok {
		return e.resource
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

// ListAll is List for those who can do with the names of rows that cannot be decoded:
// these have an [Unread] as their spec. Any other failure is one of the whole.
func ListAll(r Reader, k *model.Kind, q Query) ([]*model.Resource, error) {
	list, err := r.List(k, q)
	if UnreadIn(err) == nil {
		return list, err
	}
	list, unreadable, err := PageReadable(r, k, q)
	for i, res := range list {
		if res != nil {
			continue
		}
		if list[i] = UnreadIn(unreadable[0]); list[i] == nil {
			return nil, unreadable[0] // such as a disk that fails
		}
		unreadable = unreadable[1:]
	}
	return list, err
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

package store

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/model"
)

// ErrUnreadable is in the error of a read that met a row which cannot be decoded. Unlike a
// temporary failure, such a read also fails the next time.
var ErrUnreadable = errors.New("a row cannot be read")

// ErrRehearsed ends a transaction that went well and is undone because nobody wanted it committed.
var ErrRehearsed = errors.New("the transaction was a rehearsal")

// Unread replaces the spec of a row that cannot be decoded. No read returns it in place of a
// spec. It occurs in an [UnreadableRow], in the result of [ListAll], and in a deletion: as
// the old resource of a [Change], and in what is shown to those who are asked before.
type Unread struct {
	// Why says, for the log, why the row cannot be decoded.
	Why error
	// Targets are the resources that the row refers to, according to its index. It is set
	// only in changes.
	Targets []model.Key
	// Expires is the time when the row may be dropped, in milliseconds of Unix time; 0 =
	// never.
	Expires int64
}

// IsUnread reports whether the spec of a resource could not be decoded.
func IsUnread(r *model.Resource) bool {
	_, unread := r.Spec.(*Unread)
	return unread
}

// UnreadableRow is the error of a read that met a row which cannot be decoded. It names the
// row, so that somebody can delete it. It is an [ErrUnreadable].
type UnreadableRow struct {
	resource *model.Resource
	why      error
}

// Unreadable returns the error for a row that cannot be decoded, and sets the spec of r to an
// [Unread].
func Unreadable(r *model.Resource, expires int64, why error) *UnreadableRow {
	r.Spec = &Unread{Why: why, Expires: expires}
	return &UnreadableRow{r, why}
}

// Error implements error.
func (e *UnreadableRow) Error() string { return ErrUnreadable.Error() + ": " + e.why.Error() }

// Unwrap returns ErrUnreadable and the cause.
func (e *UnreadableRow) Unwrap() []error { return []error{ErrUnreadable, e.why} }

// UnreadIn returns the row that a read could not decode, with an [Unread] as its spec. It
// returns nil if the read failed for another reason.
func UnreadIn(err error) *model.Resource {
	if e, ok := errors.AsType[*UnreadableRow](err); ok {
		return e.resource
	}
	return nil
}

// ListReadable is List for callers that must not give up all resources because of one: a
// plain List fails if one row cannot be decoded, as after a downgrade. It returns the
// readable resources of a kind and scope, ordered by name, and an error for each other one.
// err is set if nothing could be read.
func ListReadable(r Reader, k *model.Kind, scope string) (readable []*model.Resource, unreadable []error, err error) {
	page, unreadable, err := PageReadable(r, k, Query{Scope: scope})
	for _, res := range page {
		if res != nil {
			readable = append(readable, res)
		}
	}
	return readable, unreadable, err
}

// ListAll is List for callers that can use the names of rows that cannot be decoded. Such
// rows have an [Unread] as their spec. Any other failure fails the whole call.
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
			return nil, unreadable[0] // for example the disk failed
		}
		unreadable = unreadable[1:]
	}
	return list, err
}

// PageReadable is ListReadable for a page. The page holds nil for each row that cannot be
// read, and unreadable the errors of these rows, in the same order.
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

// halves lists a page. If it cannot be listed as a whole, halves lists its two halves.
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

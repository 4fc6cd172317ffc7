package store

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/model"
)

// ErrUnreadable is in the error of a read that met a row which cannot be decoded: it
// cannot be the next time either, unlike what failed for a moment.
var ErrUnreadable = errors.New("a row cannot be read")

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

// PageReadable is ListReadable for a page. nil stands in it at the place of what
// cannot be read.
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

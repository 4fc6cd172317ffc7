package store

import "github.com/meshgate/meshgate/controlplane/model"

// ListReadable is List for those who look after many resources and must not give up
// all of them for one: a row that cannot be decoded, as after a downgrade, fails the
// List that meets it. It returns the resources of a kind and scope that can be read,
// ordered by name, and why each other one cannot. err says that nothing could be.
func ListReadable(r Reader, k *model.Kind, scope string) (readable []*model.Resource, unreadable []error, err error) {
	all, err := r.List(k, Query{Scope: scope})
	if err == nil {
		return all, nil, nil
	}
	n, failed := r.Count(k, Query{Scope: scope})
	if failed != nil || n == 0 {
		return nil, nil, err
	}
	readable, unreadable = halves(r, k, Query{Scope: scope, Limit: n})
	return readable, unreadable, nil
}

// halves lists a page, in halves where it cannot be listed as a whole.
func halves(r Reader, k *model.Kind, q Query) (readable []*model.Resource, unreadable []error) {
	page, err := r.List(k, q)
	switch {
	case err == nil:
		return page, nil
	case q.Limit == 1:
		return nil, []error{err}
	}
	first, second := q, q
	first.Limit = q.Limit / 2
	second.Skip, second.Limit = q.Skip+first.Limit, q.Limit-first.Limit
	readable, unreadable = halves(r, k, first)
	more, others := halves(r, k, second)
	return append(readable, more...), append(unreadable, others...)
}

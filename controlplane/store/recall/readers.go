package recall

import (
	"errors"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// errMissed ends a view of the memory, which does not hold what was asked for.
var errMissed = errors.New("recall: not in memory")

// remembered implements [store.Reader] on the memory alone.
type remembered struct {
	memory   *memory
	revision uint64
	// missed says that something was not there. What the view came to then does not count.
	missed bool
}

// Revision implements [store.Reader].
func (r *remembered) Revision() uint64 { return r.revision }

// Get implements [store.Reader].
func (r *remembered) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	return r.one(byName(k, scope, name))
}

// Find implements [store.Reader].
func (r *remembered) Find(k *model.Kind, scope, index, value string) (*model.Resource, error) {
	return r.one(byValue(k, scope, index, value))
}

// Named implements [store.Reader].
func (r *remembered) Named(*model.Kind, string, []string) ([]*model.Resource, error) {
	return nil, r.miss()
}

// List implements [store.Reader].
func (r *remembered) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	a, err := r.recall(question{k, true, q})
	return slices.Clone(a.list), err
}

// Count implements [store.Reader].
func (r *remembered) Count(*model.Kind, store.Query) (int, error) { return 0, r.miss() }

// Records implements [store.Reader].
func (r *remembered) Records(store.RecordQuery) ([]store.ChangeRecord, error) { return nil, r.miss() }

// CountRecords implements [store.Reader].
func (r *remembered) CountRecords(store.RecordQuery) (int, error) { return 0, r.miss() }

// RecordsSince implements [store.Reader].
func (r *remembered) RecordsSince(store.RecordQuery) (uint64, error) { return 0, r.miss() }

func (r *remembered) one(q question) (*model.Resource, error) {
	a, err := r.recall(q)
	if err != nil {
		return nil, err
	}
	return a.list[0], nil
}

func (r *remembered) recall(q question) (answer, error) {
	if r.missed {
		return answer{}, errMissed
	}
	a, known := r.memory.recall(q)
	if !known {
		return answer{}, r.miss()
	}
	return a, a.absent
}

func (r *remembered) miss() error {
	r.missed = true
	return errMissed
}

// learning is a reader of the store. The memory learns what it finds.
type learning struct {
	store.Reader
	cache  *Cache
	memory *memory
}

// Get implements [store.Reader].
func (r *learning) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	res, err := r.Reader.Get(k, scope, name)
	r.learn(byName(k, scope, name), res, err)
	return res, err
}

// Find implements [store.Reader].
func (r *learning) Find(k *model.Kind, scope, index, value string) (*model.Resource, error) {
	res, err := r.Reader.Find(k, scope, index, value)
	r.learn(byValue(k, scope, index, value), res, err)
	return res, err
}

// List implements [store.Reader]. Rows that are created change a list.
func (r *learning) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	list, err := r.Reader.List(k, q)
	if err == nil && r.cache.kinds[k] && len(list) <= maxListed {
		r.memory.learn(question{k, true, q}, answer{list: slices.Clone(list)})
	}
	return list, err
}

func (r *learning) learn(q question, res *model.Resource, err error) {
	created, kept := r.cache.kinds[q.kind]
	switch {
	case !kept:
	case err == nil:
		r.memory.learn(q, answer{list: []*model.Resource{res}})
	case created && fault.Is(err, fault.NotFound):
		r.memory.learn(q, answer{absent: err})
	}
}

func byName(k *model.Kind, scope, name string) question {
	return question{k, false, store.Query{Scope: scope, Value: name}}
}

func byValue(k *model.Kind, scope, index, value string) question {
	return question{k, false, store.Query{Scope: scope, Index: index, Value: value}}
}

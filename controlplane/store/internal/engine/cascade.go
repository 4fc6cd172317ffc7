package engine

import (
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Delete implements [store.Tx]. Referrers go before what they reference, so
// that the asked-for resource is the last of the changes.
func (t *Tx) Delete(k *model.Kind, scope, name string, version uint64) error {
	if err := t.writable(&model.Resource{Kind: k, Scope: scope, Name: name}); err != nil {
		return err
	}
	old, err := t.expect(k, scope, name, version)
	if err != nil {
		return err
	}
	doomed, err := t.closure(old, true)
	if err != nil {
		return err
	}
	return t.remove(doomed)
}

// refusal is a reference that forbids deleting its target.
type refusal struct{ by, to model.Key }

// closure collects what must go with a resource, itself first. A refusing
// reference counts only if its holder is not leaving as well and has not
// expired. With refuse false nothing is refused.
func (t *Tx) closure(first *model.Resource, refuse bool) ([]*model.Resource, error) {
	doomed := []*model.Resource{first}
	seen := map[model.Key]bool{first.Key(): true}
	var refusals []refusal
	for i := 0; i < len(doomed); i++ {
		to := doomed[i].Key()
		referrers, err := t.rows.Referrers(to)
		if err != nil {
			return nil, t.fail(err)
		}
		for _, r := range referrers {
			key := r.Resource.Key()
			switch {
			case seen[key]:
			case r.OnDelete == model.Cascade || expired(r.Resource, t.millis):
				seen[key] = true
				doomed = append(doomed, r.Resource)
			case refuse:
				refusals = append(refusals, refusal{by: key, to: to})
			}
		}
	}
	for _, r := range refusals {
		if !seen[r.by] {
			return nil, fault.New(fault.Referenced, "a %s still references this %s", r.by.Kind, r.to.Kind).
				With(store.StillReferenced{Key: r.to, By: r.by.Kind})
		}
	}
	return doomed, nil
}

// evict removes a row that has expired. Nobody can refuse that: for every
// reader the row was absent already.
func (t *Tx) evict(r *model.Resource) error {
	doomed, err := t.closure(r, false)
	if err != nil {
		return err
	}
	return t.remove(doomed)
}

// remove removes rows, the last first.
func (t *Tx) remove(doomed []*model.Resource) error {
	for i := len(doomed) - 1; i >= 0; i-- {
		r := doomed[i]
		if err := t.rows.Remove(Describe(r)); err != nil {
			return t.fail(err)
		}
		// The caller cannot know what a cascade reaches, so it raises the
		// durability instead of failing.
		t.strict = t.strict || r.Kind.Class == model.Config
		t.record(store.Deleted, r, nil)
	}
	return nil
}

// record notes a change and, where the kind says so, an event.
func (t *Tx) record(op store.Op, old, next *model.Resource) {
	t.changes = append(t.changes, store.Change{Op: op, Old: old, New: next})
	r := next
	if r == nil {
		r = old
	}
	ended := op == store.Deleted && expired(r, t.millis)
	if !announces(r.Kind, op, ended) {
		return
	}
	t.announced[r.Key()] = op
	t.events = append(t.events, store.Event{Key: r.Key(), Op: op})
}

// announces reports whether a kind announces an operation by itself. The end
// of a row that had expired revokes nothing.
func announces(k *model.Kind, op store.Op, ended bool) bool {
	switch {
	case k.Class == model.Config || k.Announce == model.AnnounceAll:
		return true
	case k.Announce == model.AnnounceRevocations:
		return op != store.Created && !ended
	}
	return false
}

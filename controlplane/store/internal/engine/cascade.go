package engine

import (
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Delete implements [store.Tx]. Referrers are removed before what they reference, so that the
// requested resource is the last of the changes. Rows that cannot be decoded are removed like
// others. Otherwise they would stay for ever, together with what they refer to.
func (t *Tx) Delete(k *model.Kind, scope, name string, version uint64) error {
	if err := t.writable(&model.Resource{Kind: k, Scope: scope, Name: name}); err != nil {
		return err
	}
	old, err := t.doomed(k, scope, name, version)
	if err != nil {
		return err
	}
	doomed, err := t.closure(old, true)
	if err != nil {
		return err
	}
	return t.remove(doomed)
}

// doomed does the same as expect for a row that is to be removed and need not be readable.
func (t *Tx) doomed(k *model.Kind, scope, name string, version uint64) (*model.Resource, error) {
	old, err := t.rows.Get(model.Key{Kind: k.Name, Scope: scope, Name: name})
	if bare := store.UnreadIn(err); bare != nil {
		old, err = bare, nil
	}
	return t.expected(old, err, k, name, version)
}

// refusal is a reference that forbids the deletion of its target. field is empty unless the
// reference is a text.
type refusal struct {
	by, to model.Key
	field  string
}

func (r refusal) fault() error {
	subject := store.StillReferenced{Key: r.to, By: r.by.Kind}
	if r.field != "" {
		subject.Name, subject.Field = r.by.Name, r.field
	}
	return fault.New(fault.Referenced, "a %s still references this %s", r.by.Kind, r.to.Kind).With(subject)
}

// closure collects everything that must be removed with a resource, the resource first. A
// refusing reference counts only if its holder stays and has not expired. With refuse false,
// nothing is refused.
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
		if refuse {
			named, err := t.guarded(doomed[i], nil)
			if err != nil {
				return nil, err
			}
			refusals = append(refusals, named...)
		}
	}
	for _, r := range refusals {
		if !seen[r.by] {
			return nil, r.fault()
		}
	}
	return doomed, nil
}

// guarded lists the resources that name a resource by a text which it loses. The texts of a
// resource that cannot be decoded are unknown, so nothing can refer to them any more.
func (t *Tx) guarded(r *model.Resource, next *model.Resource) ([]refusal, error) {
	var out []refusal
	if store.IsUnread(r) {
		return nil, nil
	}
	for i := range r.Kind.Guards {
		g := &r.Kind.Guards[i]
		var kept []string
		if next != nil {
			kept = g.Texts(next)
		}
		for _, text := range g.Texts(r) {
			if slices.Contains(kept, text) {
				continue
			}
			by, err := t.rows.List(g.By, store.Query{Scope: r.Scope, Index: g.Index, Value: text}, t.millis)
			if err != nil {
				return nil, t.fail(err)
			}
			for _, b := range by {
				out = append(out, refusal{by: b.Key(), to: r.Key(), field: g.Field})
			}
		}
	}
	return out, nil
}

// evict removes an expired row. Nothing can refuse that, because the row is already absent
// for every reader.
func (t *Tx) evict(r *model.Resource) error {
	doomed, err := t.closure(r, false)
	if err != nil {
		return err
	}
	return t.remove(doomed)
}

// remove removes rows, the last first. The first one is the cause of the others.
func (t *Tx) remove(doomed []*model.Resource) error {
	for i := len(doomed) - 1; i >= 0; i-- {
		r := doomed[i]
		if u, unread := r.Spec.(*store.Unread); unread {
			var err error
			if u.Targets, err = t.rows.Targets(r.Key()); err != nil {
				return t.fail(err)
			}
		}
		if err := t.rows.Remove(Describe(r)); err != nil {
			return t.fail(err)
		}
		// The caller cannot know what a cascade reaches, so it raises the
		// durability instead of failing.
		t.strict = t.strict || r.Kind.Class == model.Config
		c := store.Change{Op: store.Deleted, Old: r, Ended: expired(r, t.millis)}
		if i > 0 {
			cause := doomed[0].Key()
			c.Cause = &cause
		}
		t.record(c)
	}
	return nil
}

// record notes a change and, if the kind requires it, an event.
func (t *Tx) record(c store.Change) {
	t.changes = append(t.changes, c)
	r := c.New
	if r == nil {
		r = c.Old
	}
	if !announces(r.Kind, c.Op, c.Ended) {
		return
	}
	t.announced[r.Key()] = c.Op
	t.events = append(t.events, store.Event{Key: r.Key(), Op: c.Op})
}

// announces reports whether a kind announces an operation by itself. The removal of an
// expired row revokes nothing.
func announces(k *model.Kind, op store.Op, ended bool) bool {
	switch {
	case k.Class == model.Config || k.Announce == model.AnnounceAll:
		return true
	case k.Announce == model.AnnounceRevocations:
		return op != store.Created && !ended
	}
	return false
}

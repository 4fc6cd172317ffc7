package declarative

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// States is the kind of the record of what a file has left in a scope. It distinguishes
// entities that came from a file from those that somebody wrote through the API, which must
// not be lost.
var States = &model.Kind{
	Name: "declarative_state", Path: "declarative-states", Scoping: model.ControlPlane,
	Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
	New: func() any { return new(State) },
}

// stateName is the name of the only resource of [States] in a scope.
const stateName = "file"

// State lists the entities that came from a file.
type State struct {
	// Versions holds the versions under which the entities were stored, by kind and id.
	Versions map[string]uint64 `json:"versions"`
}

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind { return []*model.Kind{States} }

// Apply makes the scope that the file was resolved for hold exactly the entities of the file,
// in one transaction. Entities that are equal already are left alone. It refuses a scope with
// entities that did not come from a file. Errors in the file are [*Problems].
func (f *File) Apply(ctx context.Context, gate *admit.Gate, scope string) (store.Commit, error) {
	kinds := inOrder(f.kinds)
	return gate.Write(model.WithOrigin(ctx, model.OriginFile), model.Config, func(tx store.Tx) error {
		f.problems.List = nil // the transaction may run more than once
		a := &applier{file: f, tx: tx, scope: scope, before: map[string]*model.Resource{}, after: State{Versions: map[string]uint64{}}}
		if err := a.read(kinds); err != nil {
			return err
		}
		for _, kind := range kinds {
			if err := a.write(kind); err != nil {
				return err
			}
		}
		if err := f.problems.orNil(); err != nil {
			return err
		}
		if err := a.remove(kinds); err != nil {
			return err
		}
		return a.remember()
	})
}

// applier is one run of the transaction.
type applier struct {
	file  *File
	tx    store.Tx
	scope string
	// before holds the entities of the scope by kind and id.
	before map[string]*model.Resource
	state  *model.Resource
	after  State
}

func keyOf(r *model.Resource) string { return r.Kind.Name + "/" + r.Name }

// read reads the existing entities, and fails if any did not come from a file.
func (a *applier) read(kinds []*model.Kind) error {
	known := State{}
	state, err := a.tx.Get(States, a.scope, stateName)
	switch {
	case err == nil:
		a.state, known = state, *state.Spec.(*State)
	case !fault.Is(err, fault.NotFound):
		return err
	}
	var foreign []string
	for _, kind := range kinds {
		all, err := store.ListAll(a.tx, kind, store.Query{Scope: a.scope})
		if err != nil {
			return err
		}
		for _, r := range all {
			a.before[keyOf(r)] = r
			if known.Versions[keyOf(r)] != r.Version {
				foreign = append(foreign, keyOf(r))
			}
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	shown := strings.Join(foreign[:min(len(foreign), 5)], ", ")
	return fault.New(fault.Conflict, "the store holds %d entities that did not come from a declarative file (%s): "+
		"delete them through the administration API without gateway.declarative, or use another stateDir or store.type memory", len(foreign), shown)
}

// remove deletes entities that are not in the file, referrers first.
func (a *applier) remove(kinds []*model.Kind) error {
	for _, kind := range slices.Backward(kinds) {
		for _, key := range slices.Sorted(maps.Keys(a.before)) {
			r := a.before[key]
			if _, wanted := a.after.Versions[key]; wanted || r.Kind != kind {
				continue
			}
			// A cascade may have deleted it.
			if err := a.tx.Delete(kind, a.scope, r.Name, 0); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}
	return nil
}

// evict deletes the holder of a unique value that an entity of the file needs, together with
// everything that refers to the holder. Referrers that are in the file come later and are
// created again.
func (a *applier) evict(r *model.Resource) error {
	for _, kind := range a.file.kinds {
		for _, ref := range kind.Refs {
			if ref.To != r.Kind.Name {
				continue
			}
			referrers, err := store.ListAll(a.tx, kind, store.Query{Scope: a.scope, Index: ref.Name, Value: r.Name})
			if err != nil {
				return err
			}
			for _, from := range referrers {
				if err := a.evict(from); err != nil {
					return err
				}
			}
		}
	}
	if err := a.evictNamers(r); err != nil {
		return err
	}
	if err := a.tx.Delete(r.Kind, a.scope, r.Name, 0); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	return nil
}

// evictNamers deletes the resources that name a resource by a text. Those that are in the
// file come later and are created again. The texts of a resource that cannot be decoded are
// unknown.
func (a *applier) evictNamers(r *model.Resource) error {
	if store.IsUnread(r) {
		return nil
	}
	for _, guard := range r.Kind.Guards {
		for _, text := range guard.Texts(r) {
			namers, err := store.ListAll(a.tx, guard.By, store.Query{Scope: a.scope, Index: guard.Index, Value: text})
			if err != nil {
				return err
			}
			for _, from := range namers {
				if err := a.evict(from); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// write stores the entities of one kind that are new or have changed.
func (a *applier) write(kind *model.Kind) error {
	for _, e := range a.file.entities {
		if e.kind != kind {
			continue
		}
		stored, err := a.put(e.resource)
		if fault.Is(err, fault.Invalid) {
			a.file.violated(e, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %s: %w", a.file.name, e.at.line, e.path, err)
		}
		a.after.Versions[keyOf(stored)] = stored.Version
	}
	return nil
}

func (a *applier) put(r *model.Resource) (*model.Resource, error) {
	old, err := a.stored(r)
	if err != nil {
		return nil, err
	}
	if old != nil {
		if same, err := equal(old, r); same || err != nil {
			return old, err
		}
	}
	if err := admit.Cross(a.tx, r); err != nil {
		return nil, err
	}
	try := func() (*model.Resource, error) {
		if old != nil {
			return a.tx.Update(r, 0)
		}
		return a.tx.Create(r)
	}
	for {
		stored, err := try()
		if fault.Is(err, fault.Referenced) && old != nil { // another resource names it by a text that it loses
			if err := a.evictNamers(old); err != nil {
				return nil, err
			}
			continue
		}
		holder := a.holder(err)
		if holder == nil {
			return stored, err
		}
		if err := a.evict(holder); err != nil {
			return nil, err
		}
	}
}

// stored returns the existing entity, or nil. An entity that cannot be decoded is deleted
// with everything that refers to it. Referrers that are in the file come later and are
// created again.
func (a *applier) stored(r *model.Resource) (*model.Resource, error) {
	old, err := a.tx.Get(r.Kind, a.scope, r.Name)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil //nolint:nilnil // nil is nothing
	case store.UnreadIn(err) != nil:
		return nil, a.evict(store.UnreadIn(err))
	}
	return old, err
}

// holder returns the resource that has the unique value of a failed write. It returns nil if
// the write failed for another reason.
func (a *applier) holder(err error) *model.Resource {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return nil
	}
	v, ok := e.Subject.(store.UniqueViolation)
	if !ok {
		return nil
	}
	r, err := a.tx.Find(v.Kind, a.scope, v.Index, v.Value)
	if err != nil || a.after.Versions[keyOf(r)] != 0 {
		return nil
	}
	return r
}

// equal compares the stored forms of two resources. If the file states no creation time, that
// of the stored resource is kept.
func equal(stored, wanted *model.Resource) (bool, error) {
	a, err := json.Marshal(stored.Spec)
	if err != nil {
		return false, err
	}
	b, err := json.Marshal(wanted.Spec)
	return bytes.Equal(a, b) && (wanted.Created.IsZero() || wanted.Created.Equal(stored.Created)), err
}

// remember records what came from the file, if that has changed.
func (a *applier) remember() error {
	r := &model.Resource{Kind: States, Scope: a.scope, Name: stateName, Spec: &a.after}
	if a.state == nil {
		_, err := a.tx.Create(r)
		return err
	}
	if maps.Equal(a.state.Spec.(*State).Versions, a.after.Versions) {
		return nil
	}
	_, err := a.tx.Update(r, 0)
	return err
}

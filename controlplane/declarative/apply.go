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

// States is the kind of what a file has left in a scope. It tells what came
// from a file from what somebody wrote through the API, which must not be lost.
var States = &model.Kind{
	Name: "declarative_state", Path: "declarative-states", Scoping: model.ControlPlane,
	Class: model.Credential, Announce: model.AnnounceNone, ReadOnly: true,
	New: func() any { return new(State) },
}

// stateName is that of the one resource of [States] in a scope.
const stateName = "file"

// State lists the entities that came from a file.
type State struct {
	// Versions are those under which the entities were stored, by kind and id.
	Versions map[string]uint64 `json:"versions"`
}

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind { return []*model.Kind{States} }

// Apply makes the scope that the file was resolved for hold exactly its
// entities, in one transaction; what is there already is left alone. It refuses
// a scope with entities that did not come from a file. The error is [*Problems]
// where the file is to blame.
func (f *File) Apply(ctx context.Context, gate *admit.Gate, scope string) (store.Commit, error) {
	kinds := inOrder(f.kinds)
	return gate.Write(model.WithOrigin(ctx, model.OriginFile), model.Config, func(tx store.Tx) error {
		f.problems.List = nil // a transaction may run more than once
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
	// before are the entities of the scope by kind and id.
	before map[string]*model.Resource
	state  *model.Resource
	after  State
}

func keyOf(r *model.Resource) string { return r.Kind.Name + "/" + r.Name }

// read finds what is there and refuses to touch what did not come from a file.
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

// remove deletes what the file does not have, referrers first.
func (a *applier) remove(kinds []*model.Kind) error {
	for _, kind := range slices.Backward(kinds) {
		for _, key := range slices.Sorted(maps.Keys(a.before)) {
			r := a.before[key]
			if _, wanted := a.after.Versions[key]; wanted || r.Kind != kind {
				continue
			}
			// A cascade may have taken it.
			if err := a.tx.Delete(kind, a.scope, r.Name, 0); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}
	return nil
}

// evict deletes the holder of a unique value that an entity of the file wants,
// together with everything that refers to it: what of that is in the file comes
// after it and is made again.
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

// evictNamers deletes what names a resource by a text: what of that is in the
// file comes after it and is made again. The texts of one that cannot be decoded are not
// known.
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

// write stores the entities of one kind that are new or differ.
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
		if fault.Is(err, fault.Referenced) && old != nil { // it is named by a text that it gives up
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

// stored is what there is of an entity, or nil. What cannot be decoded goes, with all that
// refers to it: what of that is in the file comes after it and is made again.
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

// holder is the resource that has a unique value which a write wanted; nil if
// that was not what the write failed of.
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

// equal compares what is stored of two resources. A creation time that the file
// does not state is that of the stored one.
func equal(stored, wanted *model.Resource) (bool, error) {
	a, err := json.Marshal(stored.Spec)
	if err != nil {
		return false, err
	}
	b, err := json.Marshal(wanted.Spec)
	return bytes.Equal(a, b) && (wanted.Created.IsZero() || wanted.Created.Equal(stored.Created)), err
}

// remember notes what came from the file, if that has changed.
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

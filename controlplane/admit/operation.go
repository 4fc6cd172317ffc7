package admit

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// maxAttempts bounds how often a patch is merged anew because others wrote the
// resource meanwhile.
const maxAttempts = 16

// Input is what a caller sent for an entity.
type Input struct {
	Values map[string]any
	// Text says that all values are texts of a form and take their types from
	// the schema.
	Text bool
	// Loose says that fields which mean nothing are dropped instead of refused.
	Loose bool
	// Hidden are values of hidden fields, which an API has made itself. They are set at a
	// creation.
	Hidden map[string]any
	// Accept, if set, refuses what a caller gave although the schema accepts it. It sees nothing else, so that it
	// may do what costs more with longer values.
	Accept func(given map[string]any) error
}

// Outcome is a write that was committed; it is empty if it was not. When it
// comes with an error, only the publication failed.
type Outcome struct {
	Resource *model.Resource
	// Inlined is what [Gate.Inlined] adds to the entity, as of this write. One referrer
	// that cannot be decoded does not refuse it.
	Inlined map[string]any
	Commit  store.Commit
	// Dropped names the fields that [Input.Loose] has dropped.
	Dropped []fault.Violation
}

// take notes what a transaction has written.
func (o *Outcome) take(g *Gate, tx store.Tx, r *model.Resource, w *model.Write) error {
	o.Resource, o.Inlined, o.Dropped = r, map[string]any{}, w.Unknown
	_, err := g.Inlined(tx, r, o.Inlined)
	return err
}

// settled drops the resource of a transaction that was not committed.
func (o Outcome) settled(err error) (Outcome, error) {
	if err != nil && len(o.Commit.Changes) == 0 {
		return Outcome{}, err
	}
	return o, err
}

// Create stores a new resource of a.Kind; a.Key and a.Of are not used.
func (g *Gate) Create(ctx context.Context, a Address, in Input) (Outcome, error) {
	return g.CreateWith(ctx, a, in, nil)
}

// CreateWith is Create. also, if set, writes in the same transaction what must not be missing beside
// the new resource. Like the transaction, it may run more than once.
func (g *Gate) CreateWith(ctx context.Context, a Address, in Input, also func(tx store.Tx, created *model.Resource) error) (Outcome, error) {
	in, err := g.owned(ctx, a, in)
	if err != nil {
		return Outcome{}, err
	}
	w, err := g.Prepare(a.Kind, model.OpCreate, in, nil)
	if err != nil {
		return Outcome{}, err
	}
	var out Outcome
	out.Commit, err = g.write(ctx, a.Kind.Class, func(tx store.Tx) (model.Key, error) {
		created, err := g.create(tx, a, w, "")
		if err == nil && also != nil {
			err = also(tx, created)
		}
		if err != nil {
			return model.Key{}, err
		}
		return created.Key(), out.take(g, tx, created, w)
	})
	return out.settled(err)
}

// Replace stores a whole resource under its address, whether it exists or not.
// Fields that are not given return to their defaults, apart from those that
// [model.Field.Keep] says stay. A resource of another owner than the one that it
// is addressed under does not exist there: nothing takes it over. When another
// writer comes between, the replacement is made anew.
func (g *Gate) Replace(ctx context.Context, a Address, in Input) (Outcome, error) {
	in, err := g.owned(ctx, a, in)
	if err != nil {
		return Outcome{}, err
	}
	if a.Of != nil {
		res, err := g.read(ctx, a)
		if err != nil {
			return Outcome{}, err
		}
		a = Address{Kind: a.Kind, Scope: a.Scope, Key: res.Name}
	}
	delete(in.Values, model.FieldID)
	if key := a.Kind.Schema.Key; key != "" && !model.IsUUID(a.Key) {
		in.Values[key] = a.Key
	}
	return g.again(ctx, a, func() (Outcome, error) { return g.replace(ctx, a, in) })
}

func (g *Gate) replace(ctx context.Context, a Address, in Input) (Outcome, error) {
	stored, err := g.occupant(ctx, a)
	if err != nil {
		return Outcome{}, err
	}
	var old map[string]any
	if stored != nil {
		if old, err = stored.Entity(); err != nil {
			return Outcome{}, err
		}
	}
	w, err := g.Prepare(a.Kind, model.OpReplace, in, old)
	if err != nil {
		return Outcome{}, err
	}
	var out Outcome
	out.Commit, err = g.write(ctx, a.Kind.Class, func(tx store.Tx) (model.Key, error) {
		written, err := g.put(tx, a, w, stored)
		if err != nil {
			return model.Key{}, err
		}
		return written.Key(), out.take(g, tx, written, w)
	})
	return out.settled(err)
}

// occupant is the resource that a replacement would replace; nil if there is
// none, and then one can be created under the address. It is NotFound if the
// resource has another owner.
func (g *Gate) occupant(ctx context.Context, a Address) (res *model.Resource, err error) {
	err = g.store.View(ctx, func(r store.Reader) error {
		res, err = occupantOf(r, a)
		return err
	})
	return res, err
}

func occupantOf(r store.Reader, a Address) (*model.Resource, error) {
	owner, within := "", ""
	if a.Under != nil {
		o, err := Lookup(r, a.Under.Address)
		if err != nil {
			return nil, err
		}
		if owner = o.Name; a.Under.Ref == a.Kind.Schema.KeyUnder {
			within = owner
		}
	}
	res, err := find(r, a, within)
	if fault.Is(err, fault.NotFound) && a.Twin != "" {
		res, err = twin(r, a, owner)
	}
	switch {
	case fault.Is(err, fault.NotFound) && a.Kind.Schema.Key == "" && !model.IsUUID(a.Key):
		return nil, err // nothing can be created under such a key
	case fault.Is(err, fault.NotFound):
		return nil, nil //nolint:nilnil // nil is nobody
	case err != nil:
		return nil, err
	}
	if a.Under != nil {
		if id, ok := refOf(res, a.Under.Ref); !ok || id != owner {
			return nil, missing(a.Kind, model.FieldID, a.Key)
		}
	}
	return res, nil
}

// Patch merges into the stored resource: records field by field, everything
// else as a whole. When another writer comes between, it merges anew.
func (g *Gate) Patch(ctx context.Context, a Address, in Input) (Outcome, error) {
	return g.PatchIf(ctx, a, in, nil)
}

// A Condition says in the transaction of a write whether a stored resource may be changed; nil allows
// it. Its error undoes the write. Like the transaction, it may run more than once.
type Condition func(tx store.Reader, stored *model.Resource) error

func (c Condition) check(tx store.Reader, stored *model.Resource) error {
	if c == nil {
		return nil
	}
	return c(tx, stored)
}

// PatchIf is Patch under a condition.
func (g *Gate) PatchIf(ctx context.Context, a Address, in Input, may Condition) (Outcome, error) {
	in, err := g.owned(ctx, a, in)
	if err != nil {
		return Outcome{}, err
	}
	return g.again(ctx, a, func() (Outcome, error) { return g.patch(ctx, a, in, may) })
}

func (g *Gate) patch(ctx context.Context, a Address, in Input, may Condition) (Outcome, error) {
	stored, err := g.read(ctx, a)
	if err != nil {
		return Outcome{}, err
	}
	old, err := stored.Entity()
	if err != nil {
		return Outcome{}, err
	}
	w, err := g.Prepare(a.Kind, model.OpPatch, in, old)
	if err != nil {
		return Outcome{}, err
	}
	if id, ok := w.New[model.FieldID].(string); ok && !strings.EqualFold(id, stored.Name) {
		return Outcome{}, fault.Violated([]fault.Violation{{Path: model.FieldID, Message: "cannot be changed"}})
	}
	var out Outcome
	out.Commit, err = g.write(ctx, model.Config, func(tx store.Tx) (model.Key, error) {
		if err := may.check(tx, stored); err != nil {
			return model.Key{}, err
		}
		updated, err := g.merge(tx, a, w, stored)
		if err != nil {
			return model.Key{}, err
		}
		return updated.Key(), out.take(g, tx, updated, w)
	})
	return out.settled(err)
}

// merge is the transaction of patch.
func (g *Gate) merge(tx store.Tx, a Address, w *model.Write, stored *model.Resource) (*model.Resource, error) {
	r, err := g.resource(tx, a, w)
	if err != nil {
		return nil, err
	}
	r.Name = stored.Name
	if err := Cross(tx, r); err != nil {
		return nil, err
	}
	updated, err := tx.Update(r, stored.Version)
	if err != nil {
		return nil, err
	}
	return updated, g.inline(tx, updated, w)
}

// Delete removes the resource at an address, and its dependents by cascade. One that
// cannot be decoded goes, too, unless it is addressed through others: whether it belongs
// to them cannot be seen. That something which gateways accept is not there is said only after it is true for
// them, too: Unavailable comes before NotFound. A rehearsal says nothing of that kind, and
// waits for nobody.
func (g *Gate) Delete(ctx context.Context, a Address) (store.Commit, error) {
	return g.DeleteIf(ctx, a, nil)
}

// DeleteIf is Delete under a condition.
func (g *Gate) DeleteIf(ctx context.Context, a Address, may Condition) (store.Commit, error) {
	commit, err := g.delete(ctx, a, may)
	if fault.Is(err, fault.NotFound) && g.takesCredentials(a.Kind) && !Rehearsed(ctx) {
		if unsettled := g.Settle(ctx, scopesOf(a)...); unsettled != nil {
			return commit, unsettled
		}
	}
	return commit, err
}

// scopesOf lists the scopes in which something is looked for that gateways accept; none if it
// may be anywhere.
func scopesOf(a Address) []string {
	if a.Kind.Scoping != model.ControlPlane {
		return nil
	}
	return []string{a.Scope}
}

func (g *Gate) delete(ctx context.Context, a Address, may Condition) (store.Commit, error) {
	return g.write(ctx, model.Config, func(tx store.Tx) (model.Key, error) {
		res, err := Lookup(tx, a)
		if bare := store.UnreadIn(err); bare != nil && bare.Kind == a.Kind && a.Under == nil && a.Of == nil {
			res, err = bare, nil
		}
		if err == nil {
			err = may.check(tx, res)
		}
		if err != nil {
			return model.Key{}, err
		}
		return res.Key(), tx.Delete(res.Kind, res.Scope, res.Name, 0)
	})
}

func (g *Gate) read(ctx context.Context, a Address) (res *model.Resource, err error) {
	err = g.store.View(ctx, func(r store.Reader) error {
		res, err = Lookup(r, a)
		return err
	})
	return res, err
}

// owned sets the reference that the address demands. Whether the owner still
// exists when the transaction runs is for the store to say.
func (g *Gate) owned(ctx context.Context, a Address, in Input) (Input, error) {
	in.Values = maps.Clone(in.Values)
	if in.Values == nil {
		in.Values = map[string]any{}
	}
	if a.Under == nil {
		return in, nil
	}
	owner, err := g.read(ctx, a.Under.Address)
	if err != nil {
		return in, err
	}
	if f := a.Kind.Schema.Field(a.Under.Ref); f != nil {
		delete(in.Values, f.Flat)
	}
	in.Values[a.Under.Ref] = map[string]any{model.FieldID: owner.Name}
	return in, nil
}

// Prepare does everything that needs no transaction: it types, completes,
// validates and settles what a caller sent. old is the stored entity, nil for
// model.OpCreate. What it refers to is not looked at.
func (g *Gate) Prepare(k *model.Kind, op model.Op, in Input, old map[string]any) (*model.Write, error) {
	s := k.Schema
	values := in.Values
	if in.Text {
		var known map[string]any
		if op == model.OpPatch {
			known = old
		}
		values = s.TypeText(values, known)
	}
	process := s.Process
	if in.Loose {
		process = s.ProcessLoosely
	}
	w, err := process(op, values, old)
	if err == nil && in.Accept != nil {
		err = in.Accept(w.Given)
	}
	if err != nil {
		return nil, err
	}
	if op == model.OpCreate {
		maps.Copy(w.New, in.Hidden)
	}
	if s.Settle != nil {
		if err := s.Settle(w, g.now()); err != nil {
			return nil, fmt.Errorf("settle a %s: %w", k.Name, err)
		}
	}
	return w, nil
}

// put replaces the resource that was read, or creates one if there was none. It
// is a conflict if that has changed meanwhile.
func (g *Gate) put(tx store.Tx, a Address, w *model.Write, stored *model.Resource) (*model.Resource, error) {
	existing, err := occupantOf(tx, a)
	switch {
	case err != nil:
		return nil, err
	case (existing == nil) != (stored == nil), existing != nil && (existing.Name != stored.Name || existing.Version != stored.Version):
		return nil, fault.New(fault.Conflict, "the resource has changed in the meantime")
	case existing == nil && model.IsUUID(a.Key):
		return g.create(tx, a, w, strings.ToLower(a.Key))
	case existing == nil:
		return g.create(tx, a, w, "")
	}
	r, err := g.resource(tx, a, w)
	if err != nil {
		return nil, err
	}
	r.Name = existing.Name
	if r.Created.IsZero() {
		r.Created = g.now()
	}
	if err := Cross(tx, r); err != nil {
		return nil, err
	}
	updated, err := tx.Update(r, existing.Version)
	if err != nil {
		return nil, err
	}
	return updated, g.inline(tx, updated, w)
}

// create stores a new resource under the given name, else the one that the
// entity states, else a new one.
func (g *Gate) create(tx store.Tx, a Address, w *model.Write, name string) (*model.Resource, error) {
	r, err := g.resource(tx, a, w)
	if err != nil {
		return nil, err
	}
	if r.Name = name; name == "" {
		stated, _ := w.New[model.FieldID].(string)
		r.Name = strings.ToLower(stated)
	}
	if r.Name == "" {
		r.Name = uuid.NewString()
	}
	if r.Created.IsZero() {
		r.Created = g.now()
	}
	if err := Cross(tx, r); err != nil {
		return nil, err
	}
	stored, err := tx.Create(r)
	if err != nil {
		return nil, err
	}
	for i := range a.Kind.Schema.Fields {
		f := &a.Kind.Schema.Fields[i]
		if f.Announce && w.Given[f.Name] != nil {
			tx.Announce(stored.Key(), store.Created)
		}
	}
	return stored, g.inline(tx, stored, w)
}

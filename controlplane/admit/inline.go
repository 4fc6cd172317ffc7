package admit

import (
	"maps"
	"slices"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// inline makes the referrers of a resource agree with the lists of its inlined fields. It
// deletes what is not in a list, creates what is new, and changes the rest only if its
// spelling differs. A field that was not given changes nothing.
func (g *Gate) inline(tx store.Tx, r *model.Resource, w *model.Write) error {
	for i := range r.Kind.Schema.Fields {
		f := &r.Kind.Schema.Fields[i]
		if _, given := w.Given[f.Name]; f.Inline == nil || !given {
			continue
		}
		listed, _ := w.New[f.Name].([]any)
		if err := g.list(tx, r, f.Inline, listed); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gate) list(tx store.Tx, r *model.Resource, in *model.Inline, listed []any) error {
	kind := g.kinds[in.To]
	if kind == nil {
		return fault.New(fault.Internal, "the kind %s is not known", in.To)
	}
	have, err := tx.List(kind, store.Query{Scope: r.Scope, Index: in.Ref, Value: r.Name})
	if err != nil {
		return err
	}
	wanted := map[string]any{}
	for _, name := range slices.Backward(listed) { // the first of several spellings counts
		wanted[fold(kind, name)] = name
	}
	for _, res := range have {
		entity, err := res.Entity()
		if err != nil {
			return err
		}
		key := fold(kind, entity[kind.Schema.Key])
		name, stays := wanted[key]
		delete(wanted, key)
		switch {
		case !stays:
			err = tx.Delete(kind, res.Scope, res.Name, 0)
		case name != entity[kind.Schema.Key]:
			err = respell(tx, res, entity, name)
		}
		if err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if err := g.refer(tx, r, kind, in.Ref, wanted[key]); err != nil {
			return err
		}
	}
	return nil
}

// respell stores another spelling of a resource's key.
func respell(tx store.Tx, res *model.Resource, entity map[string]any, name any) error {
	entity[res.Kind.Schema.Key] = name
	spec, err := res.Kind.Fill(entity)
	if err != nil {
		return err
	}
	_, err = tx.Update(&model.Resource{Kind: res.Kind, Scope: res.Scope, Name: res.Name, Spec: spec}, res.Version)
	return err
}

// refer creates a resource that refers to r and has a name as its key.
func (g *Gate) refer(tx store.Tx, r *model.Resource, kind *model.Kind, ref string, name any) error {
	values := map[string]any{kind.Schema.Key: name, ref: map[string]any{model.FieldID: r.Name}}
	w, err := g.Prepare(kind, model.OpCreate, Input{Values: values}, nil)
	if err != nil {
		return err
	}
	_, err = g.create(tx, Address{Kind: kind, Scope: r.Scope}, w, uuid.NewString())
	return err
}

// fold returns the value of a kind's key in the form of its index.
func fold(k *model.Kind, key any) string {
	text, _ := key.(string)
	if k.Schema.KeyIndex == nil {
		return text
	}
	return k.Schema.KeyIndex(text)
}

// HasInlined reports whether entities of a kind show their referrers.
func HasInlined(k *model.Kind) bool {
	return slices.ContainsFunc(k.Schema.Fields, func(f model.Field) bool { return f.Inline != nil })
}

// Inlined adds the referrers of a resource to its entity. Referrers that cannot be decoded
// are left out and returned.
func (g *Gate) Inlined(r store.Reader, res *model.Resource, out map[string]any) (unread []*model.Resource, err error) {
	for i := range res.Kind.Schema.Fields {
		f := &res.Kind.Schema.Fields[i]
		if f.Inline == nil {
			continue
		}
		kind := g.kinds[f.Inline.To]
		if kind == nil {
			return nil, fault.New(fault.Internal, "the kind %s is not known", f.Inline.To)
		}
		referrers, err := store.ListAll(r, kind, store.Query{Scope: res.Scope, Index: f.Inline.Ref, Value: res.Name})
		if err != nil {
			return nil, err
		}
		names := make([]string, 0, len(referrers))
		for _, referrer := range referrers {
			if store.IsUnread(referrer) {
				unread = append(unread, referrer)
				continue
			}
			entity, err := referrer.Entity()
			if err != nil {
				return nil, err
			}
			if name, ok := entity[kind.Schema.Key].(string); ok {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		out[f.Name] = names
	}
	return unread, nil
}

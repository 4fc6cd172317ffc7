package admit

import (
	"maps"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Unresolved is the subject of Dangling errors of references that were given by a unique
// field instead of an id.
type Unresolved struct {
	// Field is the name of the reference, such as service.
	Field string
	To    *model.Kind
	// Index and Value are the unique field and its value.
	Index, Value string
}

// resource makes the stored form of an admitted entity, with references resolved to ids. The
// caller sets Name.
func (g *Gate) resource(r store.Reader, a Address, w *model.Write) (*model.Resource, error) {
	entity := maps.Clone(w.New)
	s := a.Kind.Schema
	for i := range s.Fields {
		f := &s.Fields[i]
		ref, ok := entity[f.Name].(map[string]any)
		if !ok || f.Type != model.Foreign || ref[model.FieldID] != nil {
			continue
		}
		id, err := g.resolve(r, a.Scope, f, ref)
		if err != nil {
			return nil, err
		}
		entity[f.Name] = map[string]any{model.FieldID: id}
	}
	spec, err := a.Kind.Fill(entity)
	if err != nil {
		return nil, err
	}
	res := &model.Resource{Kind: a.Kind, Scope: a.Scope, Spec: spec}
	if w.Op != model.OpPatch || w.Given[model.FieldCreated] != nil {
		res.Created = s.Created(w.New)
	}
	return res, nil
}

// resolve finds the target of a reference by a unique field.
func (g *Gate) resolve(r store.Reader, scope string, f *model.Field, ref map[string]any) (string, error) {
	for name, value := range ref {
		text, _ := value.(string)
		to := g.kinds[f.To]
		if to == nil || !Resolvable(to, name) {
			return "", fault.Violated([]fault.Violation{{Path: f.Name + "." + name, Message: model.TextUnknown}})
		}
		target, err := r.Find(to, scope, name, text)
		if fault.Is(err, fault.NotFound) {
			return "", fault.New(fault.Dangling, "a reference cannot be resolved").
				With(Unresolved{Field: f.Name, To: to, Index: name, Value: text})
		}
		if err != nil {
			return "", err
		}
		return target.Name, nil
	}
	return "", fault.New(fault.Internal, "a reference without content was admitted")
}

// Resolvable reports whether an index can identify resources of a kind in a reference. It
// must be a field that is not secret.
func Resolvable(k *model.Kind, index string) bool {
	for i := range k.Unique {
		if k.Unique[i].Name == index {
			return !k.Unique[i].Secret && k.Schema.Field(index) != nil
		}
	}
	return false
}

// Cross checks a resource against others in the transaction.
func Cross(tx store.Tx, r *model.Resource) error {
	if r.Kind.Schema.Cross == nil {
		return nil
	}
	violations, err := r.Kind.Schema.Cross(tx, r)
	if err != nil {
		return err
	}
	return fault.Violated(violations)
}

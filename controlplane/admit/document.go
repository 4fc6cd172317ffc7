package admit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Hook accompanies the documents of a kind. It creates and deletes resources together with
// them, and checks rules that need more than a read. Its transactional methods may run more
// than once, like the transaction. An Invalid fault from any method refuses the write.
type Hook interface {
	// Prepare does slow work, such as making keys, before the transaction. The state of r may
	// be outdated when the transaction runs. Its result is passed to Stored.
	Prepare(ctx context.Context, r store.Reader, name string, spec any) (any, error)
	// Stored runs after the document was written; old is nil at a creation.
	Stored(tx store.Tx, old, stored *model.Resource, prepared any) error
	// Deleting runs before the document is deleted. Its spec may be a [store.Unread].
	Deleting(tx store.Tx, r *model.Resource) error
}

// Hook adds a hook for the documents of a kind. It must be called before the
// gate is used.
func (g *Gate) Hook(k *model.Kind, h Hook) {
	g.hooks[k] = append(g.hooks[k], h)
}

// CheckDocument completes a spec, which it may change, and returns all violations of the spec
// as one Invalid fault. It does not look at other resources. Completing twice has no further
// effect.
func (g *Gate) CheckDocument(k *model.Kind, spec any) error {
	if k.Document == nil {
		return fault.New(fault.Internal, "%s is not written as documents", k.Name)
	}
	// A document as it was shown to somebody who may not see its secrets would destroy them.
	if vs, err := model.FindConcealed(k, spec); err != nil || len(vs) > 0 {
		return cmp.Or(err, fault.Violated(vs))
	}
	if k.Document.Default != nil {
		k.Document.Default(spec)
	}
	if k.Document.Validate == nil {
		return nil
	}
	return fault.Violated(k.Document.Validate(g.CompleteDocument(k, spec)))
}

// PutDocument checks a document and creates or replaces it, together with the resources of
// its hooks, in one transaction. The transaction reads the mesh of a mesh-scoped document, so
// that nothing is stored in a mesh that is being deleted: the error is then NotFound with
// [Missing] of the mesh as subject.
//
// A document that a node sends again unchanged is not written again. A node that repeats it
// in a loop would otherwise cause a revision and a round of planning each time.
func (g *Gate) PutDocument(ctx context.Context, k *model.Kind, scope, name string, spec any) (out Outcome, created bool, err error) {
	return g.putDocument(ctx, documentWrite{kind: k, scope: scope, name: name, spec: spec})
}

// Allowed decides in the transaction of a write whether the stored document may be replaced
// or deleted. stored is nil if there is none, and r shows the rest of the state. A document
// that is deleted may have a [store.Unread] as its spec. Like the transaction, it may run
// more than once. Its error refuses the write.
type Allowed func(r store.Reader, stored *model.Resource) error

// PutDocumentIf is PutDocument for callers that may replace only some documents.
func (g *Gate) PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed Allowed) (out Outcome, created bool, err error) {
	return g.putDocument(ctx, documentWrite{kind: k, scope: scope, name: name, spec: spec, allowed: allowed})
}

// EnsureDocument creates a document unless one of its name exists, and reports whether it
// did. An existing document is left as it is.
func (g *Gate) EnsureDocument(ctx context.Context, k *model.Kind, scope, name string, spec any) (created bool, err error) {
	err = g.store.View(ctx, func(r store.Reader) error {
		_, err := r.Get(k, scope, name)
		return err
	})
	if !fault.Is(err, fault.NotFound) {
		return false, err
	}
	_, created, err = g.putDocument(ctx, documentWrite{kind: k, scope: scope, name: name, spec: spec, keep: true})
	return created, err
}

// documentWrite is one write.
type documentWrite struct {
	kind        *model.Kind
	scope, name string
	spec        any
	// keep leaves an existing document as it is.
	keep bool
	// once leaves an existing document as it is if it is equal.
	once bool
	// allowed, if set, may refuse the write.
	allowed Allowed
}

func (g *Gate) putDocument(ctx context.Context, d documentWrite) (out Outcome, created bool, err error) {
	if err := g.CheckDocument(d.kind, d.spec); err != nil {
		return Outcome{}, false, err
	}
	if err := fault.Violated(model.ValidateLabels(model.LabelsOf(d.spec), d.scope)); err != nil {
		return Outcome{}, false, err
	}
	d.spec = g.CompleteDocument(d.kind, d.spec)
	who, _ := model.ActorOf(ctx)
	d.once = who.Kind == model.ActorNode
	prepared, err := g.prepareHooks(ctx, d)
	if err != nil {
		return Outcome{}, false, err
	}
	out.Commit, err = g.write(ctx, d.kind.Class, func(tx store.Tx) (model.Key, error) {
		out.Resource, created, err = g.storeDocument(tx, d, prepared)
		return model.Key{Kind: d.kind.Name, Scope: d.scope, Name: d.name}, err
	})
	if out, err = out.settled(err); out.Resource == nil {
		created = false
	}
	return out, created, err
}

func (g *Gate) prepareHooks(ctx context.Context, d documentWrite) ([]any, error) {
	hooks := g.hooks[d.kind]
	if len(hooks) == 0 {
		return nil, nil
	}
	prepared := make([]any, len(hooks))
	err := g.store.View(ctx, func(r store.Reader) (err error) {
		for i, h := range hooks {
			if prepared[i], err = h.Prepare(ctx, r, d.name, d.spec); err != nil {
				return err
			}
		}
		return nil
	})
	return prepared, err
}

// storeDocument is the transaction of putDocument.
func (g *Gate) storeDocument(tx store.Tx, d documentWrite, prepared []any) (stored *model.Resource, created bool, err error) {
	if err := g.inMesh(tx, d.kind, d.scope); err != nil {
		return nil, false, err
	}
	old, err := tx.Get(d.kind, d.scope, d.name)
	switch {
	case fault.Is(err, fault.NotFound):
		old, created = nil, true
	case err != nil:
		return nil, false, err
	case d.keep:
		return old, false, nil
	}
	if d.allowed != nil {
		if err := d.allowed(tx, old); err != nil {
			return nil, false, err
		}
	}
	if err := fault.Violated(model.ValidateName(d.name, created)); err != nil {
		return nil, false, err
	}
	if keep := d.kind.Document.Keep; keep != nil {
		d.spec = keep(old, d.spec)
	}
	r := &model.Resource{Kind: d.kind, Scope: d.scope, Name: d.name, Spec: d.spec}
	if cross := d.kind.Document.Cross; cross != nil {
		violations, err := cross(tx, old, r)
		if err != nil {
			return nil, false, err
		}
		if err := fault.Violated(violations); err != nil {
			return nil, false, err
		}
	}
	switch {
	case created:
		stored, err = tx.Create(r)
	case d.once && same(old.Spec, d.spec):
		return old, false, nil
	default:
		stored, err = tx.Update(r, old.Version)
	}
	if err != nil {
		return nil, false, err
	}
	for i, h := range g.hooks[d.kind] {
		if err := h.Stored(tx, old, stored, prepared[i]); err != nil {
			return nil, false, err
		}
	}
	return stored, created, nil
}

// same reports whether two specs have the same stored form.
func same(a, b any) bool {
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && bytes.Equal(x, y)
}

// inMesh checks that the mesh of a mesh-scoped document exists.
func (g *Gate) inMesh(r store.Reader, k *model.Kind, scope string) error {
	if k.Scoping != model.Mesh {
		return nil
	}
	meshes := g.kinds[model.MeshKind]
	if meshes == nil {
		return fault.New(fault.Internal, "the gate knows no meshes")
	}
	_, err := existing(r, meshes, "", scope)
	return err
}

// existing returns a document; NotFound has [Missing] as subject.
func existing(r store.Reader, k *model.Kind, scope, name string) (*model.Resource, error) {
	res, err := r.Get(k, scope, name)
	if fault.Is(err, fault.NotFound) {
		return nil, missing(k, "name", name)
	}
	return res, err
}

// DeleteDocument deletes a document and what its hooks delete with it, even if the document
// or its mesh cannot be decoded. NotFound has [Missing] of the mesh or of the document as
// subject.
func (g *Gate) DeleteDocument(ctx context.Context, k *model.Kind, scope, name string) (store.Commit, error) {
	return g.DeleteDocumentIf(ctx, k, scope, name, func(store.Reader, *model.Resource) error { return nil })
}

// DeleteDocumentIf is DeleteDocument for callers that may delete only some documents.
func (g *Gate) DeleteDocumentIf(ctx context.Context, k *model.Kind, scope, name string, allowed Allowed) (store.Commit, error) {
	subject := model.Key{Kind: k.Name, Scope: scope, Name: name}
	return g.write(ctx, model.Config, func(tx store.Tx) (model.Key, error) {
		if err := g.inMesh(tx, k, scope); err != nil && store.UnreadIn(err) == nil {
			return subject, err
		}
		r, err := existing(tx, k, scope, name)
		if bare := store.UnreadIn(err); bare != nil {
			r, err = bare, nil
		}
		if err != nil {
			return subject, err
		}
		if err := allowed(tx, r); err != nil {
			return subject, err
		}
		for _, h := range g.hooks[k] {
			if err := h.Deleting(tx, r); err != nil {
				return subject, err
			}
		}
		return subject, tx.Delete(k, scope, name, 0)
	})
}

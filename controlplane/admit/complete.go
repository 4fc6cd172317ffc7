package admit

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Completion returns a spec with what this control plane knows better than its author. It does not write
// to the spec, and returns the same one where nothing has to change.
type Completion func(spec any) any

// Complete has the documents of a kind completed before they are judged and stored, whoever writes them. It
// must be called before the gate is used, once for a kind.
func (g *Gate) Complete(k *model.Kind, c Completion) { g.completions[k] = c }

// CompleteDocument returns a spec as it is stored, for callers that judge it by themselves.
func (g *Gate) CompleteDocument(k *model.Kind, spec any) any {
	if c := g.completions[k]; c != nil {
		return c(spec)
	}
	return spec
}

// recompleted is how many documents one transaction of CompleteStored reads. Others may write between two
// transactions.
const recompleted = 500

// CompleteStored completes the documents of a scope that were stored by a control plane which knew
// something else. Like those of AmendDocument they are not judged again, so kinds with hooks are refused.
// What cannot be decoded stays as it is.
func (g *Gate) CompleteStored(ctx context.Context, k *model.Kind, scope string) error {
	if k.Document == nil || len(g.hooks[k]) > 0 {
		return fault.New(fault.Internal, "changes of a %s have to be judged", k.Name)
	}
	if g.completions[k] == nil {
		return nil
	}
	var names []string
	err := g.store.View(ctx, func(r store.Reader) error {
		stored, _, err := store.ListReadable(r, k, scope)
		for _, res := range stored {
			if g.CompleteDocument(k, res.Spec) != res.Spec {
				names = append(names, res.Name)
			}
		}
		return err
	})
	for err == nil && len(names) > 0 {
		n := min(recompleted, len(names))
		_, err = g.Write(ctx, k.Class, func(tx store.Tx) error { return g.completeStored(tx, k, scope, names[:n]) })
		names = names[n:]
	}
	return err
}

// completeStored is one transaction of CompleteStored.
func (g *Gate) completeStored(tx store.Tx, k *model.Kind, scope string, names []string) error {
	for _, name := range names {
		old, err := tx.Get(k, scope, name)
		if fault.Is(err, fault.NotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		spec := g.CompleteDocument(k, old.Spec)
		if spec == old.Spec {
			continue
		}
		if _, err := tx.Update(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}, old.Version); err != nil {
			return err
		}
	}
	return nil
}

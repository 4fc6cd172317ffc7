package admit

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// AmendDocument changes a part of a stored document that breaks no rule, whatever the rest of it
// says: the whole is not judged. It may have been stored by rules that are stricter today, those of
// its mesh or of this version, and what is found out about a proxy is true all the same. change
// returns the spec that takes the place of the stored one, which it must not write to; nil, or an equal
// one, leaves it. Like the transaction, change may run more than once. Kinds with hooks cannot be amended.
func (g *Gate) AmendDocument(ctx context.Context, k *model.Kind, scope, name string, change func(stored *model.Resource) (any, error)) (Outcome, error) {
	if k.Document == nil || len(g.hooks[k]) > 0 {
		return Outcome{}, fault.New(fault.Internal, "changes of a %s have to be judged", k.Name)
	}
	var out Outcome
	var err error
	out.Commit, err = g.write(ctx, k.Class, func(tx store.Tx) (model.Key, error) {
		subject := model.Key{Kind: k.Name, Scope: scope, Name: name}
		old, err := existing(tx, k, scope, name)
		if err != nil {
			return subject, err
		}
		out.Resource = old
		spec, err := change(old)
		if err != nil || spec == nil || same(old.Spec, spec) {
			return subject, err
		}
		out.Resource, err = tx.Update(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}, old.Version)
		return subject, err
	})
	return out.settled(err)
}

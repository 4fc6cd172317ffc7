package cloudapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// batch bounds what one transaction deletes of a control plane, so that others can write meanwhile.
// A variable for tests.
var batch = 500

// errBatch ends the transaction that would delete more than a batch.
var errBatch = errors.New("more is left than one transaction deletes")

// remove deletes a control plane and what belongs to it. What fits into one transaction is deleted by
// one. Otherwise a first one marks the control plane, which nothing joins from then on, so that what
// follows is not refused any more; entities go in batches, and the control plane with the last of
// them: there is nothing without its control plane. What a gateway serves is not deleted, and neither
// is what a group consists of.
func (p planes) remove(w http.ResponseWriter, r *http.Request) {
	id := p.address(r).Key
	err := p.view(r, func(store.Reader, *model.Resource) error { return nil })
	begun := false
	if err == nil {
		connected := p.connected(cloud.ScopeOf(id)) // ahead of the transactions, which keep others from writing
		if err = p.delete(r.Context(), id, connected); errors.Is(err, errBatch) {
			// Anew: a gateway may have come while the first transaction waited for others.
			err = p.end(r.Context(), id, p.connected(cloud.ScopeOf(id)))
			begun = err == nil
		}
	}
	if begun {
		err = p.rest(r.Context(), id)
	}
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case begun:
		httpkit.EntryOf(r.Context()).Cause = err
		p.api.fail(w, r, &problem{Status: http.StatusServiceUnavailable, Title: titleUnavailable, Detail: "The control plane is deleted in part: repeat the request"}, p.Collection)
	default:
		p.api.fail(w, r, err, p.Collection)
	}
}

// removable refuses, in the transaction of a deletion, what is still needed: a control plane has so many
// connected gateways. What is deleted in part already is not.
func (p planes) removable(tx store.Tx, id string, connected int) (*model.Resource, error) {
	plane, err := tx.Get(cloud.ControlPlanes, "", id)
	if err != nil || plane.Spec.(*cloud.ControlPlane).Ending {
		return plane, err
	}
	if id == cloud.DefaultID {
		return nil, conflicting("The first control plane cannot be deleted")
	}
	if connected > 0 {
		return nil, conflicting("The control plane has connected data plane nodes")
	}
	groups, err := tx.List(cloud.Groups, store.Query{Index: cloud.IndexMembers, Value: id})
	if err == nil && len(groups) > 0 {
		err = conflicting("The control plane is a member of a group: remove it from " + groups[0].Name + " first")
	}
	return plane, err
}

// end marks a control plane as one that is being deleted.
func (p planes) end(ctx context.Context, id string, connected int) error {
	_, err := p.api.Gate.Write(ctx, model.Config, func(tx store.Tx) error {
		plane, err := p.removable(tx, id, connected)
		if err != nil || plane.Spec.(*cloud.ControlPlane).Ending {
			return err
		}
		spec := *plane.Spec.(*cloud.ControlPlane)
		spec.Ending = true
		_, err = tx.Update(&model.Resource{Kind: cloud.ControlPlanes, Name: id, Spec: &spec}, plane.Version)
		return err
	})
	return err
}

func conflicting(detail string) *problem {
	return &problem{Status: http.StatusConflict, Title: titleConflict, Detail: detail}
}

// scoped are the kinds of what a control plane has, each before those that it refers to: so nothing
// is still referred to when its turn comes, and little goes by cascade.
func scoped(all []*model.Kind) []*model.Kind {
	by := map[string][]*model.Kind{}
	for _, k := range all {
		for _, ref := range k.Refs {
			by[ref.To] = append(by[ref.To], k)
		}
		for _, hold := range k.Holds {
			by[hold.To] = append(by[hold.To], k)
		}
	}
	var depth func(k *model.Kind) int
	depth = func(k *model.Kind) (d int) {
		for _, from := range by[k.Name] {
			if from != k {
				d = max(d, depth(from)+1)
			}
		}
		return d
	}
	out := slices.DeleteFunc(slices.Clone(all), func(k *model.Kind) bool { return k.Scoping != model.ControlPlane })
	slices.SortFunc(out, func(a, b *model.Kind) int { return cmp.Or(depth(a)-depth(b), cmp.Compare(a.Name, b.Name)) })
	return out
}

// delete deletes a control plane of which at most a batch is left.
func (p planes) delete(ctx context.Context, id string, connected int) error {
	_, err := p.api.Gate.Write(ctx, model.Config, func(tx store.Tx) error {
		_, err := p.removable(tx, id, connected)
		if err == nil {
			err = empty(tx, scoped(p.api.Gate.Kinds()), cloud.ScopeOf(id))
		}
		if err != nil {
			return err
		}
		return tx.Delete(cloud.ControlPlanes, "", id, 0)
	})
	return err
}

// rest deletes a control plane whose deletion has begun. Somebody else may have finished it meanwhile.
func (p planes) rest(ctx context.Context, id string) error {
	for {
		err := p.thin(ctx, cloud.ScopeOf(id))
		if err == nil {
			err = p.delete(ctx, id, 0) // what has begun is not refused
		}
		switch {
		case fault.Is(err, fault.NotFound):
			return nil
		case !errors.Is(err, errBatch):
			return err
		}
	}
}

// thin deletes a batch of what a control plane has.
func (p planes) thin(ctx context.Context, scope string) error {
	_, err := p.api.Gate.Write(ctx, model.Config, func(tx store.Tx) error {
		if err := empty(tx, scoped(p.api.Gate.Kinds()), scope); !errors.Is(err, errBatch) {
			return err
		}
		return nil
	})
	return err
}

// empty deletes the entities of a scope. It ends with errBatch once a transaction has changed as many
// rows as a batch. What others name by a text goes in the second turn.
func empty(tx store.Tx, kinds []*model.Kind, scope string) (err error) {
	for range 2 {
		var left error
		for _, k := range kinds {
			rows, err := store.ListAll(tx, k, store.Query{Scope: scope, Limit: batch + 1})
			if err != nil {
				return err
			}
			for _, row := range rows {
				if len(tx.Changes()) >= batch {
					return errBatch
				}
				switch err := tx.Delete(k, scope, row.Name, 0); {
				case fault.Is(err, fault.Referenced):
					left = err
				case err != nil && !fault.Is(err, fault.NotFound): // it went with another one
					return err
				}
			}
		}
		if err = left; err == nil {
			return nil
		}
	}
	return err
}

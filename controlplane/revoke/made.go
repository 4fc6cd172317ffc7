package revoke

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/recall"
	"github.com/meshgate/meshgate/filter/contract"
)

// ownersOf returns a cache of the owners of tokens and of tombstones. Every commit that writes
// a tombstone announces what it is for; see [Revoker.Stage].
func ownersOf(s store.Store, subjects map[*model.Kind]Subject) *recall.Cache {
	var owners []*model.Kind
	for k, s := range subjects {
		if s.Is != contract.SubjectToken {
			owners = append(owners, k)
		}
	}
	return recall.New(s, owners...).Accompanied(tombstones)
}

// made returns the record of a token that was just created, made from the row that was
// committed, with the floors of its owners. ok is false unless the store has the revision of
// that commit still: no token or owner was changed or revoked since, because that takes a
// revision. It may be committed already, while the store does not say so yet. Then its
// publication comes after what is written now, because the caller holds turn.
func (k *keeper) made(ctx context.Context, q refill) (own *contract.Record, floors []cell, ok bool, err error) {
	if q.made == nil || k.r.o.Made == nil || k.r.o.Store.Revision() != q.revision {
		return nil, nil, false, nil
	}
	err = k.owners.View(ctx, func(r store.Reader) error {
		own, floors, ok = nil, nil, r.Revision() == q.revision
		if !ok {
			return nil
		}
		rec, err := k.r.o.Made(r, q.made)
		if err != nil || rec == nil {
			return err
		}
		own = k.own(rec, q.revision)
		floors, err = k.floorCells(r, q.scope, own)
		return err
	})
	return own, floors, ok, err
}

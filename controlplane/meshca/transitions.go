package meshca

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// position is the state of the rotation of a mesh.
type position struct {
	state *Authority
	// version is the version of the stored state.
	version uint64
	// revision is the revision of the trust that proxies must confirm.
	revision uint64
}

// transition returns the state after a, or a if there is no change. a is nil if there is no
// state yet. life is the life of certificates signed now, and version is the version of the
// stored a.
type transition func(a *Authority, life time.Duration, version uint64) *Authority

// decision is the result of a transition for a mesh.
type decision struct {
	// authority and trust are the stored resources.
	authority, trust *model.Resource
	old, next        *Authority
	// believe is the new trust, or nil if the stored one stays.
	believe *mesh.Trust
}

// decide returns nil for a mesh without mutual TLS or without a state.
func (r *Rotations) decide(s store.Reader, name string, change transition) (*decision, error) {
	res, err := s.Get(mesh.Meshes, "", name)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	backend := res.Spec.(*mesh.Mesh).Authority()
	if backend == nil {
		return nil, nil
	}
	d := &decision{}
	if d.authority, err = get(s, Authorities, name); err != nil {
		return nil, err
	}
	d.old, _ = d.authority.Spec.(*Authority)
	if d.next = change(d.old, r.LeafLife(backend), d.authority.Version); d.next == nil {
		return nil, nil
	}
	if d.trust, err = get(s, mesh.Trusts, name); err != nil {
		return nil, err
	}
	want := d.next.trust()
	if old, _ := d.trust.Spec.(*mesh.Trust); old == nil || old.Backend != want.Backend || old.Issuer != want.Issuer || !bytes.Equal(old.Roots, want.Roots) {
		d.believe = want
		if old != nil {
			want.Withdrawn = old.Withdrawn
			if withdraws(old.Roots, want.Roots) {
				want.Withdrawn++
			}
		}
	}
	return d, nil
}

// withdraws reports whether a root of one bundle is missing in another.
func withdraws(old, next []byte) bool {
	for block := range pemtext.Blocks(old) {
		if !bytes.Contains(next, pemtext.Encode(block.Type, block.Bytes)) {
			return true
		}
	}
	return false
}

func (d *decision) changes() bool { return d != nil && (d.next != d.old || d.believe != nil) }

// write stores the state and its trust.
func (d *decision) write(tx store.Tx) (err error) {
	if d.next != d.old {
		if d.authority, err = put(tx, d.authority, d.next); err != nil {
			return err
		}
	}
	if d.believe != nil {
		d.trust, err = put(tx, d.trust, d.believe)
	}
	return err
}

// apply makes a transition of a mesh, in one transaction if there is something to write. It
// returns nil for a mesh without mutual TLS or without a state.
func (r *Rotations) apply(ctx context.Context, name string, change transition) (*position, error) {
	var d *decision
	err := r.Store.View(ctx, func(s store.Reader) (err error) {
		d, err = r.decide(s, name, change)
		return err
	})
	var commit store.Commit
	if err == nil && d.changes() {
		commit, err = r.Writer.Write(ctx, model.Config, func(tx store.Tx) (err error) {
			if d, err = r.decide(tx, name, change); err != nil || !d.changes() {
				return err
			}
			return d.write(tx)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("change the authority of mesh %s: %w", name, err)
	}
	if d == nil {
		return nil, nil
	}
	at := &position{state: d.next, version: d.authority.Version, revision: d.trust.Revision}
	if d.believe != nil {
		at.revision = commit.Revision
	}
	if d.changes() {
		r.Log.Info("the authority of a mesh changed", "mesh", name, "phase", at.state.Phase, "issuer", identity.Issuer(at.state.Current.Certificate), "revision", at.revision)
	}
	return at, nil
}

// get returns the resource of a mesh. It has no spec if it does not exist.
func get(s store.Reader, k *model.Kind, name string) (*model.Resource, error) {
	res, err := s.Get(k, name, name)
	if fault.Is(err, fault.NotFound) {
		return &model.Resource{Kind: k, Scope: name, Name: name}, nil
	}
	return res, err
}

func put(tx store.Tx, stored *model.Resource, spec any) (*model.Resource, error) {
	res := &model.Resource{Kind: stored.Kind, Scope: stored.Scope, Name: stored.Name, Spec: spec}
	if stored.Spec == nil {
		return tx.Create(res)
	}
	return tx.Update(res, stored.Version)
}

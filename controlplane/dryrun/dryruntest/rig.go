// Package dryruntest has dry runs on real plans for tests: everything between a store and what
// nodes are sent.
package dryruntest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// Rig plans what is in a store. It reads nothing before the first node connects.
type Rig struct {
	*dryrun.Runner
	Snapshots *snapshot.Store
	begin     sync.Once
}

// parameters are those of every gateway.
type parameters struct{}

// Gateway implements publish.Parameters.
func (parameters) Gateway(context.Context, string) (edge.Params, error) {
	return edge.Params{Address: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443, OAuth: edge.Endpoint{Host: "127.0.0.1", Port: 5678}}, nil
}

// New returns a rig on a store, which must be closed after the test has ended. kinds are kinds of
// policies that exist beside those of the product, and are planned by nobody.
func New(t testing.TB, s store.Store, kinds ...*model.Kind) *Rig {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	views := view.New(s, slices.Concat(all.Kinds(), sidecar.LocatingKinds(), kinds), log)
	snapshots := snapshot.New()
	loop := publish.New(publish.Options{
		Views: views, Publisher: snapshots, Parameters: parameters{}, Policies: all.Policies(), Latest: s.Revision, Log: log,
	})
	t.Cleanup(views.Close)
	return &Rig{Runner: &dryrun.Runner{Loop: loop, Latest: s.Revision, Turns: turns.New(8), Others: turns.New(8)}, Snapshots: snapshots}
}

// Connect connects a node until the test ends.
func (r *Rig) Connect(t testing.TB, node string) {
	t.Helper()
	r.begin.Do(func() {
		ctx, stop := context.WithCancel(context.Background())
		ran := make(chan error, 1)
		go func() { ran <- r.Loop.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ran; err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	})
	release, err := r.Loop.Connect(t.Context(), node, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
}

// Settle waits until every node would be sent what was written last.
func (r *Rig) Settle(t testing.TB) {
	t.Helper()
	if err := r.Loop.Settled(t.Context(), r.Latest()); err != nil {
		t.Fatal(err)
	}
}

package dryrun_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/dryrun/dryruntest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
)

// TestAmongWriters: dry runs share batches of the database with real writes. Nothing of them is
// committed with these, and nothing of these is lost.
func TestAmongWriters(t *testing.T) {
	dir := t.TempDir()
	keys, err := seal.Make(filepath.Join(dir, "key"), "")
	if err != nil {
		t.Fatal(err)
	}
	kinds := slices.Concat(mesh.Kinds(), all.Kinds())
	db, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "db"), Kinds: kinds, Sealer: keys, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	rig := dryruntest.New(t, db)
	gate := admit.New(db, &admittest.Revoker{}, kinds, time.Now)
	ctx := model.WithActor(t.Context(), model.Administrator())
	write := func(ctx context.Context, fn func(store.Tx) error) error {
		_, err := gate.Write(ctx, model.Config, fn)
		return err
	}
	for _, fn := range []func(store.Tx) error{put(mesh.Meshes, meshName, &mesh.Mesh{}), put(mesh.Dataplanes, "web", dataplane(0, 1))} {
		if err := write(ctx, fn); err != nil {
			t.Fatal(err)
		}
	}
	rig.Connect(t, "m.web")
	begun := db.Revision()
	const writers, each = 4, 20
	var work sync.WaitGroup
	for w := range writers {
		work.Go(func() {
			for i := range each {
				if err := write(ctx, put(circuitbreaker.Kind, fmt.Sprintf("real-%d-%d", w, i), breaker("s-0", 7))); err != nil {
					t.Error(err)
				}
			}
		})
		work.Go(func() {
			for i := range each {
				if _, err := rig.Run(ctx, func(ctx context.Context) error {
					return write(ctx, put(circuitbreaker.Kind, fmt.Sprintf("tried-%d-%d", w, i), breaker("s-0", 7)))
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	if err := db.View(t.Context(), func(r store.Reader) error {
		stored, err := r.List(circuitbreaker.Kind, store.Query{Scope: meshName})
		if err != nil {
			return err
		}
		tried, err := r.Count(circuitbreaker.Kind, store.Query{Scope: meshName, Part: "tried"})
		if err != nil {
			return err
		}
		records, err := r.CountRecords(store.RecordQuery{})
		if len(stored) != writers*each || tried != 0 || r.Revision() != begun+writers*each || records != writers*each+2 {
			t.Errorf("%d stored, %d tried, revision %d after %d, %d records", len(stored), tried, r.Revision(), begun, records)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

package admit_test

import (
	"context"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestWriteNeedsActor: no write succeeds without an actor. The context's actor takes
// precedence over the gate's.
func TestWriteNeedsActor(t *testing.T) {
	s := memstore.New()
	var actors []string
	seen := &admittest.Revoker{OnPublish: func(ctx context.Context, _ store.Commit) error {
		a, _ := model.ActorOf(ctx)
		actors = append(actors, a.Name)
		return nil
	}}
	t.Cleanup(func() { _ = s.Close() })
	g := admit.New(s, seen, mesh.Kinds(), time.Now)
	put := func(ctx context.Context, g *admit.Gate) error {
		_, _, err := g.PutDocument(ctx, mesh.Meshes, "", "m", &mesh.Mesh{})
		return err
	}
	if err := put(t.Context(), g); !fault.Is(err, fault.Internal) || s.Revision() != 0 {
		t.Errorf("a write of nobody: %v, revision %d", err, s.Revision())
	}
	if err := put(model.WithActor(t.Context(), model.Actor{Kind: model.ActorUser}), g); !fault.Is(err, fault.Internal) {
		t.Errorf("a write of somebody without a name: %v", err)
	}
	for _, write := range []func() error{
		func() error { return put(model.WithActor(t.Context(), model.User("amy")), g) },
		func() error { return put(t.Context(), g.As(model.System("part"))) },
		func() error {
			return put(model.WithActor(t.Context(), model.Node("m.web")), g.As(model.System("part")))
		},
	} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	if len(actors) != 3 || actors[0] != "amy" || actors[1] != "part" || actors[2] != "m.web" {
		t.Errorf("published for %q", actors)
	}
}

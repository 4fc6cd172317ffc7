package publish

import (
	"context"
	"errors"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// hurried is a planner whose copy plans until nobody waits any more.
type hurried struct {
	zonePlanner
	copies bool
	end    func()
	plans  *int
}

func (h *hurried) Update(z *view.Zone) {
	if h.copies {
		*h.plans++
		h.end()
	}
	h.zonePlanner.Update(z)
}

func (h *hurried) copied() zonePlanner {
	return &hurried{h.zonePlanner.copied(), true, h.end, h.plans}
}

// TestForeseeingAZoneEnds: a dry run whose caller has left while the zone was planned without the write
// does not plan it with the write. Otherwise it would keep others waiting for their turn.
func TestForeseeingAZoneEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	db := memstore.New()
	loop := Begin(t, db, Options{Publisher: snapshot.New()}, nil)
	storetest.Put(t, db, mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 1}})
	release, err := loop.Connect(ctx, "zone/ingress/in", false)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	plans, p := 0, loop.openedZone()
	p.mu.Lock()
	p.planners[mesh.ProxyIngress] = &hurried{p.planners[mesh.ProxyIngress], false, cancel, &plans}
	p.mu.Unlock()
	undone := errors.New("undone")
	var im *Imagination
	var late []string
	if _, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error {
		if _, err := tx.Create(&model.Resource{Kind: mesh.ZoneIngresses, Name: "other", Spec: &mesh.ZoneIngress{
			Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 2},
		}}); err != nil {
			return err
		}
		im, late = loop.Imagine(view.DraftOf(tx), nil)
		return undone
	}); !errors.Is(err, undone) || len(late) > 0 {
		t.Fatal(err, late)
	}
	if _, err := loop.Foresee(ctx, im, 10); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever has left gets %v", err)
	}
	if plans != 1 {
		t.Errorf("the zone was planned %d times", plans)
	}
}

package publish

import (
	"errors"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// sickZone is a planner that panics at a zone with a mesh of the name sick, and from then on.
type sickZone struct {
	zonePlanner
	broken bool
}

func (s *sickZone) Update(z *view.Zone) {
	for name := range z.Meshes() {
		s.broken = s.broken || name == "sick"
	}
	if s.broken {
		panic("a mistake")
	}
	s.zonePlanner.Update(z)
}

func (s *sickZone) copied() zonePlanner { return &sickZone{s.zonePlanner.copied(), s.broken} }

// clinic is a zone with an ingress whose planner is sick.
type clinic struct {
	*testing.T
	db    store.Store
	loop  *Loop
	snaps *snapshot.Store
}

func (c *clinic) foresee(k *model.Kind, scope, name string, spec any) Foreseen {
	c.Helper()
	undone := errors.New("undone")
	var im *Imagination
	if _, err := c.db.Update(c.Context(), model.Config, func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		_, err := tx.Create(r)
		if _, getErr := tx.Get(k, scope, name); err != nil && getErr == nil {
			_, err = tx.Update(r, 0)
		}
		if err != nil {
			return err
		}
		var late []string
		if im, late = c.loop.Imagine(view.DraftOf(tx), nil); len(late) > 0 {
			c.Errorf("late are %v", late)
		}
		return undone
	}); !errors.Is(err, undone) {
		c.Fatal(err)
	}
	seen, err := c.loop.Foresee(c.Context(), im, 10)
	if err != nil || len(seen) != 1 || seen[0].Scope != ZoneScope {
		c.Fatalf("%v %+v", err, seen)
	}
	return seen[0]
}

// planFails demands that nothing is foretold but that there is no plan.
func (c *clinic) planFails(f Foreseen, already bool) {
	c.Helper()
	if len(f.Fates) > 0 || len(f.Failures) != 1 || f.Failures[0].Cell != cellPlan || !f.Failures[0].Kept || f.Failures[0].Already != already || f.Failures[0].Nodes != 1 {
		c.Fatalf("%+v", f)
	}
}

// TestForeseenOfAZoneThatCannotBePlanned: if the zone cannot be planned after a write, its proxies
// keep what they have, and if it can be planned again, they get what comes of that.
func TestForeseenOfAZoneThatCannotBePlanned(t *testing.T) {
	const node = "zone/ingress/in"
	c := &clinic{T: t, db: memstore.New(), snaps: snapshot.New()}
	c.loop = Begin(t, c.db, Options{Publisher: c.snaps}, nil)
	secured := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}}
	serving := func(service string) *mesh.Dataplane {
		return &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: service}}}}}
	}
	storetest.Put(t, c.db, mesh.Meshes, "", "well", secured)
	storetest.Put(t, c.db, mesh.Dataplanes, "well", "web", serving("web"))
	storetest.Put(t, c.db, mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 1}})
	release, err := c.loop.Connect(t.Context(), node, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	p := c.loop.openedZone()
	p.mu.Lock()
	healthy := p.fresh
	p.fresh = func() zonePlanners {
		ps := healthy()
		ps[mesh.ProxyIngress] = &sickZone{zonePlanner: ps[mesh.ProxyIngress]}
		return ps
	}
	p.planners[mesh.ProxyIngress] = &sickZone{zonePlanner: p.planners[mesh.ProxyIngress]}
	p.mu.Unlock()
	settle := func(revision uint64) {
		t.Helper()
		if err := c.loop.Settled(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	c.planFails(c.foresee(mesh.Meshes, "", "sick", secured), false)
	had := c.snaps.Get(node)
	revision := storetest.Put(t, c.db, mesh.Meshes, "", "sick", secured)
	if err := c.loop.Reached(t.Context(), revision, []string{ZoneScope}); err != nil {
		t.Fatal(err)
	}
	c.planFails(c.foresee(mesh.Dataplanes, "well", "db", serving("db")), true)
	f := c.foresee(mesh.Meshes, "", "sick", &mesh.Mesh{})
	if len(f.Fates) > 0 || len(f.Failures) > 0 {
		t.Errorf("who gets what it has: %+v", f)
	}
	if err := c.loop.Reached(t.Context(), storetest.Put(t, c.db, mesh.Dataplanes, "well", "db", serving("db")), []string{ZoneScope}); err != nil {
		t.Fatal(err)
	}
	f = c.foresee(mesh.Meshes, "", "sick", &mesh.Mesh{})
	settle(storetest.Put(t, c.db, mesh.Meshes, "", "sick", &mesh.Mesh{}))
	is := c.snaps.Get(node)
	if len(f.Fates) != 1 || f.Fates[0].Before != had || f.Fates[0].Held != had || !f.Fates[0].After.Equal(is) || is.Get(resource.Cluster, "well:db") == nil {
		t.Errorf("%+v", f)
	}
}

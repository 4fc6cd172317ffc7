package publish

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// told is a planner that records what it was told about mutual TLS.
type told struct {
	sidecarPlanner
	mu      *sync.Mutex
	secured map[string]bool
}

func (p told) Secured(dataplane string, yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.secured[dataplane] = yes; !yes {
		delete(p.secured, dataplane)
	}
	p.sidecarPlanner.Secured(dataplane, yes)
}

// Nothing is kept of a deleted Dataplane, whichever comes first: Forget is called, the mesh
// takes the deletion, or the stream ends. Each proxy may have a new name, and the entry of
// a name holds the tables of its whole mesh.
func TestDeletedDataplanesLeaveNothing(t *testing.T) {
	for name, order := range map[string]func(release, forget func()){
		"taken, forgotten, ended": func(release, forget func()) { synctest.Wait(); forget(); release() },
		"forgotten, ended, taken": func(release, forget func()) { forget(); release() },
		"ended, forgotten, taken": func(release, forget func()) { release(); forget() },
		"ended, taken, forgotten": func(release, forget func()) { release(); time.Sleep(time.Second); forget() },
	} {
		for left, before := range map[string]bool{"connected": false, "away": true} {
			t.Run(name+", "+left, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := &patient{t: t, db: memstore.New(), snaps: snapshot.New()}
					knows := told{mu: &sync.Mutex{}, secured: map[string]bool{}}
					p.loop = Begin(t, p.db, Options{
						Publisher: p.snaps, Parameters: ports{},
						Issued: func(context.Context, string) (map[string]string, error) {
							return map[string]string{"old": "ca"}, nil
						},
					}, func(l *Loop) {
						fresh := l.sidecars
						l.sidecars = func(o policy.Outside, m *view.Mesh) sidecarPlanner {
							knows.sidecarPlanner = fresh(o, m)
							return knows
						}
					})
					p.put(mesh.Meshes, "", "m", &mesh.Mesh{})
					for _, name := range []string{"stays", "goes", "old"} {
						p.web("m", name, "127.0.0.1")
					}
					p.connect("m.stays")
					release := p.connect("m.goes")
					for _, name := range []string{"stays", "goes"} {
						p.loop.Confirmed("m."+name, snapshot.State{Set: resource.NewSet(nil, map[string]string{mesh.SecretIdentity("m"): ""})})
					}
					time.Sleep(time.Second)
					if before {
						release()
					}
					for _, name := range []string{"goes", "old"} {
						p.drop("m", name)
					}
					order(release, func() { p.loop.Forget("m.goes"); p.loop.Forget("m.old") })
					time.Sleep(time.Second)
					p.keeps("m", knows)
				})
			})
		}
	}
}

func (p *patient) drop(meshName, dataplane string) {
	p.t.Helper()
	_, err := p.db.Update(p.t.Context(), model.Config, func(tx store.Tx) error {
		return tx.Delete(mesh.Dataplanes, meshName, dataplane, 0)
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// keeps demands that nothing is known of a mesh except the dataplane "stays".
func (p *patient) keeps(meshName string, knows told) {
	p.t.Helper()
	l, m := p.loop, p.mesh(meshName)
	m.mu.Lock()
	defer m.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.confirmed.mu.Lock()
	defer l.confirmed.mu.Unlock()
	for what, got := range map[string][]string{
		"away":                   slices.Collect(maps.Keys(l.away.nodes)),
		"confirmed":              slices.Collect(maps.Keys(l.confirmed.sets)),
		"mutual TLS":             slices.Collect(maps.Keys(m.secured)),
		"mutual TLS, the plan":   slices.Collect(maps.Keys(knows.secured)),
		"mutual TLS, to be told": slices.Collect(maps.Keys(m.noted)),
	} {
		for _, name := range got {
			if name != "stays" && name != "m.stays" {
				p.t.Errorf("%s: %s is kept", what, name)
			}
		}
	}
	if !m.secured["stays"] || l.confirmed.sets["m.stays"] == nil {
		p.t.Error("what stays is not known any more")
	}
}

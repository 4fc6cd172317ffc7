package publish

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/snapshot"
)

const groupNode = "cp/default/1"

// grouped is a group of a and b with a connected gateway, and c beside it.
type grouped struct {
	*patient
	rows *closed
	node *snapshot.Subscription
}

func inGroup(t *testing.T, fn func(t *testing.T, g *grouped)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rows := &closed{Store: memstore.New(), wait: map[string]chan struct{}{}, fail: map[string]bool{}}
		g := &grouped{patient: &patient{t: t, db: rows, snaps: snapshot.New(), begin: time.Now()}, rows: rows}
		members(t, rows, "a", "b")
		for _, scope := range []string{"a", "b", "c"} {
			g.put(gateway.Services, scope, "svc-"+scope, &gateway.Service{Name: scope, Protocol: "http", Host: "127.0.0.1", Port: 9000, Enabled: true})
			g.serve(scope, "/"+scope)
		}
		g.loop = Begin(t, rows, Options{
			Publisher: g.snaps, Parameters: ports{}, Kinds: append(gateway.Kinds(), scopestest.Groups),
			Views: view.NewResolved(rows, scopestest.Resolver{}, all.Kinds(), slog.New(slog.DiscardHandler)),
		}, g.infect)
		g.connect(groupNode)
		g.node = g.snaps.Subscribe(groupNode)
		defer g.node.Close()
		g.confirm()
		fn(t, g)
	})
}

// serve has a control plane serve a path.
func (g *grouped) serve(scope, path string) uint64 {
	g.t.Helper()
	return g.put(gateway.Routes, scope, "route-"+scope, &gateway.Route{Protocols: []string{"http"}, Paths: []string{path}, Service: "svc-" + scope})
}

func (g *grouped) members(names ...string) uint64 {
	g.t.Helper()
	return members(g.t, g.db, names...)
}

// confirm has the gateway take what there is when everything is planned.
func (g *grouped) confirm() {
	time.Sleep(time.Second)
	synctest.Wait()
	g.node.Confirm(g.node.State())
}

// concerns reports whether a revision concerns the group, and those that are away there.
func (g *grouped) concerns(revision uint64) bool {
	g.t.Helper()
	scope := ControlPlaneScope(model.DefaultControlPlane)
	list, err := g.loop.Concerned(g.t.Context(), revision)
	if err != nil {
		g.t.Fatal(err)
	}
	concerns, err := g.loop.Concerns(g.t.Context(), revision)
	if err != nil {
		g.t.Fatal(err)
	}
	yes := slices.Contains(list, scope)
	if concerns(scope) != yes {
		g.t.Errorf("revision %d concerns the group: %v, and who is away there: %v", revision, yes, !yes)
	}
	return yes
}

// done reports whether somebody who asks for a revision is told that it is everywhere.
func (g *grouped) done(revision uint64) bool {
	g.t.Helper()
	ctx, stop := context.WithTimeout(g.t.Context(), time.Second)
	defer stop()
	list, err := g.loop.Concerned(ctx, revision)
	if err != nil {
		g.t.Fatal(err)
	}
	return g.loop.Settled(ctx, revision) == nil && g.snaps.Wait(ctx, revision, list...).Done()
}

// TestGroupsAreWaitedFor: who waits for a write waits for the gateways of each group that it
// concerns, until they have confirmed it, and for those of no other.
func TestGroupsAreWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct {
		write  func(g *grouped) uint64
		others bool
	}{
		"a member changes":  {write: func(g *grouped) uint64 { return g.serve("b", "/other") }},
		"a stranger writes": {write: func(g *grouped) uint64 { return g.serve("c", "/other") }, others: true},
		"a member comes":    {write: func(g *grouped) uint64 { return g.members("a", "b", "c") }},
		"a member leaves":   {write: func(g *grouped) uint64 { return g.members("a") }},
		"all members leave": {write: func(g *grouped) uint64 { return g.members() }},
		"the group is deleted": {write: func(g *grouped) uint64 {
			return commit(g.t, g.db, func(tx store.Tx) error { return tx.Delete(scopestest.Groups, "", model.DefaultControlPlane, 0) })
		}},
		"another group is made": {others: true, write: func(g *grouped) uint64 {
			return commit(g.t, g.db, func(tx store.Tx) error { return scopestest.Set(tx, "another", "c") })
		}},
		"a member changes, and leaves": {write: func(g *grouped) uint64 {
			revision := g.serve("b", "/other")
			g.members("a")
			return revision
		}},
		"a member changes, leaves and comes back": {write: func(g *grouped) uint64 {
			revision := g.serve("b", "/other")
			g.members("a")
			synctest.Wait()
			g.members("a", "b")
			return revision
		}},
		"a stranger writes, and others go on": {others: true, write: func(g *grouped) uint64 {
			revision := g.serve("c", "/other")
			g.members("a")
			g.confirm()
			return revision
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inGroup(t, func(t *testing.T, g *grouped) {
				revision := tc.write(g)
				synctest.Wait()
				if g.done(revision) != tc.others {
					t.Errorf("it is everywhere before the gateway has it: %v", !tc.others)
				}
				g.confirm()
				if !g.done(revision) {
					t.Error("it is not everywhere when the gateway has it")
				}
			})
		})
	}
}

// TestGroupsThatAreLate: a group of which the view has not taken yet who has come is concerned
// by what that one writes, and one that has taken everything since is concerned by what
// somebody wrote who has left. Whoever was no member then is no part of it.
func TestGroupsThatAreLate(t *testing.T) {
	inGroup(t, func(t *testing.T, g *grouped) {
		g.rows.hold("a", true)
		g.members("a", "b", "c")
		revision := g.serve("c", "/other")
		synctest.Wait()
		if !g.concerns(revision) || g.done(revision) {
			t.Error("who has come is not part of the group yet, and nobody waits for it")
		}
		stranger := g.put(gateway.Services, "d", "svc-d", &gateway.Service{Name: "d", Host: "h"})
		g.rows.hold("a", false)
		synctest.Wait()
		if g.done(revision) {
			t.Error("the gateway does not have it")
		}
		g.confirm()
		if !g.done(revision) {
			t.Error("the gateway has it")
		}
		if g.concerns(stranger) {
			t.Error("what a stranger wrote concerns the group")
		}
		g.members("a", "b")
		synctest.Wait()
		if !g.concerns(revision) {
			t.Error("what somebody wrote who has left does not concern the group")
		}
		if after := g.serve("c", "/third"); g.concerns(after) {
			t.Error("what somebody writes who has left concerns the group")
		}
	})
}

// TestMemberThatLeavesIsWaitedFor: who waits for a write of a member goes on to wait for the
// gateways of the group when the member leaves, as they may still serve what was there before.
func TestMemberThatLeavesIsWaitedFor(t *testing.T) {
	inGroup(t, func(t *testing.T, g *grouped) {
		g.rows.hold("a", true) // the group cannot be read anew
		revision := g.serve("b", "/other")
		settled := make(chan error, 1)
		go func() {
			list, err := g.loop.Concerned(t.Context(), revision)
			if err == nil {
				err = g.loop.Settled(t.Context(), revision)
			}
			g.snaps.Wait(t.Context(), revision, list...)
			settled <- err
		}()
		synctest.Wait()
		g.members("a")
		synctest.Wait()
		select {
		case err := <-settled:
			t.Errorf("over before the gateway has it: %v", err)
			settled <- err
		default:
		}
		g.rows.hold("a", false)
		g.confirm()
		if err := <-settled; err != nil {
			t.Error(err)
		}
	})
}

// TestGroupThatCannotBePlanned: it keeps what it has, and who asks is told why and not that
// the write is in force.
func TestGroupThatCannotBePlanned(t *testing.T) {
	inGroup(t, func(t *testing.T, g *grouped) {
		scope := ControlPlaneScope(model.DefaultControlPlane)
		before := g.snaps.Get(groupNode)
		for name, sick := range map[string]func(bool){
			"plan": func(yes bool) {
				if g.badPort.Store(0); yes {
					g.badPort.Store(8000)
				}
			},
			"view": func(yes bool) { g.rows.spoil("b", yes) },
		} {
			sick(true)
			revision := g.serve("b", "/"+name)
			synctest.Wait()
			g.confirm()
			if !g.concerns(revision) || g.done(revision) {
				t.Errorf("%s: what cannot be taken is in force", name)
			}
			if g.snaps.Get(groupNode) != before {
				t.Errorf("%s: the gateway does not keep what it has", name)
			}
			fs := g.loop.Failures(scope)
			if len(fs) != 1 || fs[0].Cell != name || !fs[0].Kept || fs[0].ControlPlane != model.DefaultControlPlane {
				t.Errorf("%s: told are %+v", name, fs)
			}
			if stranger := g.serve("c", "/"+name); !g.done(stranger) {
				t.Errorf("%s: a stranger waits for the group", name)
			}
			sick(false)
			time.Sleep(time.Minute)
			if g.done(revision) {
				t.Errorf("%s: the gateway does not have it yet", name)
			}
			g.confirm()
			if !g.done(revision) || len(g.loop.Failures(scope)) != 0 {
				t.Errorf("%s: it is not in force: %+v", name, g.loop.Failures(scope))
			}
			before = g.snaps.Get(groupNode)
		}
	})
}

// TestCrossingsConcernAllMeshes: what other meshes know of a mesh concerns the proxies of every mesh
// that are away or coming, and nobody else's.
func TestCrossingsConcernAllMeshes(t *testing.T) {
	inGroup(t, func(t *testing.T, g *grouped) {
		revision := g.put(mesh.Crossings, "", "office", &mesh.Crossing{Mesh: "office"})
		concerns, err := g.loop.Concerns(t.Context(), revision)
		if err != nil {
			t.Fatal(err)
		}
		for scope, want := range map[string]bool{MeshScope("office"): true, MeshScope("third"): true, ControlPlaneScope("a"): false} {
			if concerns(scope) != want {
				t.Errorf("it concerns %s: %t", scope, !want)
			}
		}
	})
}

package publish

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// patient is a loop in a bubble of virtual time whose planners fail on command.
type patient struct {
	t     *testing.T
	db    store.Store
	loop  *Loop
	snaps *snapshot.Store
	// sick names the call of a planner of the mesh "sick" that panics.
	sick atomic.Pointer[string]
	// held, if set, blocks the plans of the mesh "sick" until it is closed.
	held atomic.Pointer[chan struct{}]
	// badPort is the port of gateways that cannot be planned.
	badPort atomic.Uint32
	begin   time.Time

	mu sync.Mutex
	// attempts are the times at which planners of the mesh "sick" started from nothing.
	attempts []time.Duration
}

type sickPlanner struct {
	sidecarPlanner
	p *patient
}

func (s sickPlanner) fail(call string) {
	if at := s.p.sick.Load(); at != nil && *at == call {
		panic("the planner is sick")
	}
}

func (s sickPlanner) Plan() map[string]*resource.Set {
	s.fail("plan")
	if end := s.p.held.Load(); end != nil {
		<-*end
	}
	return s.sidecarPlanner.Plan()
}

func (s sickPlanner) Secured(dataplane string, yes bool) {
	s.fail("secured")
	s.sidecarPlanner.Secured(dataplane, yes)
}

func (s sickPlanner) Outside() {
	s.fail("outside")
	s.sidecarPlanner.Outside()
}

func (s sickPlanner) Join(dataplane string) bool {
	s.fail("join " + dataplane)
	return s.sidecarPlanner.Join(dataplane)
}

func (s sickPlanner) Leave(dataplane string) {
	s.fail("leave")
	s.sidecarPlanner.Leave(dataplane)
}

func (s sickPlanner) Awaits(dataplane string) string {
	s.fail("awaits")
	return s.sidecarPlanner.Awaits(dataplane)
}

func (s sickPlanner) Failures(dataplane string) []failure {
	s.fail("failures of " + dataplane)
	return s.sidecarPlanner.Failures(dataplane)
}

func (s sickPlanner) Unserved(dataplane string) []failure {
	s.fail("unserved")
	return s.sidecarPlanner.Unserved(dataplane)
}

type sickGateway struct {
	gatewayPlanner
	p    *patient
	port uint32
}

func (s sickGateway) Plan(g *view.Gateway) edge.Result {
	if s.p.badPort.Load() == s.port {
		panic("the planner is sick")
	}
	return s.gatewayPlanner.Plan(g)
}

type ports struct{}

func (ports) Gateway(_ context.Context, node string) (edge.Params, error) {
	p := edge.Params{HTTPPort: 8000, HTTPSPort: 8443, OAuth: edge.Endpoint{Host: "127.0.0.1", Port: 5678}}
	if strings.HasSuffix(node, "/b") {
		p.HTTPPort = 9000
	}
	return p, nil
}

// begun returns the attempts since the last call with forget set. forget clears them.
func (p *patient) begun(forget bool) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.attempts)
	if forget {
		p.attempts = nil
	}
	return out
}

func (p *patient) fails(call string) { p.sick.Store(&call) }
func (p *patient) mend()             { p.sick.Store(nil) }

// infect gives a loop planners that fail on command.
func (p *patient) infect(l *Loop) {
	sidecars, gateways := l.sidecars, l.gateways
	l.sidecars = func(o policy.Outside, m *view.Mesh) sidecarPlanner {
		if m.Name() != "sick" {
			return sidecars(o, m)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.attempts = append(p.attempts, time.Since(p.begin))
		return sickPlanner{sidecars(o, m), p}
	}
	l.gateways = func(params edge.Params) gatewayPlanner { return sickGateway{gateways(params), p, params.HTTPPort} }
}

// nurse runs a test with two meshes, sick and well, of two dataplanes each.
func nurse(t *testing.T, fn func(t *testing.T, p *patient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &patient{t: t, db: memstore.New(), snaps: snapshot.New(), begin: time.Now()}
		p.loop = Begin(t, p.db, Options{Publisher: p.snaps, Parameters: ports{}}, p.infect)
		for _, name := range []string{"sick", "well"} {
			p.put(mesh.Meshes, "", name, &mesh.Mesh{})
			p.web(name, "web-1", "127.0.0.1")
			p.web(name, "web-2", "127.0.0.2")
		}
		fn(t, p)
	})
}

func (p *patient) web(meshName, name, address string) uint64 {
	return p.put(mesh.Dataplanes, meshName, name, &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Inbound: []mesh.Inbound{{
		Port: 8080, Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http"},
	}}}})
}

func (p *patient) put(k *model.Kind, scope, name string, spec any) uint64 {
	p.t.Helper()
	return storetest.Put(p.t, p.db, k, scope, name, spec)
}

func (p *patient) connect(node string) func() {
	p.t.Helper()
	release, err := p.loop.Connect(p.t.Context(), node, false)
	if err != nil {
		p.t.Fatal(err)
	}
	return release
}

// settles reports whether a revision is settled within some virtual time.
func (p *patient) settles(revision uint64, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(p.t.Context(), within)
	defer cancel()
	return p.loop.Settled(ctx, revision) == nil
}

// A planner that panics, in whichever call, holds up only its own mesh. Proxies keep what
// they have, and the failure is listed. Once the cause is fixed, the mesh recovers without
// a write.
func TestPanickingPlannerHoldsUpItsMeshOnly(t *testing.T) {
	for call, trigger := range map[string]func(*patient) uint64{
		"plan": func(p *patient) uint64 { return p.web("sick", "web-2", "127.0.0.3") },
		"secured": func(p *patient) uint64 {
			p.loop.Confirmed("sick.web-1", snapshot.State{Set: resource.NewSet(nil, map[string]string{mesh.SecretIdentity("sick"): ""})})
			synctest.Wait()
			return p.web("sick", "web-2", "127.0.0.3")
		},
		"outside": func(p *patient) uint64 {
			p.looks("sick", model.DefaultControlPlane)
			p.put(gateway.Services, model.DefaultControlPlane, "00000000-0000-4000-8000-000000000001",
				&gateway.Service{Protocol: "http", Host: "127.0.0.1", Port: 9000, Enabled: true})
			synctest.Wait()
			return p.web("sick", "web-2", "127.0.0.3")
		},
	} {
		t.Run(call, func(t *testing.T) {
			nurse(t, func(t *testing.T, p *patient) {
				p.connect("sick.web-1")
				p.connect("well.web-1")
				p.connect("cp/default/a")
				time.Sleep(time.Second)
				good := p.snaps.Get("sick.web-1")
				p.fails(call)
				stuck := trigger(p)
				p.fails("plan") // a planner that starts from nothing fails as well
				if rev := p.web("well", "web-2", "127.0.0.3"); !p.settles(rev, time.Second) {
					t.Error("the other mesh is held up")
				}
				p.connect("well.web-2")
				if p.settles(stuck, time.Minute) {
					t.Error("the revision of the sick mesh is settled")
				}
				if _, err := p.loop.Connect(p.t.Context(), "sick.web-2", false); !fault.Is(err, fault.Unavailable) {
					t.Errorf("a new proxy of the sick mesh: %v", err)
				}
				if set, _ := p.loop.Last("sick.web-1"); p.snaps.Get("sick.web-1") != good || set != good {
					t.Error("the proxy of the sick mesh lost what it had")
				}
				if fs := p.loop.FailuresOf(MeshScope("sick"), "web-1"); len(fs) != 1 || fs[0].Cell != "plan" {
					t.Errorf("failures of the sick proxy: %v", fs)
				}
				if fs := p.loop.FailuresOf(MeshScope("well"), "web-1"); len(fs) != 0 {
					t.Errorf("failures of the well proxy: %v", fs)
				}
				scopes, err := p.loop.Concerned(t.Context(), stuck)
				if fs := p.loop.Failures(scopes...); err != nil || len(fs) != 1 || fs[0].Mesh != "sick" {
					t.Errorf("failures that concern the write: %v, %v", fs, err)
				}
				p.mend()
				if !p.settles(stuck, lastPause+time.Second) {
					t.Error("the mended mesh does not recover by itself")
				}
				if fs := p.loop.Failures(); len(fs) != 0 {
					t.Errorf("failures remain: %v", fs)
				}
				p.connect("sick.web-2")
			})
		})
	}
}

// Attempts become rarer, up to a limit. A change is tried soon.
func TestFailedPlansAreTriedAgainWithPauses(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		p.connect("sick.web-1")
		time.Sleep(time.Second)
		p.fails("plan")
		p.web("sick", "web-2", "127.0.0.3")
		time.Sleep(firstPause / 2) // long enough for the first failure, too short for a second attempt
		synctest.Wait()
		p.begun(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		var pauses []time.Duration
		attempts := p.begun(false)
		for i := 1; i < len(attempts); i++ {
			pauses = append(pauses, (attempts[i] - attempts[i-1]).Round(100*time.Millisecond))
		}
		want := []time.Duration{}
		for pause := 2 * firstPause; len(want) < len(pauses); pause = min(2*pause, lastPause) {
			want = append(want, pause)
		}
		if d := cmp.Diff(want, pauses); d != "" || len(pauses) < 8 {
			t.Errorf("pauses (-want +got):\n%s", d)
		}
		p.web("sick", "web-2", "127.0.0.4")
		time.Sleep(2 * maxWindow)
		synctest.Wait()
		if got := len(p.begun(false)) - len(attempts); got < 1 || got > 3 {
			t.Errorf("%d attempts right after a change", got)
		}
	})
}

// A dataplane that the planner cannot take is refused. The rest of its mesh is not
// affected.
func TestOneImpossibleDataplane(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		p.connect("sick.web-1")
		p.fails("join web-2")
		if _, err := p.loop.Connect(t.Context(), "sick.web-2", false); !fault.Is(err, fault.Unavailable) {
			t.Errorf("connecting: %v", err)
		}
		p.begun(true)
		for range 100 {
			if _, err := p.loop.Connect(t.Context(), "sick.web-2", false); !fault.Is(err, fault.Unavailable) {
				t.Errorf("connecting again: %v", err)
			}
		}
		if n := len(p.begun(false)); n > 0 {
			t.Errorf("%d planners were begun for 100 attempts", n)
		}
		if fs := p.loop.FailuresOf(MeshScope("sick"), "web-2"); len(fs) != 1 {
			t.Errorf("failures: %v", fs)
		}
		p.web("sick", "web-3", "127.0.0.3")
		p.connect("sick.web-3")
		if rev := p.web("sick", "web-3", "127.0.0.4"); !p.settles(rev, time.Second) {
			t.Error("the mesh is held up")
		}
		p.mend()
		p.web("sick", "web-2", "127.0.0.5")
		time.Sleep(time.Second)
		p.connect("sick.web-2")
		if fs := p.loop.Failures(); len(fs) != 0 {
			t.Errorf("failures remain: %v", fs)
		}
	})
}

// The success of one variant of gateways does not clear the failure of another. The failure
// holds up the revision until the variant is planned.
func TestFailureOfAClassOutlivesTheSuccessOfAnother(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		p.connect("cp/default/a")
		p.connect("cp/default/b")
		good := p.snaps.Get("cp/default/b")
		p.badPort.Store(9000)
		put := func(id string, k *model.Kind, spec any) uint64 {
			return p.put(k, model.DefaultControlPlane, "00000000-0000-4000-8000-00000000000"+id, spec)
		}
		put("1", gateway.Services, &gateway.Service{Protocol: "http", Host: "127.0.0.1", Port: 9000, Enabled: true})
		rev := put("2", gateway.Routes, &gateway.Route{Protocols: []string{"http"}, Paths: []string{"/a"}, Service: "00000000-0000-4000-8000-000000000001"})
		before := p.snaps.Get("cp/default/a")
		for range 10 {
			if p.settles(rev, time.Second) {
				t.Fatal("a revision that one variant does not show is settled")
			}
			if fs := p.loop.Failures("cp/default"); len(fs) != 1 || fs[0].Cell != "plan" {
				t.Fatalf("failures: %v", fs)
			}
		}
		if p.snaps.Get("cp/default/a") == before || p.snaps.Get("cp/default/b") != good {
			t.Error("the well variant has no new set, or the sick one has")
		}
		p.badPort.Store(0)
		if !p.settles(rev, lastPause+time.Second) || len(p.loop.Failures()) != 0 || p.snaps.Get("cp/default/b") == good {
			t.Errorf("the mended variant does not recover: %v", p.loop.Failures())
		}
	})
}

// The number of remembered nodes that have left is bounded.
func TestAwayIsBounded(t *testing.T) {
	a := newAway(3)
	for i, step := range []struct{ node, forgotten string }{{"a", ""}, {"b", ""}, {"c", ""}, {"a", ""}, {"d", "b"}, {"e", "c"}, {"f", "a"}} {
		if got := a.put(step.node, resource.NewSet(nil, nil)); got != step.forgotten {
			t.Errorf("step %d: %q was forgotten, want %q", i, got, step.forgotten)
		}
	}
	if a.get("a") != nil || a.get("f") == nil || a.order.Len() != 3 || len(a.nodes) != 3 {
		t.Error("what is kept is not what left last")
	}
}

// A mesh does not show a revision before the control planes that it looks at have reached
// it, unless one of them cannot be read. The revision that it shows never decreases.
func TestMeshWaitsForWhatItLooksAt(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		p.connect("well.web-1")
		rev := p.put(gateway.Services, model.DefaultControlPlane, "00000000-0000-4000-8000-000000000001",
			&gateway.Service{Protocol: "http", Host: "127.0.0.1", Port: 9000, Enabled: true})
		if !p.settles(rev, time.Second) {
			t.Fatal("not settled")
		}
		m := p.mesh("well")
		m.mu.Lock()
		got := m.bound()
		m.mu.Unlock()
		if got != noRevision {
			t.Errorf("a mesh that looks at nobody is bound by %d", got)
		}
		p.looks("well", model.DefaultControlPlane)
		p.looks("well", "unknown")
		time.Sleep(lastPause) // the mesh shows nothing new until that control plane is read and a round has taken it
		m.mu.Lock()
		got = m.bound()
		m.mu.Unlock()
		if got != rev {
			t.Errorf("it is bound by %d, want %d", got, rev)
		}
		made := &meshPlane{turns: turns{standing: standing{revision: 5, reached: 9}}}
		for _, step := range []struct{ bound, want uint64 }{{3, 5}, {7, 7}, {6, 7}, {noRevision, 9}} {
			if made.advance(step.bound); made.revision != step.want {
				t.Errorf("bound by %d it shows %d, want %d", step.bound, made.revision, step.want)
			}
		}
	})
}

// A planner that does not end holds up only its own mesh. Others are planned, published and
// joined, and introspection, secrets and lists answer.
func TestPlanThatDoesNotEndHoldsUpItsMeshOnly(t *testing.T) {
	nurse(t, func(t *testing.T, p *patient) {
		p.connect("sick.web-1")
		p.connect("well.web-1")
		leave := p.connect("well.web-2")
		p.connect("cp/default/a")
		time.Sleep(time.Second)
		end := make(chan struct{})
		p.held.Store(&end)
		stuck := p.web("sick", "web-2", "127.0.0.3")
		time.Sleep(time.Second)
		if rev := p.web("well", "web-2", "127.0.0.3"); !p.settles(rev, time.Second) {
			t.Error("the other mesh is held up")
		}
		if rev := p.put(gateway.Services, model.DefaultControlPlane, "00000000-0000-4000-8000-000000000001",
			&gateway.Service{Protocol: "http", Host: "127.0.0.1", Port: 9000, Enabled: true}); !p.settles(rev, time.Second) {
			t.Error("the control plane is held up")
		}
		leave()
		p.connect("well.web-2")
		p.connect("cp/default/b")
		if set, _ := p.loop.Last("sick.web-1"); set == nil {
			t.Error("what the proxy has is not known")
		}
		if _, err := p.loop.Secret(t.Context(), "sick.web-1", "x", ""); !fault.Is(err, fault.Forbidden) {
			t.Errorf("a secret of the proxy: %v", err)
		}
		if p.settles(stuck, time.Minute) {
			t.Error("the revision of the stuck mesh is settled")
		}
		p.held.Store(nil)
		close(end)
		if !p.settles(stuck, time.Second) {
			t.Error("the mesh does not go on")
		}
	})
}

func (p *patient) mesh(name string) *meshPlane {
	p.loop.mu.Lock()
	defer p.loop.mu.Unlock()
	return p.loop.opened(name)
}

// looks makes a mesh look at a control plane, as its policies do.
func (p *patient) looks(meshName, controlPlane string) {
	m := p.mesh(meshName)
	m.mu.Lock()
	defer m.mu.Unlock()
	_, _ = outside{p.loop, m}.Gateway(controlPlane)
}

package publish

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// faltering is a planner that panics when it makes the set number at, counted from 1. 0 is none.
type faltering struct {
	zonePlanner
	made, at int
}

func (f *faltering) Set(address string, port uint32) (*resource.Set, error) {
	if f.made++; f.made == f.at {
		panic("a mistake")
	}
	return f.zonePlanner.Set(address, port)
}

// halfway is a zone whose ingresses are planned by a planner that falters.
type halfway struct {
	*testing.T
	db    store.Store
	loop  *Loop
	snaps *snapshot.Store
}

func startHalfway(t *testing.T) *halfway {
	t.Helper()
	h := &halfway{T: t, db: memstore.New(), snaps: snapshot.New()}
	h.loop = Begin(t, h.db, Options{Publisher: h.snaps}, nil)
	storetest.Put(t, h.db, mesh.Meshes, "", "one", &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}})
	for i, name := range []string{"a", "b", "c"} {
		storetest.Put(t, h.db, mesh.ZoneIngresses, "", name, &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: uint32(i + 1)}})
	}
	return h
}

func (h *halfway) connect(node string) (release func()) {
	h.Helper()
	release, err := h.loop.Connect(h.Context(), node, false)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(release)
	return release
}

// falter makes the present planner of ingresses panic at a set.
func (h *halfway) falter(at int) {
	p := h.loop.openedZone()
	p.mu.Lock()
	defer p.mu.Unlock()
	healthy := p.planners[mesh.ProxyIngress]
	if f, ok := healthy.(*faltering); ok {
		healthy = f.zonePlanner
	}
	p.planners[mesh.ProxyIngress] = &faltering{zonePlanner: healthy, at: at}
}

// serves writes a service that all ingresses are to have, and returns when the zone shows it.
func (h *halfway) serves(name string) {
	h.Helper()
	revision := storetest.Put(h.T, h.db, mesh.Dataplanes, "one", name, &mesh.Dataplane{
		Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: name}}}},
	})
	if err := h.loop.Settled(h.Context(), revision); err != nil {
		h.Fatal(err)
	}
}

// TestConnectedProxyThatCannotBePlanned: one connected proxy of which making the set panics keeps what it
// has and is named, and is planned again with the next change. The others get what is new, and planners keep
// what they remember: it is the last good state of a mesh that cannot be planned.
func TestConnectedProxyThatCannotBePlanned(t *testing.T) {
	synctest.Test(t, connectedProxyThatCannotBePlanned)
}

func connectedProxyThatCannotBePlanned(t *testing.T) {
	h := startHalfway(t)
	nodes := []string{"zone/ingress/a", "zone/ingress/b", "zone/ingress/c"}
	for _, node := range nodes {
		h.connect(node)
	}
	h.falter(2)
	p := h.loop.openedZone()
	p.mu.Lock()
	remembers := p.planners[mesh.ProxyIngress]
	p.mu.Unlock()
	h.serves("web")
	var without []string
	for _, node := range nodes {
		if h.snaps.Get(node).Get(resource.Cluster, "one:web") == nil {
			without = append(without, node)
		}
	}
	p.mu.Lock()
	if p.planners[mesh.ProxyIngress] != remembers {
		t.Error("the planners remember nothing")
	}
	refused := slices.Collect(maps.Keys(p.refused))
	p.mu.Unlock()
	if len(without) != 1 || !slices.Equal(refused, without) {
		t.Errorf("%v do not get what is new, and %v are refused", without, refused)
	}
	if fs := h.loop.Failures(); len(fs) != 1 || !fs[0].Kept || len(without) == 1 && "zone/"+fs[0].Dataplane != without[0] {
		t.Errorf("failures are %v", fs)
	}
	h.serves("more")
	for _, node := range nodes {
		if set := h.snaps.Get(node); set.Get(resource.Cluster, "one:web") == nil || set.Get(resource.Cluster, "one:more") == nil {
			t.Errorf("%s does not get everything with the next change", node)
		}
	}
	if fs := h.loop.Failures(); len(fs) != 0 {
		t.Errorf("after the next change, failures are %v", fs)
	}
}

// TestPanicOfOneProxyOfTheZone: a proxy whose set cannot be made because of a mistake of this program is
// turned away with a reason, and one that has a set keeps it. Nobody else is affected.
func TestPanicOfOneProxyOfTheZone(t *testing.T) {
	h := startHalfway(t)
	h.connect("zone/ingress/a")
	fails := func(what string, err error) {
		t.Helper()
		if _, panicked := errors.AsType[*plan.Failed](err); !panicked || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	h.falter(1)
	_, err := h.loop.Desired(t.Context(), "zone/ingress/b")
	fails("what it should have", err)
	h.falter(1)
	_, err = h.loop.Connect(t.Context(), "zone/ingress/b", false)
	fails("it connects", err)
	h.falter(1)
	before := h.snaps.Get("zone/ingress/a")
	h.connect("zone/ingress/a")
	if before == nil || h.snaps.Get("zone/ingress/a") != before {
		t.Error("who is connected does not keep what it has")
	}
	h.connect("zone/ingress/b")
	if h.snaps.Get("zone/ingress/b") == nil {
		t.Error("it gets nothing when its set can be made again")
	}
}

// TestFailuresEndWithTheProxy: what a proxy of the zone refuses to be counts until it leaves, and not until
// something else changes.
func TestFailuresEndWithTheProxy(t *testing.T) {
	h := startHalfway(t)
	leave := h.connect("zone/ingress/a")
	revision := storetest.Put(t, h.db, mesh.ZoneIngresses, "", "a", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "a.example", Port: 1}})
	if err := h.loop.Settled(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	if fs := h.loop.Failures(); len(fs) != 1 {
		t.Fatalf("failures are %v", fs)
	}
	leave()
	if fs := h.loop.Failures(); len(fs) != 0 {
		t.Errorf("after it has left, failures are %v", fs)
	}
}

// TestFailuresEndWithTheSidecar: so does what a proxy of a mesh lacks.
func TestFailuresEndWithTheSidecar(t *testing.T) {
	betweenScopes(t, func(*testing.T, *between) {}, func(t *testing.T, b *between) {
		leave := b.connect("m.web-1")
		b.connect("m.free-1")
		b.rows.spoil("other", true)
		b.demand("other")
		time.Sleep(time.Second)
		if fs := b.loop.FailuresOf(MeshScope("m"), "web-1"); len(fs) != 1 {
			t.Fatalf("failures are %v", fs)
		}
		leave()
		if fs := b.loop.FailuresOf(MeshScope("m"), "web-1"); len(fs) != 0 {
			t.Errorf("after it has left, failures are %v", fs)
		}
	})
}

package publish_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	plan "github.com/meshgate/meshgate/xds/plan/edge"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	serviceID = "00000000-0000-4000-8000-000000000001"
	routeID   = "00000000-0000-4000-8000-000000000002"
	pluginID  = "00000000-0000-4000-8000-000000000003"
	nodeA     = "cp/default/a"
	nodeB     = "cp/default/b"
)

// recorder keeps what was published.
type recorder struct {
	mu        sync.Mutex
	sets      map[string]*resource.Set
	batches   [][]string
	revisions map[string]uint64
	// hold, if set, is called in each publication, while the loop is locked.
	hold func()
}

func (r *recorder) Announce(ps ...snapshot.Publication) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold != nil {
		r.hold()
	}
	for _, p := range ps {
		maps.Copy(r.sets, p.Sets)
		if len(p.Sets) > 0 {
			names := []string{}
			for _, n := range []string{nodeA, nodeB} {
				if p.Sets[n] != nil {
					names = append(names, n)
				}
			}
			r.batches = append(r.batches, names)
		}
		if p.Revision < r.revisions[p.Scope] {
			panic("revision went back")
		}
		r.revisions[p.Scope] = p.Revision
	}
}

func (r *recorder) End(scope string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.revisions, scope)
}

func (r *recorder) Drop(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sets, node)
}

func (r *recorder) set(node string) *resource.Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sets[node]
}

// taken returns the batches since the last call.
func (r *recorder) taken() [][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.batches
	r.batches = nil
	return b
}

type parameters map[string]plan.Params

func (p parameters) Gateway(_ context.Context, node string) (plan.Params, error) {
	if v, ok := p[node]; ok {
		return v, nil
	}
	return plan.Params{HTTPPort: 8000, HTTPSPort: 8443, OAuth: plan.Endpoint{Host: "127.0.0.1", Port: 5678}}, nil
}

type rig struct {
	t     *testing.T
	ctx   context.Context
	store store.Store
	loop  *publish.Loop
	out   *recorder
}

func start(t *testing.T, ids publish.Identities) *rig {
	t.Helper()
	return startWith(t, ids, parameters{})
}

func startWith(t *testing.T, ids publish.Identities, params publish.Parameters) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	r := &rig{t: t, ctx: ctx, store: memstore.New(), out: &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}}
	r.loop = publish.Begin(t, r.store, publish.Options{Publisher: r.out, Parameters: params, Identities: ids}, nil)
	return r
}

func (r *rig) write(fn func(store.Tx) error) uint64 {
	r.t.Helper()
	c, err := r.store.Update(r.ctx, model.Config, fn)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := r.loop.Settled(r.ctx, c.Revision); err != nil {
		r.t.Fatal(err)
	}
	return c.Revision
}

func (r *rig) put(k *model.Kind, name string, spec any) uint64 {
	r.t.Helper()
	return r.write(func(tx store.Tx) error {
		res := &model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: name, Spec: spec}
		if _, err := tx.Get(k, res.Scope, name); err == nil {
			_, err = tx.Update(res, 0)
			return err
		}
		_, err := tx.Create(res)
		return err
	})
}

func (r *rig) connect(node string) (release func()) {
	r.t.Helper()
	release, err := r.loop.Connect(r.ctx, node, false)
	if err != nil {
		r.t.Fatal(err)
	}
	return release
}

func service(port int) *gateway.Service {
	return &gateway.Service{Protocol: "http", Host: "127.0.0.1", Port: port, Enabled: true}
}

func route(path string) *gateway.Route {
	return &gateway.Route{Protocols: []string{"http", "https"}, Paths: []string{path}, StripPath: true, Service: serviceID}
}

func TestConnectPublishesBeforeItReturns(t *testing.T) {
	r := start(t, nil)
	r.put(gateway.Services, serviceID, service(9000))
	r.put(gateway.Routes, routeID, route("/a"))
	r.connect(nodeA)
	set := r.out.set(nodeA)
	if set.Len(resource.Listener) != 2 || set.Len(resource.Route) != 1 || set.Len(resource.Cluster) != 2 {
		t.Errorf("published set is %v", set)
	}
	r.connect(nodeB)
	if r.out.set(nodeB) != set {
		t.Error("equal proxies do not share their set")
	}
}

func TestPublishesWhatDiffersToAllAtOnce(t *testing.T) {
	r := start(t, nil)
	r.connect(nodeA)
	r.connect(nodeB)
	r.out.taken()
	r.put(gateway.Services, serviceID, service(9000))
	if b := r.out.taken(); len(b) != 0 {
		t.Errorf("a service without routes was published: %v", b)
	}
	r.put(gateway.Routes, routeID, route("/a"))
	if diff := cmp.Diff([][]string{{nodeA, nodeB}}, r.out.taken()); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
	before := r.out.set(nodeA)
	same := route("/a")
	same.Tags = []string{"no byte of Envoy's"}
	revision := r.put(gateway.Routes, routeID, same)
	if b := r.out.taken(); len(b) != 0 || r.out.set(nodeA) != before {
		t.Errorf("a write that changes no bytes was published: %v", b)
	}
	if r.out.revisions["cp/default"] < revision {
		t.Error("its revision was not announced")
	}
}

func TestRelease(t *testing.T) {
	r := start(t, nil)
	first, second := r.connect(nodeA), r.connect(nodeA)
	first()
	first()
	if r.out.set(nodeA) == nil {
		t.Error("a node was dropped while it has a stream")
	}
	second()
	if r.out.set(nodeA) != nil {
		t.Error("a node without streams was not dropped")
	}
}

func TestConnectRefusesOtherIDs(t *testing.T) {
	r := start(t, nil)
	for _, id := range []string{"", "cp", "cp/default", "cp//a", "cp/default/", "cp/a/b/c", "mesh/node", "node", ".node", "mesh."} {
		if _, err := r.loop.Connect(r.ctx, id, false); !fault.Is(err, fault.Invalid) {
			t.Errorf("Connect(%q) = %v", id, err)
		}
	}
}

func TestFailuresKeepTheLastGoodCluster(t *testing.T) {
	r := start(t, nil)
	r.connect(nodeA)
	r.put(gateway.Services, serviceID, service(9000))
	r.put(gateway.Routes, routeID, route("/a"))
	good := r.out.set(nodeA)
	r.put(gateway.Services, serviceID, service(0))
	if r.out.set(nodeA).Len(resource.Cluster) != good.Len(resource.Cluster) {
		t.Error("the cluster went with its last good version")
	}
	fs := r.loop.Failures()
	if len(fs) != 1 || fs[0].Cell != "service "+serviceID || !fs[0].Kept || fs[0].ControlPlane != "default" {
		t.Errorf("failures are %+v", fs)
	}
	r.put(gateway.Services, serviceID, service(9000))
	if fs := r.loop.Failures(); len(fs) != 0 {
		t.Errorf("failures remain: %+v", fs)
	}
}

func TestHasPlugin(t *testing.T) {
	r := start(t, nil)
	config, err := json.Marshal(gateway.OAuth2Config{AuthHeaderName: "authorization"})
	if err != nil {
		t.Fatal(err)
	}
	p := gateway.Plugin{Name: gateway.PluginOAuth2, Config: config, Enabled: true}
	r.put(gateway.Plugins, pluginID, &p)
	if !r.loop.HasPlugin("default", pluginID) || r.loop.HasPlugin("default", routeID) || r.loop.HasPlugin("other", pluginID) {
		t.Error("HasPlugin does not say what the control plane holds")
	}
	p.Enabled = false
	disabled := p
	r.put(gateway.Plugins, pluginID, &disabled)
	if r.loop.HasPlugin("default", pluginID) {
		t.Error("a disabled plugin is held")
	}
}

// TestFollow: the plugins that a gateway may ask about are known before it is connected.
func TestFollow(t *testing.T) {
	r := start(t, nil)
	config, err := json.Marshal(gateway.OAuth2Config{AuthHeaderName: "authorization"})
	if err != nil {
		t.Fatal(err)
	}
	r.write(func(tx store.Tx) error {
		p := &gateway.Plugin{Name: gateway.PluginOAuth2, Config: config, Enabled: true}
		_, err := tx.Create(&model.Resource{Kind: gateway.Plugins, Scope: "other", Name: pluginID, Spec: p})
		return err
	})
	if r.loop.HasPlugin("other", pluginID) {
		t.Fatal("a control plane is followed for nobody")
	}
	if err := r.loop.Follow(r.ctx, "cp/other/a"); err != nil {
		t.Fatal(err)
	}
	if !r.loop.HasPlugin("other", pluginID) {
		t.Error("what the gateways of a followed control plane may ask about is not known")
	}
	if err := r.loop.Follow(r.ctx, "mesh.node"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a proxy of a mesh is followed as a gateway: %v", err)
	}
}

// TestHasPluginWaitsForNoRound: introspection is answered while a round plans and
// publishes.
func TestHasPluginWaitsForNoRound(t *testing.T) {
	r := start(t, nil)
	r.put(gateway.Plugins, pluginID, &gateway.Plugin{Name: gateway.PluginOAuth2, Config: []byte(`{}`), Enabled: true})
	inside, goOn := make(chan struct{}), make(chan struct{})
	r.out.mu.Lock()
	r.out.hold = sync.OnceFunc(func() { close(inside); <-goOn })
	r.out.mu.Unlock()
	if _, err := r.store.Update(r.ctx, model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Services, Scope: model.DefaultControlPlane, Name: serviceID, Spec: service(9000)})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	<-inside
	answer := make(chan bool, 1)
	go func() { answer <- r.loop.HasPlugin("default", pluginID) && !r.loop.HasPlugin("default", routeID) }()
	select {
	case right := <-answer:
		if !right {
			t.Error("a wrong answer during a round")
		}
		close(goOn)
	case <-r.ctx.Done():
		t.Error("no answer during a round")
		close(goOn)
		<-answer
	}
}

// BenchmarkHasPlugin asks while rounds plan 10,000 routes again and again. worst-ns is the
// longest time that a call took.
func BenchmarkHasPlugin(b *testing.B) {
	log, db := slog.New(slog.DiscardHandler), memstore.New()
	ctx, cancel := context.WithCancel(context.Background())
	views := view.New(db, nil, log)
	l := publish.New(publish.Options{
		Views: views, Publisher: &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}, Parameters: parameters{}, Latest: db.Revision, Log: log,
	})
	write := func(fn func(store.Tx) error) {
		if _, err := db.Update(ctx, model.Config, fn); err != nil && ctx.Err() == nil {
			b.Error(err)
		}
	}
	put := func(k *model.Kind, name string, spec any) *model.Resource {
		return &model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: name, Spec: spec}
	}
	write(func(tx store.Tx) error {
		for i := range 10_000 {
			if i == 0 {
				_, err := tx.Create(put(gateway.Services, serviceID, service(9000)))
				if err != nil {
					return err
				}
			}
			if _, err := tx.Create(put(gateway.Routes, fmt.Sprintf("00000000-0000-4000-8000-%012d", i+100), route(fmt.Sprint("/r", i)))); err != nil {
				return err
			}
		}
		_, err := tx.Create(put(gateway.Plugins, pluginID, &gateway.Plugin{Name: gateway.PluginOAuth2, Service: serviceID, Config: []byte(`{"auth_header_name":"authorization"}`), Enabled: true}))
		return err
	})
	var all sync.WaitGroup
	all.Go(func() { _ = l.Run(ctx) })
	if _, err := l.Connect(ctx, nodeA, false); err != nil {
		b.Fatal(err)
	}
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			write(func(tx store.Tx) error {
				_, err := tx.Update(put(gateway.Services, serviceID, service(9000+i%2)), 0)
				if err == nil {
					_, err = tx.Update(put(gateway.Routes, fmt.Sprintf("00000000-0000-4000-8000-%012d", 100), route(fmt.Sprint("/changed", i))), 0)
				}
				return err
			})
			_ = l.Settled(ctx, db.Revision())
		}
	})
	var worst time.Duration
	for b.Loop() {
		start := time.Now()
		if !l.HasPlugin("default", pluginID) {
			b.Fatal("a wrong answer")
		}
		worst = max(worst, time.Since(start))
	}
	b.ReportMetric(float64(worst.Nanoseconds()), "worst-ns")
	cancel()
	all.Wait()
	views.Close()
	_ = db.Close()
}

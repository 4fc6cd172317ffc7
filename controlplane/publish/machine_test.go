package publish_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/e2e/few"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/policytest"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

const meshName = "demo"

// machine is everything between the store and the proxies: views, a loop with its shadow
// check, snapshots, a real ADS server, and clients that hold what proxies would hold.
type machine struct {
	t   *rapid.T
	ids *identities
	// samples are policies of every kind.
	samples []policytest.Sample
	// pairs are the certificates of workloads, by issuer.
	pairs map[string]publish.Pair
	db    store.Store
	// reopen opens a new store over what the old store has written. It is nil for a store
	// that lives as long as the test.
	reopen func() store.Store

	views   *view.Views
	loop    *publish.Loop
	snaps   *snapshot.Store
	xds     *server.Server
	conn    *grpc.ClientConn
	end     []func()
	clients map[string]*proxyClient
	// away holds proxies that left, with what they had.
	away map[string]*proxyClient
	// bareSecrets reports that an Envoy without an agent was seen with a secret.
	bareSecrets bool
	// permissive says that callers may come with certificates, or without.
	permissive bool
	// policies are those that are planned; all of the product if it is nil.
	policies []*policy.Policy
	// wasPermissive is permissive at the last write that was foretold.
	wasPermissive bool
	// uncertain counts what was foretold without certainty. kept says that problems were foretold
	// of something of which the last good version is kept.
	uncertain int
	kept      bool
	// foretold, if set, is called with each write in place of the store.
	foretold func(func(store.Tx) error)
}

// proxyClient is one connected proxy.
type proxyClient struct {
	*xdstest.Client
	// bare clients are Envoys without an agent.
	bare    bool
	refuses atomic.Bool
}

// connects makes the loop the server's source of nodes.
type connects struct{ *publish.Loop }

func (m *machine) open() {
	log := slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	m.views = view.New(m.db, all.Kinds(), log)
	if m.policies == nil {
		m.policies = all.Policies()
	}
	m.snaps = snapshot.New()
	m.loop = publish.New(publish.Options{
		Views: m.views, Publisher: m.snaps, Parameters: parameters{}, Identities: issuers{m.ids, m}, Policies: m.policies,
		Latest: m.db.Revision, Check: true, Log: log,
	})
	ran := make(chan error, 1)
	go func() { ran <- m.loop.Run(ctx) }()
	var err error
	m.xds, err = server.New(server.Config{
		Snapshots: m.snaps, Nodes: connects{m.loop}, Secrets: m.loop, Confirmed: m.loop.Confirmed, Log: log,
	})
	m.must(err)
	lis := bufconn.Listen(1 << 20)
	g := grpc.NewServer(server.Options()...)
	m.xds.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(lis) }()
	m.conn, err = grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	m.must(err)
	m.end = []func(){
		func() { _ = m.conn.Close() },
		func() {
			bounded, done := context.WithTimeout(context.Background(), time.Minute)
			defer done()
			m.must(m.xds.Close(bounded))
			g.Stop()
			<-served
		},
		func() { cancel(); <-ran },
		m.views.Close,
	}
}

func (m *machine) close() {
	for _, c := range m.clients {
		c.Close()
	}
	for _, end := range m.end {
		end()
	}
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// write makes a write.
func (m *machine) write(fn func(store.Tx) error) {
	m.t.Helper()
	if m.foretold != nil {
		m.foretold(fn)
		return
	}
	_, err := m.db.Update(context.Background(), model.Config, fn)
	m.must(err)
}

func (m *machine) put(k *model.Kind, scope, name string, spec any) {
	m.t.Helper()
	m.write(func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		if _, err := tx.Get(k, scope, name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	})
}

func (m *machine) drop(k *model.Kind, name string) {
	m.t.Helper()
	m.write(func(tx store.Tx) error {
		if _, err := tx.Get(k, meshName, name); err != nil {
			return nil //nolint:nilerr // there is nothing to delete
		}
		return tx.Delete(k, meshName, name, 0)
	})
}

func (m *machine) exists(dataplane string) (ok bool) {
	m.must(m.db.View(context.Background(), func(r store.Reader) error {
		_, err := r.Get(mesh.Dataplanes, meshName, dataplane)
		ok = err == nil
		return nil
	}))
	return ok
}

// connect opens a stream as the agent of a proxy does (for everything), or as an Envoy
// without an agent does. Both list what they had before.
func (m *machine) connect(name string) {
	m.t.Helper()
	if m.clients[name] != nil || !m.exists(name) {
		return
	}
	c := &proxyClient{bare: name == "b-1" || name == "c-1"}
	opt := xdstest.Options{Node: mesh.NodeID(meshName, name), Relay: !c.bare, Reject: func(t resource.TypeURL, _ []string) string {
		if t == resource.Cluster && c.refuses.Load() {
			return "this proxy takes no clusters"
		}
		return ""
	}}
	if before := m.away[name]; before != nil {
		opt.Versions, opt.Subscribed = before.Versions()
		delete(m.away, name)
	}
	var err error
	c.Client, err = xdstest.Dial(context.Background(), m.conn, opt)
	m.must(err)
	m.clients[name] = c
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for { // a later action may delete the dataplane
		moved := m.snaps.Moved()
		if m.snaps.Get(mesh.NodeID(meshName, name)) != nil {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			m.t.Fatalf("proxy %s was not admitted", name)
		}
	}
}

// settle waits until every proxy has answered everything. The loop then compares what is
// published with a plan made from nothing, and settle compares what the proxies hold with
// what is published. Proxies whose dataplane was deleted are disconnected before, as in the
// product: nothing is signed for them.
func (m *machine) settle() {
	m.t.Helper()
	for name, c := range m.clients {
		if !m.exists(name) {
			c.Close()
			delete(m.clients, name)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if p := m.snaps.Wait(ctx, m.db.Revision()); !p.Done() {
		m.t.Fatalf("revision %d is not settled: %+v", m.db.Revision(), p)
	}
	for name, c := range m.clients {
		m.await(ctx, name, c)
	}
	if n := m.loop.Differences(); n > 0 {
		m.t.Fatalf("%d batches were not what a plan from nothing makes", n)
	}
}

// await waits until a proxy holds what is published for it, whichever of the two changes
// last.
func (m *machine) await(ctx context.Context, name string, c *proxyClient) {
	m.t.Helper()
	for {
		changed, moved, same := c.Changed(), m.snaps.Moved(), false
		set := m.snaps.Get(mesh.NodeID(meshName, name))
		c.See(func(v xdstest.View) { same = m.difference(c, v, set) == "" })
		if same {
			return
		}
		select {
		case <-changed:
		case <-moved:
		case <-ctx.Done():
			c.See(func(v xdstest.View) {
				m.t.Fatalf("proxy %s does not hold what is published:\n%s", name, m.difference(c, v, set))
			})
		}
	}
}

// TestMachine drives the whole machine with random writes, deletions, connections, refusals
// and restarts of the control plane.
func TestMachine(t *testing.T) {
	far := time.Now().Add(time.Hour)
	ids := &identities{node: pair(t, false, far), roots: pair(t, true, far).Certificate}
	pairs := map[string]publish.Pair{"one": pair(t, false, far), "two": pair(t, false, far), "three": pair(t, false, far)}
	databases := t.TempDir()
	keys, err := seal.Make(filepath.Join(databases, "key"), "")
	if err != nil {
		t.Fatal(err)
	}
	runs, bareSecrets, samples := 0, false, samplesOf(t)
	few.UnderRace(t, 50) // with fewer, what must be seen once may not be
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m := &machine{t: rt, ids: ids, pairs: pairs, samples: samples, clients: map[string]*proxyClient{}, away: map[string]*proxyClient{}}
		if rapid.IntRange(0, 3).Draw(rt, "database") == 0 {
			path := filepath.Join(databases, fmt.Sprintf("%d.db", runs))
			m.reopen = func() store.Store {
				db, err := sqlstore.Open(context.Background(), sqlstore.Options{
					Path: path, Kinds: slices.Concat(mesh.Kinds(), all.Kinds(), gateway.Kinds()), Sealer: keys, Log: slog.New(slog.DiscardHandler),
				})
				m.must(err)
				return db
			}
			m.db = m.reopen()
		} else {
			m.db = memstore.New()
		}
		m.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
		for _, d := range all.Defaults() {
			m.put(d.Kind, meshName, d.Prefix+meshName, d.Spec())
		}
		m.put(mesh.Trusts, meshName, meshName, &mesh.Trust{Backend: "ca", Issuer: "one", Roots: ids.roots})
		m.open()
		defer func() {
			m.close()
			m.must(m.db.Close())
			bareSecrets = bareSecrets || m.bareSecrets
		}()
		rt.Repeat(m.actions())
		// What was refused is not sent again before it changes. After a change, proxies
		// that no longer refuse hold everything, and so do proxies that start anew.
		m.settle()
		for _, c := range m.clients {
			c.refuses.Store(false)
		}
		m.put(circuitbreaker.Kind, meshName, "last", breaker(mesh.AnyValue, mesh.AnyValue, 77))
		m.settle()
		// What changes while proxies are away reaches them when they return.
		for name, c := range m.clients {
			c.Close()
			m.away[name] = c
		}
		clear(m.clients)
		m.put(circuitbreaker.Kind, meshName, "last", breaker(mesh.AnyValue, mesh.AnyValue, 78))
		for _, name := range []string{"a-1", "a-2", "b-1", "c-1"} {
			m.connectAsDesired(name)
		}
		// Chance seldom gives a secret to an Envoy without an agent. Every run ends with one that has it.
		m.permissive = false
		m.put(mesh.Meshes, "", meshName, through(true, false))
		m.put(mesh.Dataplanes, meshName, "b-1", dataplane("127.0.0.1", "b", "http", "a", "b"))
		m.connect("b-1")
		m.put(mesh.Trusts, meshName, meshName, &mesh.Trust{Backend: "ca", Issuer: "three", Roots: ids.roots})
		m.settle()
	})
	if !bareSecrets {
		t.Error("no Envoy without an agent ever had a secret")
	}
}

// connectAsDesired connects a proxy, which must get the set that was desired for it while it
// was away. Nobody can know before that a proxy has no filter, nor in a PERMISSIVE mesh whether
// others may call it with certificates from now on.
func (m *machine) connectAsDesired(name string) {
	m.t.Helper()
	m.settle()
	if !m.exists(name) {
		return
	}
	want, err := m.loop.Desired(context.Background(), mesh.NodeID(meshName, name))
	m.must(err)
	m.connect(name)
	m.settle()
	if got := m.snaps.Get(mesh.NodeID(meshName, name)); !m.clients[name].bare && !m.permissive && !got.Equal(want) {
		for _, t := range resource.Types {
			m.t.Errorf("%s of %s: %+v", t, name, got.Diff(want, t))
		}
		m.t.Fatalf("%s got something else than what it should have", name)
	}
	again, err := m.loop.Desired(context.Background(), mesh.NodeID(meshName, name))
	if m.must(err); !m.snaps.Get(mesh.NodeID(meshName, name)).Equal(again) {
		m.t.Fatalf("%s has something else than what it should have", name)
	}
}

// actions returns the actions that rapid chooses from.
func (m *machine) actions() map[string]func(*rapid.T) {
	names, policies := []string{"a-1", "a-2", "b-1", "c-1"}, []string{"x", "y"}
	services := []string{"a", "b", "c"}
	anyOf := append([]string{mesh.AnyValue}, services...)
	serial := uint32(0)
	of := func(rt *rapid.T, from []string) string { return rapid.SampledFrom(from).Draw(rt, "of") }
	return map[string]func(*rapid.T){
		"dataplane": func(rt *rapid.T) {
			address := fmt.Sprintf("127.0.0.%d", rapid.IntRange(1, 4).Draw(rt, "address"))
			m.put(mesh.Dataplanes, meshName, of(rt, names), dataplane(address, of(rt, services), of(rt, []string{"http", "tcp", "grpc"}), of(rt, services), of(rt, services)))
		},
		"delete": func(rt *rapid.T) { m.drop(mesh.Dataplanes, of(rt, names)) },
		"breaker": func(rt *rapid.T) {
			serial++
			m.put(circuitbreaker.Kind, meshName, of(rt, policies), breaker(of(rt, anyOf), of(rt, anyOf), serial))
		},
		"policies": func(rt *rapid.T) {
			for range rapid.IntRange(1, 3).Draw(rt, "policies") {
				s, names := rapid.SampledFrom(m.samples).Draw(rt, "sample"), map[string]string{}
				for _, service := range policytest.Services {
					names[service] = of(rt, services)
				}
				spec, err := s.Spec(names)
				m.must(err)
				m.put(s.Kind, meshName, of(rt, policies), spec)
			}
		},
		"split": func(rt *rapid.T) {
			weight := uint32(rapid.IntRange(1, 5).Draw(rt, "weight"))
			m.put(trafficroute.Kind, meshName, of(rt, policies), &trafficroute.Spec{Connection: between(mesh.AnyValue, of(rt, services)), Conf: &trafficroute.Conf{
				Split: []trafficroute.Split{{Weight: &weight, Destination: mesh.Tags{mesh.TagService: of(rt, services)}}},
			}})
		},
		"no policy": func(rt *rapid.T) {
			for range rapid.IntRange(1, 3).Draw(rt, "policies") {
				m.drop(rapid.SampledFrom(m.samples).Draw(rt, "like").Kind, of(rt, policies))
			}
		},
		"mesh": func(rt *rapid.T) {
			spec := &mesh.Mesh{MTLS: &mesh.MTLS{Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin, Mode: of(rt, []string{"", mesh.ModePermissive})}}}}
			if rapid.Bool().Draw(rt, "on") {
				spec.MTLS.EnabledBackend = "ca"
			}
			if rapid.Bool().Draw(rt, "backends") {
				spec.Tracing, spec.Logging = policytest.Mesh().Tracing, policytest.Mesh().Logging
			}
			m.permissive = spec.MTLS.EnabledBackend != "" && spec.MTLS.Backends[0].Mode == mesh.ModePermissive
			m.put(mesh.Meshes, "", meshName, spec)
		},
		"issuer": func(rt *rapid.T) {
			m.put(mesh.Trusts, meshName, meshName, &mesh.Trust{Backend: "ca", Issuer: of(rt, []string{"one", "two"}), Roots: m.ids.roots})
		},
		"connect": func(rt *rapid.T) { m.connect(of(rt, names)) },
		"disconnect": func(rt *rapid.T) {
			name := of(rt, names)
			if c := m.clients[name]; c != nil {
				c.Close()
				delete(m.clients, name)
				if !c.refuses.Load() {
					m.away[name] = c
				}
			}
		},
		"refuse": func(rt *rapid.T) {
			if c := m.clients[of(rt, names)]; c != nil {
				c.refuses.Store(true)
			}
		},
		"accept": func(rt *rapid.T) {
			if c := m.clients[of(rt, names)]; c != nil {
				c.refuses.Store(false)
			}
		},
		"restart": func(*rapid.T) {
			refused := map[string]bool{}
			for name, c := range m.clients {
				refused[name] = c.refuses.Load()
			}
			m.close()
			if m.reopen != nil {
				m.must(m.db.Close())
				m.db = m.reopen()
			}
			before := m.clients
			m.clients = map[string]*proxyClient{}
			m.open()
			for name, c := range before {
				if !refused[name] {
					m.away[name] = c
				}
				m.connect(name)
			}
		},
		"": func(rt *rapid.T) {
			if rapid.IntRange(0, 3).Draw(rt, "settle") == 0 {
				m.settle()
			}
		},
	}
}

// dataplane returns a dataplane that serves one service and consumes others.
func dataplane(address, service, protocol string, consumes ...string) *mesh.Dataplane {
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Inbound: []mesh.Inbound{{
		Port: 8080, ServicePort: 9080, Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: protocol},
	}}}}
	for i, s := range consumes {
		d.Networking.Outbound = append(d.Networking.Outbound, mesh.Outbound{Port: uint32(10001 + i), Tags: mesh.Tags{mesh.TagService: s}})
	}
	return d
}

// samplesOf returns the samples of every kind of policy.
func samplesOf(t *testing.T) (out []policytest.Sample) {
	t.Helper()
	for _, k := range all.Kinds() {
		out = append(out, policytest.Samples(t, filepath.Join("..", "..", "xds", "policy"), k)...)
	}
	return out
}

func between(source, destination string) mesh.Connection {
	return mesh.Connection{
		Sources:      []mesh.Selector{{Match: mesh.Tags{mesh.TagService: source}}},
		Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: destination}}},
	}
}

func breaker(source, destination string, connections uint32) *circuitbreaker.Spec {
	return &circuitbreaker.Spec{Connection: between(source, destination), Conf: &circuitbreaker.Conf{Thresholds: &circuitbreaker.Thresholds{MaxConnections: &connections}}}
}

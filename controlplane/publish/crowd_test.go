package publish_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshca"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// proxiesVariable sets how many proxies connect at once.
const proxiesVariable = "MESHGATE_TEST_PROXIES"

// Limits of what the crowd may cost. They include the clients, which hold what they are
// sent.
const (
	crowdWithin   = 5 * time.Minute
	heapAtRest    = 32 << 20
	heapOfOne     = 384 << 10
	servicesShare = 25 // proxies of one service
)

// gauge counts concurrent operations.
type gauge struct{ now, peak, total atomic.Int64 }

func (g *gauge) enter() (leave func()) {
	n := g.now.Add(1)
	g.total.Add(1)
	for old := g.peak.Load(); n > old && !g.peak.CompareAndSwap(old, n); old = g.peak.Load() {
	}
	return func() { g.now.Add(-1) }
}

// crowd is a control plane without its APIs, and counters of what happens in it.
type crowd struct {
	t     *testing.T
	db    store.Store
	snaps *snapshot.Store
	lis   *bufconn.Listener
	// builds counts cells being built, signing counts certificates being signed.
	builds, signing gauge
	heap            atomic.Uint64
	// returned counts streams that ended before their proxy had everything.
	returned  atomic.Int64
	workloads *meshca.Workloads
}

// Workload implements publish.Identities.
func (c *crowd) Workload(ctx context.Context, meshName, dataplane string) (publish.Workload, error) {
	defer c.signing.enter()()
	c.look()
	leaf, err := c.workloads.Issue(ctx, meshName, dataplane)
	if err != nil {
		return publish.Workload{}, err
	}
	return publish.Workload{Pair: publish.Pair{Certificate: leaf.Certificate, Key: leaf.Key}, Issuer: leaf.Issuer, Sources: leaf.Sources}, nil
}

// look records how much memory is in use, including garbage.
func (c *crowd) look() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	for n, old := sample[0].Value.Uint64(), c.heap.Load(); n > old && !c.heap.CompareAndSwap(old, n); old = c.heap.Load() {
	}
}

// policies returns the policies of meshes, with edits of clusters counted.
func (c *crowd) policies() []*policy.Policy {
	out := slices.Clone(all.Policies())
	for i, p := range out {
		if p.Cluster == nil {
			continue
		}
		counted := *p
		counted.Cluster = func(d *draft.Cluster, s *policy.Selection) error {
			defer c.builds.enter()()
			return p.Cluster(d, s)
		}
		out[i] = &counted
	}
	return out
}

// fill stores a mesh with mutual TLS and its dataplanes. Each dataplane serves one service
// and consumes five.
func (c *crowd) fill(n int) {
	c.t.Helper()
	root, key, err := meshca.GenerateRoot(meshName, "ca", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	services := max(6, n/servicesShare)
	_, err = c.db.Update(c.t.Context(), model.Config, func(tx store.Tx) error {
		list := []*model.Resource{
			{Kind: mesh.Meshes, Name: meshName, Spec: &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}}}}},
			{Kind: mesh.Trusts, Scope: meshName, Name: meshName, Spec: &mesh.Trust{Backend: "ca", Issuer: identity.Issuer(root), Roots: root}},
			{Kind: meshca.Authorities, Scope: meshName, Name: meshName, Spec: &meshca.Authority{Backend: "ca", Current: identity.KeyPair{Certificate: root, Key: key}}},
		}
		for _, d := range all.Defaults() {
			list = append(list, &model.Resource{Kind: d.Kind, Scope: meshName, Name: d.Prefix + meshName, Spec: d.Spec()})
		}
		for i := range n {
			var consumes []string
			for j := range 5 {
				consumes = append(consumes, fmt.Sprintf("s-%d", (i+1+j)%services))
			}
			list = append(list, &model.Resource{Kind: mesh.Dataplanes, Scope: meshName, Name: fmt.Sprintf("d-%d", i),
				Spec: dataplane(fmt.Sprintf("10.1.%d.%d", i/250, 1+i%250), fmt.Sprintf("s-%d", i%services), "http", consumes...)})
		}
		for _, r := range list {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

// open starts everything between the store and the wire.
func (c *crowd) open() {
	c.t.Helper()
	l := publish.Begin(c.t, c.db, publish.Options{
		Publisher: c.snaps, Parameters: parameters{}, Identities: workloadsOf{&identities{}, c}, Policies: c.policies(),
	}, nil)
	srv, err := server.New(server.Config{Snapshots: c.snaps, Nodes: connects{l}, Secrets: l, Confirmed: l.Confirmed, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		c.t.Fatal(err)
	}
	g := grpc.NewServer(server.Options()...)
	srv.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(c.lis) }()
	c.t.Cleanup(func() {
		bounded, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := srv.Close(bounded); err != nil {
			c.t.Error(err)
		}
		g.Stop()
		<-served
	})
}

// workloadsOf takes the certificates of workloads from a crowd.
type workloadsOf struct {
	*identities
	crowd *crowd
}

// Workload implements publish.Identities.
func (w workloadsOf) Workload(ctx context.Context, meshName, dataplane string) (publish.Workload, error) {
	return w.crowd.Workload(ctx, meshName, dataplane)
}

// full waits until a proxy holds all that is published for it, as an Envoy does that was
// told everything by name. ended reports that the stream ended before.
func (c *crowd) full(ctx context.Context, node string, client *xdstest.Client) (ended bool, err error) {
	for {
		changed, missing := client.Changed(), ""
		client.See(func(v xdstest.View) {
			if missing = c.missing(node, v); missing == "" && v.Warming() > 0 {
				missing = "clusters are not warm"
			}
			if err := v.Err(); err != nil {
				missing, ended = err.Error(), true
			}
		})
		if missing == "" {
			return false, nil
		}
		if ended {
			return true, fmt.Errorf("%s: %s", node, missing)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false, fmt.Errorf("%s: %s", node, missing)
		}
	}
}

// come connects a proxy until it has everything. On a busy machine the server's time limits
// end some connections before they are served. An Envoy then reconnects; a client that did
// not would stay without its configuration.
func (c *crowd) come(ctx context.Context, node string, conn *grpc.ClientConn) error {
	for {
		open, end := context.WithCancel(context.WithoutCancel(ctx))
		c.t.Cleanup(end)
		keep := context.AfterFunc(ctx, end) // dialling stops when ctx ends
		client, err := xdstest.Dial(open, conn, xdstest.Options{Node: node})
		keep()
		if err != nil {
			return err
		}
		c.t.Cleanup(client.Close)
		ended, err := c.full(ctx, node, client)
		if !ended || ctx.Err() != nil {
			return err
		}
		c.returned.Add(1)
	}
}

func (c *crowd) missing(node string, v xdstest.View) string {
	set := c.snaps.Get(node)
	if set.Len(resource.Listener) == 0 {
		return "nothing is published"
	}
	for _, t := range []resource.TypeURL{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
		for r := range set.Each(t) {
			if v.Version(t, r.Name) != r.Version {
				return fmt.Sprintf("%s %s", t, r.Name)
			}
		}
	}
	if v.Version(resource.Secret, mesh.SecretIdentity(meshName)) == "" {
		return "the identity"
	}
	return ""
}

// connect opens one connection for each proxy, all at once, and returns how long each proxy
// needed to get everything.
func (c *crowd) connect(n int) (took []time.Duration) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), crowdWithin)
	defer cancel()
	took = make([]time.Duration, n)
	failures := make(chan error, n)
	var work sync.WaitGroup
	begin := time.Now()
	for i := range n {
		conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return c.lis.DialContext(ctx) }))
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = conn.Close() })
		work.Go(func() {
			node := mesh.NodeID(meshName, fmt.Sprintf("d-%d", i))
			err := c.come(ctx, node, conn)
			if took[i] = time.Since(begin); err != nil {
				failures <- err
			}
		})
	}
	work.Wait()
	close(failures)
	if err, failed := <-failures; failed {
		c.t.Fatalf("%d of %d proxies are without their configuration after %s, %d streams ended before, one: %v", len(failures)+1, n, crowdWithin, c.returned.Load(), err)
	}
	slices.Sort(took)
	return took
}

// TestCrowdConnectsAtOnce: proxies that all reconnect in the same moment, as after an
// outage of the control plane, all have their whole configuration soon. Each cell is built
// by one builder at a time, and no cell is built again for each proxy.
func TestCrowdConnectsAtOnce(t *testing.T) {
	n := 500
	if text := os.Getenv(proxiesVariable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	c := &crowd{t: t, db: memstore.New(), snaps: snapshot.New(), lis: bufconn.Listen(16 << 10)}
	c.workloads = meshca.NewWorkloads(c.db, time.Now)
	c.fill(n)
	c.open()
	took := c.connect(n)
	c.look()
	runtime.GC()
	var rest runtime.MemStats
	runtime.ReadMemStats(&rest)
	t.Logf("%d proxies: the first has everything after %v, half after %v, 99 of 100 after %v, all after %v; %d streams ended before", n, took[0], took[n/2], took[n*99/100], took[n-1], c.returned.Load())
	t.Logf("%d edits of clusters, %d at once; %d certificates, %d at once; heap %d MiB, %d MiB at its peak",
		c.builds.total.Load(), c.builds.peak.Load(), c.signing.total.Load(), c.signing.peak.Load(), rest.HeapAlloc>>20, c.heap.Load()>>20)
	if c.builds.peak.Load() > int64(runtime.GOMAXPROCS(0)) {
		t.Errorf("%d cells were built at once", c.builds.peak.Load())
	}
	// The consumers of a service share its cluster, and three policies edit it.
	if most := int64(4 * max(6, n/servicesShare)); c.builds.total.Load() > most {
		t.Errorf("clusters were edited %d times, %d would do", c.builds.total.Load(), most)
	}
	if most := uint64(heapAtRest + n*heapOfOne); c.heap.Load() > most {
		t.Errorf("%d MiB were in use, %d may be", c.heap.Load()>>20, most>>20)
	}
}

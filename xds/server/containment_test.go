package server_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/places"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// reports tells of the first response of a stream and the end of the stream.
type reports struct {
	server.Nobody
	sent, gone chan server.Event
}

func (r reports) Disconnected(e server.Event) { r.gone <- e }

func (r reports) Sent(e server.Event) {
	select {
	case r.sent <- e:
	default:
	}
}

// A stream whose proxy does not read ends in time, even if responses wait to be written. A
// revoked stream ends at once, not only when its proxy reads again.
func TestProxyThatDoesNotRead(t *testing.T) {
	// The first response fills the connection, the second waits.
	var big []*resource.Resource
	for _, name := range []string{"a", "b", "c"} {
		big = append(big, resource.New(resource.Cluster, name, make([]byte, 1<<20)))
	}
	for name, revoked := range map[string]bool{"its time is over": false, "it is revoked": true} {
		t.Run(name, func(t *testing.T) {
			d := reports{sent: make(chan server.Event, 1), gone: make(chan server.Event, 1)}
			gate := &revocable{}
			r := setup(t, func(c *server.Config) {
				c.Observer, c.Auth = d, gate
				c.Limits.SendTimeout = time.Minute
				if !revoked {
					c.Limits.SendTimeout = 50 * time.Millisecond
				}
			})
			r.publish(big...)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "good")
			stream, err := discovery.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := stream.Send(&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: string(resource.Cluster)}); err != nil {
				t.Fatal(err)
			}
			if revoked {
				select {
				case <-d.sent:
				case <-time.After(patience):
					t.Fatal("nothing was sent")
				}
				gate.revoked.Store(true)
				r.srv.Recheck(t.Context())
			}
			select {
			case <-d.gone:
			case <-time.After(patience):
				t.Fatal("the stream is still open")
			}
		})
	}
}

// revocable accepts every token until revoked is set.
type revocable struct {
	revoked atomic.Bool
}

func (v *revocable) Known(context.Context, string) error { return nil }

func (v *revocable) Authenticate(context.Context, string, string) (time.Time, error) {
	if v.revoked.Load() {
		return time.Time{}, server.ErrUnauthenticated
	}
	return time.Time{}, nil
}

// theirs publishes resources and a secret for another node, and one route table for the node
// itself, which the test requests last.
func theirs(t *testing.T) (r *rig, m *maker, own *resource.Resource) {
	m = &maker{body: identity(t, 1)}
	r = setup(t, func(c *server.Config) { c.Secrets = m })
	own = xdstest.Routes("own", "own", 0)
	r.snaps.Publish(map[string]*resource.Set{
		"other.web-1": resource.NewSet(world(), map[string]string{"identity": ""}),
		nodeID:        resource.NewSet([]*resource.Resource{own}, map[string]string{}),
	}, 1)
	return r, m, own
}

var theirNames = []string{"a", "in", "r", "identity", "other.web-1", "other.web-1/r"}

// Names that exist only for another node get the same answer as names that exist nowhere:
// nothing, or an empty assignment that contains only its name.
func TestNamesOfAnotherNodeGiveNothing(t *testing.T) {
	var empties [][]byte
	for _, n := range theirNames {
		empties = append(empties, resource.Empty(n).Body)
	}
	harmless := func(t *testing.T, url resource.TypeURL, body []byte) {
		t.Helper()
		known := slices.ContainsFunc(empties, func(e []byte) bool { return string(e) == string(body) })
		if url != resource.Endpoint || !known {
			t.Errorf("got a %s of another node: %q", url, body)
		}
	}
	unasked := func(t *testing.T, m *maker) {
		t.Helper()
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.asked != 0 {
			t.Errorf("the secret of another node was made %d times", m.asked)
		}
	}
	t.Run("delta", func(t *testing.T) {
		r, m, own := theirs(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		g, err := discovery.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		node := &corev3.Node{Id: nodeID}
		for _, url := range append(resource.Types[:], resource.Route) {
			q := &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: string(url), ResourceNamesSubscribe: theirNames}
			if node == nil && url == resource.Route {
				q.ResourceNamesSubscribe = append(slices.Clone(theirNames), "own")
			}
			if err := g.Send(q); err != nil {
				t.Fatal(err)
			}
			if url == resource.Secret {
				node = nil
			}
		}
		for {
			m, err := g.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if rs := m.GetResources(); len(rs) == 1 && rs[0].GetVersion() == own.Version {
				break
			}
			for _, x := range m.GetResources() {
				harmless(t, resource.TypeURL(m.GetTypeUrl()), x.GetResource().GetValue())
			}
		}
		unasked(t, m)
	})
	t.Run("state of the world", func(t *testing.T) {
		r, m, own := theirs(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		g, err := discovery.NewAggregatedDiscoveryServiceClient(r.conn).StreamAggregatedResources(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, url := range resource.Types {
			if err := g.Send(&discovery.DiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: string(url), ResourceNames: theirNames}); err != nil {
				t.Fatal(err)
			}
		}
		if err := g.Send(&discovery.DiscoveryRequest{TypeUrl: string(resource.Route), ResourceNames: append(slices.Clone(theirNames), "own")}); err != nil {
			t.Fatal(err)
		}
		for {
			m, err := g.Recv()
			if err != nil {
				t.Fatal(err)
			}
			if rs := m.GetResources(); len(rs) == 1 && string(rs[0].GetValue()) == string(own.Body) {
				break
			}
			for _, x := range m.GetResources() {
				harmless(t, resource.TypeURL(m.GetTypeUrl()), x.GetValue())
			}
		}
		unasked(t, m)
	})
}

func TestDropKeepsOpenStreamsUntouched(t *testing.T) {
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	n := len(c.Messages())
	r.snaps.Drop(nodeID)
	// A name that is subscribed again is still answered, before everything else.
	c.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Route), ResourceNamesSubscribe: []string{"r"}})
	c.WaitFor(t, "the routes again", func(v xdstest.View) bool { return len(v.Messages()) > n })
	want(t, sent(c, n), xdstest.Message{Type: resource.Route, Names: []string{"r"}})
	// A publication for other nodes sends nothing either; one for this node does.
	r.snaps.Publish(map[string]*resource.Set{"other": resource.NewSet(nil, nil)}, 2)
	r.rev = 2
	r.settle(t, r.publish(clusterA, endA, listener, routesB))
	c.Request(resource.Route).Equals(t, routesB)
	want(t, sent(c, n+1), xdstest.Message{Type: resource.Route, Names: []string{"r"}})
}

func TestCloseEndsAThousandStreamsInTime(t *testing.T) {
	const streams, perConn = 1000, 100
	r := setup(t, nil)
	r.publish(world()...)
	var conn *grpc.ClientConn
	clients := make([]*xdstest.Client, streams)
	for i := range clients {
		if i%perConn == 0 {
			conn = r.connect(t)
		}
		node := fmt.Sprintf("demo.%d", i)
		r.snaps.Publish(map[string]*resource.Set{node: resource.NewSet(world(), nil)}, 1)
		c, err := xdstest.Dial(t.Context(), conn, xdstest.Options{Node: node, Hold: i%10 == 0})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		clients[i] = c
	}
	for i, c := range clients {
		if i%10 != 0 { // the others do not answer
			c.Request(resource.Route).Equals(t, routesA)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second) // less than SendTimeout: it waits for no answer
	defer cancel()
	if err := r.srv.Close(ctx); err != nil {
		t.Fatal(err)
	}
	for _, c := range clients {
		ends(t, c, codes.Unavailable)
	}
	if n := r.srv.Streams(); n != 0 {
		t.Fatalf("%d streams are left", n)
	}
	late := r.dial(t, xdstest.Options{})
	ends(t, late, codes.Unavailable)
}

// heap returns the size in bytes of the heap in use after a collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A client with a valid token that keeps opening streams loses only its own oldest ones.
func TestTenThousandStreamsOfOneNode(t *testing.T) {
	const opened, mine = 10000, 4
	r := setup(t, func(c *server.Config) { c.Limits.NodeStreams = mine })
	other := started(t, r, xdstest.Options{})
	greedy := r.connect(t)
	r.snaps.Publish(map[string]*resource.Set{"greedy": resource.NewSet(world(), nil)}, 2)
	r.rev = 2
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	before, peak := heap(), 0
	var open []func() (map[string]string, error)
	for i := range opened {
		recv, err := deltaStream(ctx, greedy, "greedy")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := recv(); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
		open = append(open, recv)
		if len(open) > mine {
			if _, err := open[0](); status.Code(err) != codes.ResourceExhausted {
				t.Fatalf("the oldest stream ended with %v", err)
			}
			open = open[1:]
		}
		peak = max(peak, r.srv.Streams())
		if i%1000 == 0 {
			routes := xdstest.Routes("r", fmt.Sprint(i), 0)
			r.publish(clusterA, endA, listener, routes)
			other.Request(resource.Route).Equals(t, routes)
		}
	}
	if after := heap(); peak > mine+16 || after > before+32<<20 {
		t.Fatalf("%d streams at once, heap %d before, %d after", peak, before, after)
	}
}

// Streams of a client that sends no request take places from each other, not from proxies.
// Proxies are served all the time, and new ones are let in.
func TestTenThousandSilentStreams(t *testing.T) {
	const conns, perConn, silent = 100, 100, 64
	for name, tc := range map[string]struct {
		limits server.Limits
		// most is the maximum number of streams at once. It includes streams that were told to
		// end but have not ended yet.
		most int
	}{
		"the oldest silent ones end": {server.Limits{Silent: silent, FirstRequest: time.Hour}, silent + 5*perConn},
		"no more in total":           {server.Limits{Places: places.Limits{All: silent}, FirstRequest: time.Hour}, silent + 5*perConn},
	} {
		t.Run(name, func(t *testing.T) {
			limits := tc.limits
			r := setup(t, func(c *server.Config) { c.Limits = limits })
			old := started(t, r, xdstest.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			before := heap()
			ended := make(chan error, conns*perConn)
			var work sync.WaitGroup
			var peak int
			for range conns {
				conn := r.connect(t)
				for range perConn {
					g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
					if err != nil {
						t.Fatal(err)
					}
					work.Go(func() {
						_, err := g.Recv()
						ended <- err
					})
				}
				peak = max(peak, r.srv.Streams())
			}
			kept := silent
			if limits.Silent == 0 {
				kept-- // the proxy takes one of the places
			}
			for range conns*perConn - kept {
				if err := within(t, "the end of a stream", ended); status.Code(err) != codes.ResourceExhausted {
					t.Fatalf("a stream ended with %v", err)
				}
			}
			if after := heap(); peak > tc.most || r.srv.Streams() != silent+min(limits.Silent, 1) || after > before+256<<20 {
				t.Fatalf("%d streams (%d at most), heap %d before, %d after", r.srv.Streams(), peak, before, after)
			}
			r.publish(clusterA, endA, listener, routesB)
			old.Request(resource.Route).Equals(t, routesB)
			if limits.Silent > 0 {
				r.dial(t, xdstest.Options{}).Request(resource.Route).Equals(t, routesB)
			}
			cancel()
			work.Wait()
		})
	}
}

// The number of streams on a connection is limited. Further streams wait at the client until
// one ends; other connections are served.
func TestStreamsOfOneConnectionAreBounded(t *testing.T) {
	const limit = 128
	r := setup(t, nil)
	c := started(t, r, xdstest.Options{})
	conn := r.connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := func(ctx context.Context) error {
		_, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
		return err
	}
	r.snaps.Publish(map[string]*resource.Set{"greedy": resource.NewSet(world(), nil)}, 2)
	r.rev = 2
	recv, err := deltaStream(ctx, conn, "greedy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recv(); err != nil { // the client has received the server's settings by now
		t.Fatal(err)
	}
	for i := range limit - 1 {
		if err := open(ctx); err != nil {
			t.Fatalf("stream %d: %v", i, err)
		}
	}
	short, stop := context.WithTimeout(ctx, 100*time.Millisecond)
	defer stop()
	if err := open(short); status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("a further stream was opened: %v", err)
	}
	r.publish(clusterA, endA, listener, routesB)
	c.Request(resource.Route).Equals(t, routesB)
}

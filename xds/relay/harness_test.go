package relay_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	node     = "demo.web-1"
	password = "password of the relay"
	// patience bounds the wait for what is expected. A busy machine takes long, and no test passes
	// because the time is up.
	patience = time.Minute
)

type anyNode struct{}

func (anyNode) Connect(context.Context, string, bool) (func(), error) { return nil, nil }

// plane is a control plane on a loopback port that can be killed.
type plane struct {
	snaps *snapshot.Store
	sent  responses
	addr  string
	kill  func()
	rev   uint64
}

func startPlane(t *testing.T, addr string) *plane {
	t.Helper()
	p := &plane{snaps: snapshot.New(), sent: responses{moved: make(chan struct{})}}
	srv, err := server.New(server.Config{Snapshots: p.snaps, Nodes: anyNode{}, Observer: &p.sent, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	lis, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p.addr = lis.Addr().String()
	g := grpc.NewServer(server.Options()...)
	srv.Register(g)
	done := make(chan struct{})
	go func() { defer close(done); _ = g.Serve(lis) }()
	killed := false
	p.kill = func() {
		if killed {
			return
		}
		killed = true
		g.Stop()
		<-done
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	t.Cleanup(p.kill)
	return p
}

func (p *plane) publish(rs ...*resource.Resource) uint64 {
	p.rev++
	p.snaps.Publish(map[string]*resource.Set{node: resource.NewSet(rs, nil)}, p.rev)
	return p.rev
}

// publishWith publishes resources and, unless it is nil, a secret.
func (p *plane) publishWith(secret *resource.Resource, rs ...*resource.Resource) uint64 {
	p.rev++
	secrets := map[string]string{}
	if secret != nil {
		rs = append(rs, secret)
		secrets[secret.Name] = ""
	}
	p.snaps.Publish(map[string]*resource.Set{node: resource.NewSet(rs, secrets)}, p.rev)
	return p.rev
}

// settle waits until the Envoy behind the relay has answered.
func (p *plane) settle(t *testing.T, rev uint64) snapshot.Progress {
	t.Helper()
	return p.until(t, rev, func(int, []string) bool { return true })
}

// until waits until the Envoy behind the relay has answered and a condition holds for the
// number of waiting nodes and the refusals.
func (p *plane) until(t *testing.T, rev uint64, cond func(waiting int, refused []string) bool) snapshot.Progress {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		moved := p.snaps.Moved()
		got := p.snaps.Progress(rev)
		var refused []string
		for _, x := range got.Rejected {
			refused = append(refused, x.Error)
		}
		if got.Done() && len(got.Acknowledged)+len(got.Rejected) > 0 && cond(len(got.Waiting), refused) {
			return got
		}
		select {
		case <-moved:
		case <-ctx.Done():
			t.Fatalf("revision %d is not answered: %+v", rev, got)
		}
	}
}

// responses counts the responses that a plane has sent.
type responses struct {
	server.Nobody
	mu    sync.Mutex
	count int
	// newest is the newest revision in a response.
	newest uint64
	moved  chan struct{}
}

// Sent implements server.Observer.
func (r *responses) Sent(e server.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count, r.newest = r.count+1, max(r.newest, e.Revision)
	close(r.moved)
	r.moved = make(chan struct{})
}

func (r *responses) state() (count int, newest uint64, moved <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count, r.newest, r.moved
}

// responds waits until a response with the revision was sent, or no response was necessary.
func (p *plane) responds(t *testing.T, rev uint64) {
	t.Helper()
	late := time.After(patience)
	for {
		_, newest, sent := p.sent.state()
		moved := p.snaps.Moved()
		if newest >= rev || p.snaps.Progress(rev).Done() {
			return
		}
		select {
		case <-sent:
		case <-moved:
		case <-late:
			t.Fatalf("nothing of revision %d is sent: %+v", rev, p.snaps.Progress(rev))
		}
	}
}

// within fails the test unless a channel is closed in time.
func within(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("not in time: %s", what)
	}
}

// startRelay runs a relay in a directory. The returned function stops it.
func startRelay(t *testing.T, dir, addr string) (*relay.Relay, func()) {
	t.Helper()
	return startRelayWith(t, dir, addr, func(*relay.Config) {})
}

// startRelayOn does what startRelay does, with the bounds of a machine.
func startRelayOn(t *testing.T, dir, addr string, files machine.Bounds) (*relay.Relay, func()) {
	t.Helper()
	return startRelayWith(t, dir, addr, func(c *relay.Config) { c.Machine = files })
}

// startRelayWith does what startRelay does, with a changed configuration.
func startRelayWith(t *testing.T, dir, addr string, change func(*relay.Config)) (*relay.Relay, func()) {
	t.Helper()
	cfg := relay.Config{
		Node: node, Password: password, Socket: filepath.Join(dir, "run", "xds.sock"), Cache: filepath.Join(dir, "cache"),
		Dial: func(context.Context) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:///"+addr, append(relay.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		},
		Token: func() (string, error) { return "token", nil },
		Log:   slog.New(slog.DiscardHandler),
	}
	change(&cfg)
	r, err := relay.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop := func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	}
	t.Cleanup(stop)
	<-r.Bound()
	return r, stop
}

// local returns a client on the relay's socket.
func local(t *testing.T, dir string, opt xdstest.Options) *xdstest.Client {
	t.Helper()
	return localOn(t, socket(t, dir), opt)
}

// socket returns a connection to the relay's socket.
func socket(t *testing.T, dir string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "run", "xds.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func localOn(t *testing.T, conn *grpc.ClientConn, opt xdstest.Options) *xdstest.Client {
	t.Helper()
	opt.Node, opt.Token = node, "Bearer "+password
	c, err := xdstest.Dial(context.Background(), conn, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

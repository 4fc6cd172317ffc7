package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"github.com/meshgate/meshgate/xds/xdstest"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nodeID = "demo.web-1"

// patience bounds the wait for what is expected. A busy machine takes long, and no test passes
// because the time is up.
const patience = time.Minute

// rig is a real server with an in-memory connection.
type rig struct {
	snaps *snapshot.Store
	srv   *server.Server
	conn  *grpc.ClientConn
	lis   *bufconn.Listener
	rev   uint64
}

type nodes struct{ panics bool }

func (n nodes) Connect(_ context.Context, id string, _ bool) (func(), error) {
	if n.panics && id == "boom" {
		panic("boom")
	}
	if id == "ghost" {
		return nil, server.ErrUnknownNode
	}
	return func() {}, nil
}

type auth struct{}

func (auth) Known(_ context.Context, token string) error {
	switch token {
	case "good", "expired", "other", "unjudged later":
		return nil
	}
	return unproven(token)
}

// unproven is what is said of any other token.
func unproven(token string) error {
	if token == "unjudged" {
		return errStoreAway
	}
	return errors.Join(server.ErrUnauthenticated, errors.New("internal detail"))
}

var errStoreAway = errors.New("the store is away")

func (auth) Authenticate(_ context.Context, node, token string) (time.Time, error) {
	switch token {
	case "good":
		return time.Time{}, nil
	case "expired":
		return time.Now().Add(-time.Second), nil
	case "other":
		return time.Time{}, server.ErrForbidden
	case "unjudged later":
		return time.Time{}, errStoreAway
	}
	return time.Time{}, unproven(token)
}

func setup(t testing.TB, change func(*server.Config)) *rig {
	t.Helper()
	cfg := server.Config{Snapshots: snapshot.New(), Nodes: nodes{panics: true}, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	srv, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	lis := bufconn.Listen(1 << 20)
	g := grpc.NewServer(server.Options()...)
	srv.Register(g)
	done := make(chan error, 1)
	go func() { done <- g.Serve(lis) }()
	r := &rig{snaps: cfg.Snapshots, srv: srv, lis: lis}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		g.Stop()
		<-done
	})
	r.conn = r.connect(t)
	return r
}

// connect opens an additional connection.
func (r *rig) connect(t testing.TB) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return r.lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (r *rig) publish(rs ...*resource.Resource) uint64 {
	r.rev++
	r.snaps.Publish(map[string]*resource.Set{nodeID: resource.NewSet(rs, nil)}, r.rev)
	return r.rev
}

func (r *rig) dial(t *testing.T, opt xdstest.Options) *xdstest.Client {
	t.Helper()
	if opt.Node == "" {
		opt.Node = nodeID
	}
	c, err := xdstest.Dial(context.Background(), r.conn, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// settle waits until the node has answered a revision.
func (r *rig) settle(t *testing.T, rev uint64) snapshot.Progress {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p := r.snaps.Wait(ctx, rev)
	if !p.Done() {
		t.Fatalf("revision %d is not answered: %+v", rev, p)
	}
	return p
}

// waitFor blocks until the progress of the newest revision meets a condition.
func (r *rig) waitFor(t *testing.T, cond func(snapshot.Progress) bool) snapshot.Progress {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		moved := r.snaps.Moved()
		p := r.snaps.Progress(r.snaps.Published())
		if cond(p) {
			return p
		}
		select {
		case <-moved:
		case <-ctx.Done():
			t.Fatalf("the progress did not come: %+v", p)
		}
	}
}

// sent returns the messages that arrived after the first n.
func sent(c *xdstest.Client, n int) []xdstest.Message { return c.Messages()[n:] }

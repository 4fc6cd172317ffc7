package relay_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/snapshot"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// register accepts the node while known is set.
type register struct{ known atomic.Bool }

func (r *register) Known(context.Context, string) error { return nil }

func (r *register) Authenticate(context.Context, string, string) (time.Time, error) {
	if !r.known.Load() {
		return time.Time{}, server.ErrUnknownNode
	}
	return time.Time{}, nil
}

// TestUnknownNode: a node that the control plane does not know is told so and may register
// again. This holds both when it connects and while it is connected, because somebody may have
// removed its Dataplane by mistake.
func TestUnknownNode(t *testing.T) {
	auth, snaps := &register{}, snapshot.New()
	srv, err := server.New(server.Config{Snapshots: snaps, Nodes: anyNode{}, Auth: auth, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	snaps.Publish(map[string]*resource.Set{node: resource.NewSet(nil, nil)}, 1)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(server.Options()...)
	srv.Register(g)
	served := make(chan struct{})
	go func() { defer close(served); _ = g.Serve(lis) }()
	var told atomic.Int32
	reported := make(chan error, 100)
	dir := t.TempDir()
	r, err := relay.New(relay.Config{
		Node: node, Password: password, Socket: filepath.Join(dir, "run", "xds.sock"), Cache: filepath.Join(dir, "cache"),
		Dial: func(context.Context) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:///"+lis.Addr().String(), append(relay.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		},
		Token:   func() (string, error) { return "token", nil },
		Unknown: func(context.Context) { told.Add(1); auth.known.Store(true) },
		Report:  func(err error) { reported <- err },
		Log:     slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	connects := func() {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case err := <-reported:
				if err == nil {
					return
				}
			case <-late:
				t.Fatal("the node does not register")
			}
		}
	}
	connects()
	if n := told.Load(); n != 1 {
		t.Errorf("told %d times", n)
	}
	auth.known.Store(false)
	srv.Recheck(t.Context()) // ends the stream
	connects()
	if n := told.Load(); n != 2 {
		t.Errorf("an expelled node was told %d times", n)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	g.Stop()
	<-served
	if err := srv.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

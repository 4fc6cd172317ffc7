package relay_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/relay"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestUnsaved: a relay whose disk fails continues to serve and reports it. SaveAgain makes it
// write everything, although nothing has changed since. Attempts that reach no control plane
// are reported; the mere end of a stream is not.
func TestUnsaved(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	place := filepath.Join(dir, "not", "there")
	saved, reported := make(chan error, 100), make(chan error, 100)
	r, err := relay.New(relay.Config{
		Node: node, Password: password, Socket: filepath.Join(dir, "run", "xds.sock"), Cache: filepath.Join(place, "cache"),
		Dial: func(context.Context) (*grpc.ClientConn, error) {
			return grpc.NewClient("passthrough:///"+p.addr, append(relay.DialOptions(), grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		},
		Saved: func(err error) { saved <- err }, Report: func(err error) { reported <- err }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	defer func() {
		cancel()
		<-done
	}()
	<-r.Bound()
	next := func(of <-chan error) error {
		t.Helper()
		select {
		case err := <-of:
			return err
		case <-time.After(patience):
			t.Fatal("nothing is told")
			return nil
		}
	}
	rev := p.publish(clusterA, endA, listener, routesA)
	c := local(t, dir, xdstest.Options{Relay: true})
	c.WaitFor(t, "everything", func(v xdstest.View) bool { return len(v.Names(resource.Listener)) == 1 })
	p.settle(t, rev)
	if err := next(reported); err != nil {
		t.Errorf("connected: %v", err)
	}
	if err := next(saved); err == nil {
		t.Fatal("it was saved nowhere")
	}
	if err := os.MkdirAll(place, 0o700); err != nil {
		t.Fatal(err)
	}
	r.SaveAgain()
	for err := next(saved); err != nil; err = next(saved) { // earlier attempts
	}
	if _, err := os.Stat(filepath.Join(place, "cache")); err != nil {
		t.Error(err)
	}
	p.kill()
	if err := next(reported); err == nil {
		t.Error("an end of the stream is told as a connection")
	}
}

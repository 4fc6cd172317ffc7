package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/xds/places"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// TestPlacesOfGateways: a client that invents nodes with the token of a mesh takes no place of
// a gateway. A place is free again when its stream ends.
func TestPlacesOfGateways(t *testing.T) {
	r := setup(t, func(c *server.Config) {
		c.Auth, c.Limits.Places = &roll{}, places.Limits{All: 20, Kept: 4, Mesh: 15, Token: 10}
		c.Owner = func(token string) (o places.Owner) {
			o.Token, o.Mesh, _ = strings.Cut(strings.TrimPrefix(token, "Bearer "), "@")
			return o
		}
	})
	r.publish(world()...)
	open := func(token string, i int) (codes.Code, context.CancelFunc) {
		t.Helper()
		ctx, cancel := context.WithCancel(bearing(t.Context(), token))
		t.Cleanup(cancel)
		node := fmt.Sprint(token, i)
		r.snaps.Publish(map[string]*resource.Set{node: resource.NewSet(world(), nil)}, r.rev)
		recv, err := deltaStream(ctx, r.connect(t), node)
		if err == nil {
			_, err = recv()
		}
		return status.Code(err), cancel
	}
	var leave context.CancelFunc
	for i := range 10 {
		var code codes.Code
		if code, leave = open("stolen@m", i); code != codes.OK {
			t.Fatalf("stream %d: %v", i, code)
		}
	}
	if code, _ := open("stolen@m", 10); code != codes.ResourceExhausted {
		t.Errorf("one more of the token: %v", code)
	}
	for i := range 6 {
		if code, _ := open("other@n", i); code != codes.OK {
			t.Fatalf("stream %d of another mesh: %v", i, code)
		}
	}
	if code, _ := open("other@n", 6); code != codes.ResourceExhausted {
		t.Errorf("a proxy has the place of a gateway: %v", code)
	}
	for i := range 4 {
		if code, _ := open("gateway", i); code != codes.OK {
			t.Fatalf("gateway %d: %v", i, code)
		}
	}
	leave()
	late := time.After(patience)
	for { // the server notices the end a moment later
		if code, _ := open("stolen@m", 11); code == codes.OK {
			return
		}
		select {
		case <-late:
			t.Fatal("what has ended is not free again")
		default:
		}
	}
}

// TestWhoGetsNoPlaceIsSeen: if a fleet has outgrown its places, this is visible where nodes
// are listed, and not only in the logs of the refused proxies.
func TestWhoGetsNoPlaceIsSeen(t *testing.T) {
	said := make(lastWords, 8)
	r := setup(t, func(c *server.Config) {
		c.Auth, c.Observer, c.Limits.Places = &roll{}, said, places.Limits{All: 1, Kept: 0, Mesh: 1, Token: 1}
	})
	r.publish(world()...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, server.NodeKey, nodeID)
	open := func() error {
		recv, err := deltaStream(bearing(ctx, "x"), r.conn, nodeID)
		if err == nil {
			_, err = recv()
		}
		return err
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	if code := status.Code(open()); code != codes.ResourceExhausted {
		t.Errorf("one more: %v", code)
	}
	if got, want := said.next(t), nodeID+" refused: too many streams: there are too many"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

package server_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// variant opens a stream of one variant and sends its first request, for clusters. recv
// returns the bodies of the resources in the next response, by name.
type variant func(ctx context.Context, conn grpc.ClientConnInterface, node string) (recv func() (map[string]string, error), err error)

func deltaStream(ctx context.Context, conn grpc.ClientConnInterface, node string) (func() (map[string]string, error), error) {
	g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	return func() (map[string]string, error) {
		m, err := g.Recv()
		out := map[string]string{}
		for _, r := range m.GetResources() {
			out[r.GetName()] = string(r.GetResource().GetValue())
		}
		return out, err
	}, unlessEnded(g.Send(&discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: node}, TypeUrl: string(resource.Cluster)}))
}

func vectorStream(ctx context.Context, conn grpc.ClientConnInterface, node string) (func() (map[string]string, error), error) {
	g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		return nil, err
	}
	return func() (map[string]string, error) {
		m, err := g.Recv()
		return bodies(m.GetResources()), err
	}, unlessEnded(g.Send(&discovery.DiscoveryRequest{Node: &corev3.Node{Id: node}, TypeUrl: string(resource.Cluster)}))
}

// unlessEnded returns the error of sending the first request, without io.EOF. A stream without
// a good token may end before the request is sent; Recv then returns the reason.
func unlessEnded(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func bodies(as []*anypb.Any) map[string]string {
	out := map[string]string{}
	for _, a := range as {
		out[string(a.GetValue())] = string(a.GetValue())
	}
	return out
}

var variants = map[string]variant{"delta": deltaStream, "state of the world": vectorStream}

func bearing(ctx context.Context, tokens ...string) context.Context {
	for _, v := range tokens {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", v)
	}
	return ctx
}

func TestAdmission(t *testing.T) {
	for _, tc := range []struct {
		name, node string
		tokens     []string
		code       codes.Code
	}{
		{"no token", nodeID, nil, codes.Unauthenticated},
		{"two tokens", nodeID, []string{"good", "good"}, codes.Unauthenticated},
		{"empty bearer", nodeID, []string{"Bearer "}, codes.Unauthenticated},
		{"expired token", nodeID, []string{"expired"}, codes.Unauthenticated},
		{"garbage", nodeID, []string{"bad"}, codes.Unauthenticated},
		{"token of another proxy", nodeID, []string{"other"}, codes.PermissionDenied},
		{"unknown proxy", "ghost", []string{"good"}, codes.NotFound},
		{"no node", "", []string{"good"}, codes.InvalidArgument},
		{"panic", "boom", []string{"good"}, codes.Internal},
		{"good", nodeID, []string{"bearer good"}, codes.OK},
		{"good without scheme", nodeID, []string{"good"}, codes.OK},
	} {
		for name, open := range variants {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				r := setup(t, func(c *server.Config) { c.Auth = auth{} })
				r.publish(world()...)
				other := r.dial(t, xdstest.Options{Token: "good"})
				other.Request(resource.Route).Equals(t, routesA)
				ctx, cancel := context.WithTimeout(bearing(t.Context(), tc.tokens...), patience)
				defer cancel()
				recv, err := open(ctx, r.conn, tc.node)
				if err != nil {
					t.Fatal(err)
				}
				got, err := recv()
				if status.Code(err) != tc.code || (len(got) > 0) != (tc.code == codes.OK) {
					t.Fatalf("%v (%v), want %v", got, err, tc.code)
				}
				r.publish(clusterA, endA, listener, routesB)
				other.Request(resource.Route).Equals(t, routesB)
			})
		}
	}
}

// TestStrangersAreNotRead: a stream without a good token ends before its first request is
// read. That request could be as large as the largest that a proxy needs.
func TestStrangersAreNotRead(t *testing.T) {
	for name, tokens := range map[string][]string{"no token": nil, "two tokens": {"good", "good"}, "an empty one": {"Bearer "}, "a bad one": {"bad"}} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, func(c *server.Config) { c.Auth, c.Limits.FirstRequest = auth{}, time.Hour })
			ctx, cancel := context.WithTimeout(bearing(t.Context(), tokens...), patience)
			defer cancel()
			g, err := discovery.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := g.Recv(); status.Code(err) != codes.Unauthenticated {
				t.Errorf("a silent stream ends with %v", err)
			}
		})
	}
}

func TestStreamEndsExactlyWhenItsTokenExpires(t *testing.T) {
	for name, open := range variants {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const life = 90 * time.Second
				until := time.Now().Add(life)
				r := setup(t, func(c *server.Config) { c.Auth = &roll{until: until} })
				r.publish(world()...)
				recv, err := open(bearing(t.Context(), "x"), r.conn, nodeID)
				if err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, err = recv()
				}
				if status.Code(err) != codes.Unauthenticated || !time.Now().Equal(until) {
					t.Fatalf("ended after %v with %v", time.Since(until)+life, err)
				}
			})
		})
	}
}

func TestRecheckMovesTheExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &roll{until: time.Now().Add(time.Hour)}
		r := setup(t, func(c *server.Config) { c.Auth = a })
		c := started(t, r, xdstest.Options{Token: "x"})
		sooner := time.Now().Add(time.Minute)
		a.set(sooner, nil)
		r.srv.Recheck(t.Context())
		<-time.After(time.Until(sooner)) // fake time
		ends(t, c, codes.Unauthenticated)
		if !time.Now().Equal(sooner) {
			t.Fatalf("ended %v off", time.Since(sooner))
		}
	})
}

// TestStreamEndsAfterSleep: if a token expires while the host sleeps, or while its clock is
// behind, the stream ends soon afterwards. A timer alone would be late, because timers count
// only the time that the host is awake.
func TestStreamEndsAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slept atomic.Int64
		until := time.Now().Add(24 * time.Hour)
		r := setup(t, func(c *server.Config) {
			c.Auth = &roll{until: until}
			c.Now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
		})
		c := started(t, r, xdstest.Options{Token: "x"})
		slept.Store(int64(25 * time.Hour))
		<-time.After(alarm.Slice) // fake time
		ends(t, c, codes.Unauthenticated)
	})
}

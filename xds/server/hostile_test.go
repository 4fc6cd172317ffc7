package server_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip" // registers it for the whole process, as an exporter of traces does
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// bunch generates names that were never used before.
type bunch struct{ next int }

func (b *bunch) names(n, length int) []string {
	out := make([]string, n)
	for i := range out {
		b.next++
		name := strconv.Itoa(b.next) + "-"
		out[i] = name + strings.Repeat("a", max(length-len(name), 0))
	}
	return out
}

// ending sends requests and returns the error that ends the stream. It returns nil if the
// stream is still served after the last request.
func ending(t *testing.T, conn *grpc.ClientConn, requests []*discovery.DeltaDiscoveryRequest, options ...grpc.CallOption) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(bearing(t.Context(), "good"), patience)
	defer cancel()
	g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx, options...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(requests, &discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Listener)}) {
		if g.Send(r) != nil {
			break // the stream has ended; Recv returns the reason
		}
	}
	for {
		m, err := g.Recv()
		if err != nil || m.GetTypeUrl() == string(resource.Listener) {
			return err
		}
	}
}

func first(names ...string) *discovery.DeltaDiscoveryRequest {
	return &discovery.DeltaDiscoveryRequest{Node: &corev3.Node{Id: nodeID}, TypeUrl: string(resource.Cluster), ResourceNamesSubscribe: append(names, "*")}
}

func more(names ...string) *discovery.DeltaDiscoveryRequest {
	return &discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Route), ResourceNamesSubscribe: names}
}

// longest is the maximum length in bytes of a name, a version or a type.
const longest = 64 << 10

// TestHostileRequests: a client with a token of some node makes the server hold no more than a
// few megabytes, whatever requests it sends.
func TestHostileRequests(t *testing.T) {
	var b bunch
	large := []*discovery.DeltaDiscoveryRequest{first()}
	for range 9 {
		large = append(large, more(b.names(1000, 1000)...))
	}
	unknown := first(b.names(3000, 1000)...)
	unknown.Node.Id = "ghost"
	empty := first(make([]string, 200_000)...)
	empty.Node.Id = "ghost"
	brought := first()
	brought.InitialResourceVersions = map[string]string{"a": strings.Repeat("v", longest+1)}
	for name, tc := range map[string]struct {
		requests []*discovery.DeltaDiscoveryRequest
		want     codes.Code
	}{
		"names of a kilobyte":            {[]*discovery.DeltaDiscoveryRequest{first(), more(b.names(1000, 1024)...)}, codes.OK},
		"a large request of an admitted": {[]*discovery.DeltaDiscoveryRequest{first(), more(b.names(5000, 1000)...)}, codes.OK},
		"what is large, again and again": {[]*discovery.DeltaDiscoveryRequest{first(), more(large[1].ResourceNamesSubscribe...), large[1], large[1], large[1], large[1], large[1], large[1], large[1], large[1], large[1]}, codes.OK},
		"a longer name":                  {[]*discovery.DeltaDiscoveryRequest{first(), more(b.names(1, longest+1)...)}, codes.ResourceExhausted},
		"a longer version":               {[]*discovery.DeltaDiscoveryRequest{brought}, codes.ResourceExhausted},
		"a longer type":                  {[]*discovery.DeltaDiscoveryRequest{first(), {TypeUrl: strings.Repeat("t", longest+1)}}, codes.ResourceExhausted},
		"megabytes, request by request":  {large, codes.ResourceExhausted},
		"a large first request":          {[]*discovery.DeltaDiscoveryRequest{unknown}, codes.ResourceExhausted},
		"a first request of nothing":     {[]*discovery.DeltaDiscoveryRequest{empty}, codes.ResourceExhausted},
		"a request of nothing":           {[]*discovery.DeltaDiscoveryRequest{first(), more(make([]string, 200_000)...)}, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, func(c *server.Config) { c.Auth = auth{} })
			r.publish(world()...)
			if err := ending(t, r.conn, tc.requests); status.Code(err) != tc.want {
				t.Errorf("ends with %v, want %v", err, tc.want)
			}
		})
	}
}

// TestCompressedRequestsAreRefused: the server accepts no compressed requests, whatever the
// process can decompress.
func TestCompressedRequestsAreRefused(t *testing.T) {
	r := setup(t, nil)
	r.publish(world()...)
	if err := ending(t, r.conn, []*discovery.DeltaDiscoveryRequest{first()}, grpc.UseCompressor(gzip.Name)); status.Code(err) != codes.Unimplemented {
		t.Errorf("a compressed request ends with %v", err)
	}
	if err := ending(t, r.conn, []*discovery.DeltaDiscoveryRequest{first()}, grpc.UseCompressor("identity")); err != nil {
		t.Errorf("one that says that it is not compressed ends with %v", err)
	}
	body, err := proto.Marshal(&discovery.DiscoveryRequest{Node: &corev3.Node{Id: nodeID}})
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range methods {
		g, err := r.conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, grpc.ForceCodec(raw{}), grpc.UseCompressor(gzip.Name))
		if err != nil {
			t.Fatal(err)
		}
		_ = g.SendMsg(&body)
		var m []byte
		if err := g.RecvMsg(&m); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
	served(t, r.conn)
}

// TestTheSearchIsPaidForByWhoMakesItCostly: a proxy that refuses everything without a name may
// answer the whole search, unless it asks for many names that are not its own: each answer has the
// server look at all of them.
func TestTheSearchIsPaidForByWhoMakesItCostly(t *testing.T) {
	for name, absent := range map[string]int{"its own names": 0, "more": 50_000} {
		t.Run(name, func(t *testing.T) {
			r := setup(t, func(c *server.Config) { c.Limits.Rate = 1 })
			var rs []*resource.Resource
			var b bunch
			names := b.names(600, 1)
			for _, n := range names {
				rs = append(rs, xdstest.Routes(n, "c", 200))
			}
			r.publish(rs...)
			answers, err := refusingAll(t, r.connect(t), more(append(names, b.names(absent, 1)...)...))
			if absent == 0 && (err != nil || answers < 200) {
				t.Errorf("after %d answers: %v", answers, err)
			}
			if absent > 0 && (status.Code(err) != codes.ResourceExhausted || answers > 30) {
				t.Errorf("after %d answers: %v", answers, err)
			}
		})
	}
}

// refusingAll refuses all route tables that a request asks for, until each was refused alone or the
// stream ends.
func refusingAll(t *testing.T, conn *grpc.ClientConn, request *discovery.DeltaDiscoveryRequest) (answers int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(bearing(t.Context(), "good"), patience)
	defer cancel()
	g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	request.Node = &corev3.Node{Id: nodeID}
	_ = g.Send(request) // Recv returns the reason
	for blamed := 0; blamed < 100; {
		m, err := g.Recv()
		if err != nil {
			return answers, err
		}
		if len(m.GetResources()) == 1 {
			blamed++
		}
		answers++
		_ = g.Send(&discovery.DeltaDiscoveryRequest{
			TypeUrl: m.GetTypeUrl(), ResponseNonce: m.GetNonce(), ErrorDetail: &rpcstatus.Status{Message: "no"},
		})
	}
	return answers, nil
}

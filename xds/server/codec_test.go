package server_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/resource"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// raw is a client codec that passes bytes unchanged. The server decodes them like the messages
// of a proxy.
type raw struct{}

func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }

func (raw) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), b...)
	return nil
}

func (raw) Name() string { return "proto" }

// frame concatenates messages, each preceded by its length.
func frame(tb testing.TB, ms ...proto.Message) []byte {
	tb.Helper()
	var out []byte
	for _, m := range ms {
		b, err := proto.Marshal(m)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(binary.AppendUvarint(out, uint64(len(b))), b...)
	}
	return out
}

var methods = []string{
	discovery.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName,
	discovery.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName,
}

// play sends messages on a stream of one method and waits until the stream ends.
func play(t *testing.T, conn *grpc.ClientConn, method string, input []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	g, err := conn.NewStream(ctx, desc, method, grpc.ForceCodec(raw{}))
	if err != nil {
		t.Fatal(err)
	}
	for len(input) > 0 {
		n, w := binary.Uvarint(input)
		if w <= 0 {
			break
		}
		m := input[w:]
		m = m[:min(n, uint64(len(m)))]
		input = input[w+len(m):]
		if g.SendMsg(&m) != nil {
			break // the stream has ended; Recv returns the reason
		}
	}
	_ = g.CloseSend()
	for {
		var m []byte
		switch err := g.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			return nil
		case status.Code(err) == codes.DeadlineExceeded:
			t.Fatalf("the stream does not end: %v", err)
		case err != nil:
			return err
		}
	}
}

// served checks that another proxy is served.
func served(t *testing.T, conn grpc.ClientConnInterface) {
	t.Helper()
	for name, open := range variants {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		recv, err := open(ctx, conn, nodeID)
		if err == nil {
			_, err = recv()
		}
		cancel()
		if err != nil {
			t.Fatalf("another proxy is not served (%s): %v", name, err)
		}
	}
}

// FuzzMessages sends arbitrary bytes as messages of both variants, through gRPC and its codec.
func FuzzMessages(f *testing.F) {
	node := &corev3.Node{Id: "x"}
	f.Add(frame(f, &discovery.DeltaDiscoveryRequest{Node: node, TypeUrl: string(resource.Cluster)},
		&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Endpoint), ResourceNamesSubscribe: []string{"a", "*"}},
		&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Cluster), ResponseNonce: "1", ErrorDetail: &statuspb.Status{Message: "no"}}))
	f.Add(frame(f, &discovery.DeltaDiscoveryRequest{
		Node: node, TypeUrl: string(resource.Route), InitialResourceVersions: map[string]string{"r": "1"},
		ResourceNamesSubscribe: []string{"r"}, ResourceNamesUnsubscribe: []string{"*", "r"},
	}))
	f.Add(frame(f, &discovery.DiscoveryRequest{Node: node, TypeUrl: string(resource.Cluster)},
		&discovery.DiscoveryRequest{TypeUrl: string(resource.Cluster), VersionInfo: "1", ResponseNonce: "1"},
		&discovery.DiscoveryRequest{TypeUrl: string(resource.Listener), ResourceNames: []string{"in", ""}}))
	f.Add([]byte{3, 0x0a, 0xff, 0xff})           // a length beyond the end
	f.Add([]byte{2, 0x22, 0x00, 3, 10, 1, 0xff}) // no node; then bad UTF-8
	r := setup(f, nil)
	r.publish(world()...)
	r.snaps.Publish(map[string]*resource.Set{"x": resource.NewSet(world(), nil)}, 2)
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, method := range methods {
			_ = play(t, r.conn, method, input) // any end is fine
		}
		served(t, r.conn)
	})
}

// TestUndecodableMessageEndsItsStreamOnly also shows that play reaches the decoder of the
// server.
func TestUndecodableMessageEndsItsStreamOnly(t *testing.T) {
	r := setup(t, nil)
	r.publish(world()...)
	for _, method := range methods {
		if err := play(t, r.conn, method, []byte{3, 0x0a, 0xff, 0xff}); status.Code(err) != codes.Internal {
			t.Errorf("%s: a message that cannot be decoded ends with %v", method, err)
		}
		large := make([]byte, 17<<20)
		if err := play(t, r.conn, method, append(binary.AppendUvarint(nil, uint64(len(large))), large...)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s: a message that is too large ends with %v", method, err)
		}
	}
	served(t, r.conn)
}

// preface opens a connection (RFC 9113 section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// FuzzFrames writes arbitrary bytes to a connection, either after the HTTP/2 preface and its
// settings or in place of them.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), false)
	f.Add([]byte{0, 0, 0, 1, 4, 0, 0, 0, 1}, true)                            // empty HEADERS
	f.Add([]byte{0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0}, true)                // WINDOW_UPDATE by 0
	f.Add([]byte{0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1}, true)                   // DATA beyond the limit
	f.Add([]byte{0, 0, 5, 0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff}, true) // DATA of no stream
	f.Add([]byte{0, 0, 0, 9, 4, 0, 0, 0, 3}, true)                            // CONTINUATION of nothing
	r := setup(f, nil)
	r.publish(world()...)
	f.Fuzz(func(t *testing.T, input []byte, greeted bool) {
		c, err := r.lis.DialContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if greeted {
			input = append(append([]byte(preface), 0, 0, 0, 4, 0, 0, 0, 0, 0), input...)
		}
		_, _ = c.Write(input) // the server may have closed it
		served(t, r.conn)
		_ = c.Close()
	})
}

package mesh_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The types of resources that a raw client asks for.
const (
	typeCluster  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	typeEndpoint = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	typeListener = "type.googleapis.com/envoy.config.listener.v3.Listener"
	typeRoute    = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	typeSecret   = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// Paths of the two variants of ADS.
const (
	pathDelta = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	pathState = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
)

type deltaStream = grpc.BidiStreamingClient[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

// dialXDS opens a connection of a client that is no Envoy.
func (w *world) dialXDS() *grpc.ClientConn {
	pem, err := os.ReadFile(w.cp.CAFile())
	Expect(err).NotTo(HaveOccurred())
	pool := x509.NewCertPool()
	Expect(pool.AppendCertsFromPEM(pem)).To(BeTrue())
	conn, err := grpc.NewClient(fmt.Sprintf("passthrough:///127.0.0.1:%d", w.cp.Data),
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12, ServerName: "127.0.0.1"})))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = conn.Close() })
	return conn
}

// bounded is a context that ends with the spec at the latest.
func bounded(token string) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	DeferCleanup(cancel)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", token)
	}
	return ctx
}

// open opens a delta stream without saying anything on it.
func open(conn *grpc.ClientConn, token string) deltaStream {
	s, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(bounded(token))
	Expect(err).NotTo(HaveOccurred())
	return s
}

// ask is the first request of a type.
func ask(node, typeURL string, names ...string) *discovery.DeltaDiscoveryRequest {
	m := &discovery.DeltaDiscoveryRequest{TypeUrl: typeURL, ResourceNamesSubscribe: names}
	if node != "" {
		m.Node = &corev3.Node{Id: node}
	}
	return m
}

// ended reads a stream to its end and returns the code.
func ended(s interface {
	Recv() (*discovery.DeltaDiscoveryResponse, error)
}) codes.Code {
	for {
		if _, err := s.Recv(); err != nil {
			return status.Code(err)
		}
	}
}

// refusal is the code and the text that a first request is answered with, in both
// variants. A stream without a good token may have ended before the request was
// sent; what is received says why.
func refusal(conn *grpc.ClientConn, token, node string) (delta, state error) {
	d := open(conn, token)
	if err := d.Send(ask(node, typeCluster)); err == nil || errors.Is(err, io.EOF) {
		_, delta = d.Recv()
	}
	s, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(bounded(token))
	Expect(err).NotTo(HaveOccurred())
	if err := s.Send(&discovery.DiscoveryRequest{Node: &corev3.Node{Id: node}, TypeUrl: typeCluster}); err == nil || errors.Is(err, io.EOF) {
		_, state = s.Recv()
	}
	return delta, state
}

// verbatim is a codec that sends bytes as they are.
type verbatim struct{}

func (verbatim) Name() string { return "proto" }

func (verbatim) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, errors.New("not bytes")
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (verbatim) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

var _ encoding.CodecV2 = verbatim{}

// shout sends bytes as the first message and returns how the stream ended.
func shout(conn *grpc.ClientConn, path, token string, message []byte) codes.Code {
	ctx, cancel := context.WithTimeout(bounded(token), 5*time.Second)
	defer cancel()
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path, grpc.ForceCodecV2(verbatim{}))
	if err != nil {
		return status.Code(err)
	}
	_ = s.SendMsg(message) // the reason of a failure is on the receiving side
	for {
		var answer []byte
		switch err := s.RecvMsg(&answer); {
		case errors.Is(err, io.EOF):
			return codes.OK
		case err != nil:
			return status.Code(err)
		}
		if err := s.CloseSend(); err != nil {
			return status.Code(err)
		}
	}
}

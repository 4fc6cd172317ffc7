package server

import (
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
)

// wire is one variant of the protocol. It turns messages into requests and responses into
// messages.
type wire interface {
	// recv reads a request of at most so many bytes and names. 0 bytes means as many as the
	// transport permits.
	recv(bytes, names int) (request, error)
	send(*response) error
	// admitted tells the proxy that it was let in. Otherwise a proxy that already has
	// everything would hear nothing until something changes.
	admitted() error
}

// DeltaAggregatedResources implements the delta variant.
func (s *Server) DeltaAggregatedResources(g discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	return s.serve(g.Context(), delta{g}, false)
}

// StreamAggregatedResources implements the state-of-the-world variant.
func (s *Server) StreamAggregatedResources(g discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	return s.serve(g.Context(), sotw{g}, true)
}

type delta struct {
	grpc.BidiStreamingServer[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]
}

func (d delta) recv(bytes, names int) (request, error) {
	return receive(d, &inbound{fields: deltaFields, bytes: bytes, names: names})
}

func (d delta) send(r *response) error { return d.SendMsg(encodeDelta(r)) }

func (d delta) admitted() error { return d.SendHeader(nil) }

type sotw struct {
	grpc.BidiStreamingServer[discovery.DiscoveryRequest, discovery.DiscoveryResponse]
}

func (w sotw) recv(bytes, names int) (request, error) {
	return receive(w, &inbound{fields: wholeFields, bytes: bytes, names: names})
}

func (w sotw) send(r *response) error { return w.SendMsg(encodeWhole(r)) }

func (w sotw) admitted() error { return w.SendHeader(nil) }

func receive(g grpc.ServerStream, in *inbound) (request, error) {
	if err := g.RecvMsg(in); err != nil {
		return request{}, err
	}
	return in.request, in.over
}

package server

import (
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/grpc"
)

// wire is one variant of the protocol: it turns messages into requests and
// responses into messages.
type wire interface {
	recv() (request, error)
	send(*response) error
	// admitted tells the proxy that it was let in. One that has all it should have is
	// sent nothing for as long as nothing changes.
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

func (d delta) recv() (request, error) {
	m, err := d.Recv()
	if err != nil {
		return request{}, err
	}
	return request{
		node: m.GetNode().GetId(), metadata: versions(m.GetNode()), bare: bare(m.GetNode()), url: resource.TypeURL(m.GetTypeUrl()),
		subscribe: m.GetResourceNamesSubscribe(), unsubscribe: m.GetResourceNamesUnsubscribe(),
		versions: m.GetInitialResourceVersions(), nonce: m.GetResponseNonce(),
		refused: m.GetErrorDetail() != nil, text: m.GetErrorDetail().GetMessage(),
	}, nil
}

func (d delta) send(r *response) error { return d.SendMsg(encodeDelta(r)) }

func (d delta) admitted() error { return d.SendHeader(nil) }

type sotw struct {
	grpc.BidiStreamingServer[discovery.DiscoveryRequest, discovery.DiscoveryResponse]
}

func (w sotw) recv() (request, error) {
	m, err := w.Recv()
	if err != nil {
		return request{}, err
	}
	return request{
		node: m.GetNode().GetId(), metadata: versions(m.GetNode()), bare: bare(m.GetNode()), url: resource.TypeURL(m.GetTypeUrl()),
		subscribe: m.GetResourceNames(), nonce: m.GetResponseNonce(), accepted: m.GetVersionInfo(),
		refused: m.GetErrorDetail() != nil, text: m.GetErrorDetail().GetMessage(),
	}, nil
}

func (w sotw) send(r *response) error { return w.SendMsg(encodeWhole(r)) }

func (w sotw) admitted() error { return w.SendHeader(nil) }

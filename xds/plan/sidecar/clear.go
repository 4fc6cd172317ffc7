package sidecar

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
)

const (
	// rawSocket is the name of Envoy's transport socket without protection.
	rawSocket = "envoy.transport_sockets.raw_buffer"
	// socketMatch is the metadata by which Envoy chooses the socket for an endpoint.
	socketMatch = "envoy.transport_socket_match"
	// clearText marks endpoints that are called in clear text.
	clearText = "clear"
)

// clearing is a kind of destinations that calls some endpoints in clear text, although its
// clusters have TLS.
type clearing interface {
	// Clear returns the names of the dataplanes of these endpoints, as namesOf joins them.
	Clear(a Around, d view.Destination) string
}

// clearOf asks a kind which endpoints of a destination are called in clear text.
func (p *Planner) clearOf(kind int, d view.Destination) string {
	if k, may := p.kinds[kind].(clearing); may {
		return k.Clear(Around{p}, d)
	}
	return ""
}

// namesOf joins the names of dataplanes to a text that can be part of a key. No name contains a
// comma.
func namesOf(dataplanes []string) string {
	slices.Sort(dataplanes)
	return strings.Join(slices.Compact(dataplanes), ",")
}

// namesIn returns the names that namesOf has joined. The empty name is never among them,
// because it stands for endpoints that no dataplane serves.
func namesIn(joined string) []string {
	if joined == "" {
		return nil
	}
	return strings.Split(joined, ",")
}

// inClear makes a cluster with TLS call marked endpoints in clear text.
func inClear() ([]*clusterv3.Cluster_TransportSocketMatch, error) {
	raw, err := plan.Pack(&rawv3.RawBuffer{})
	if err != nil {
		return nil, err
	}
	return []*clusterv3.Cluster_TransportSocketMatch{{
		Name: clearText, Match: marked(),
		TransportSocket: &corev3.TransportSocket{Name: rawSocket, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: raw}},
	}}, nil
}

func marked() *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{clearText: structpb.NewBoolValue(true)}}
}

// mark makes clusters that may do so call an endpoint in clear text.
func mark(e *endpointv3.LbEndpoint) {
	if e.Metadata == nil {
		e.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
	}
	e.Metadata.FilterMetadata[socketMatch] = marked()
}

package plantest

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/resource"
)

var messages = map[resource.TypeURL]func() proto.Message{
	resource.Cluster:  func() proto.Message { return new(clusterv3.Cluster) },
	resource.Endpoint: func() proto.Message { return new(endpointv3.ClusterLoadAssignment) },
	resource.Listener: func() proto.Message { return new(listenerv3.Listener) },
	resource.Route:    func() proto.Message { return new(routev3.RouteConfiguration) },
	resource.Secret:   func() proto.Message { return new(tlsv3.Secret) },
}

// Decode decodes the body of a resource.
func Decode(r *resource.Resource) (proto.Message, error) {
	m := messages[r.Type]()
	return m, proto.Unmarshal(r.Body, m)
}

// Admitted requires that an agent accepts a set unchanged.
func Admitted(t testing.TB, set *resource.Set) {
	t.Helper()
	for _, kind := range resource.Types {
		for _, r := range set.All(kind) {
			own, err := machine.Bounds{Roots: "/etc/ssl/certs/ca-certificates.crt", Library: contract.GolangLibrary}.Admit(string(kind), r.Body)
			if err != nil || !bytes.Equal(own, r.Body) {
				t.Errorf("%s is not taken as it is: %v", r.Name, err)
			}
		}
	}
}

// Tree returns the resources of a set by the names of their messages, ordered by name, as
// golden files show them. It requires that an agent accepts them.
func Tree(t testing.TB, set *resource.Set) map[string]any {
	t.Helper()
	Admitted(t, set)
	out := map[string]any{}
	for _, kind := range resource.Types {
		for _, r := range set.All(kind) {
			m, err := Decode(r)
			if err != nil {
				t.Fatal(err)
			}
			text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			var node any
			if err := json.Unmarshal(text, &node); err != nil {
				t.Fatal(err)
			}
			key := string(m.ProtoReflect().Descriptor().Name())
			list, _ := out[key].([]any)
			out[key] = append(slices.Clip(list), node)
		}
	}
	return out
}

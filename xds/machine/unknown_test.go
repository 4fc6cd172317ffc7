package machine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	udpav1 "github.com/cncf/xds/go/udpa/type/v1"
	typedv3 "github.com/cncf/xds/go/xds/type/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_modules/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/xds/machine"
)

// later returns m as a later version could send it, with one more field.
func later[M proto.Message](m M, field []byte) M {
	m.ProtoReflect().SetUnknown(field)
	return m
}

// TestFieldsOfLaterVersionsAreRefused: a field that an Envoy reads and this program does not
// know could name anything.
func TestFieldsOfLaterVersionsAreRefused(t *testing.T) {
	const number = 19000 // reserved, so no version has it
	a, wrong := protowire.AppendTag(nil, number, protowire.BytesType), protowire.AppendTag(nil, 1, protowire.VarintType)
	a, wrong = protowire.AppendBytes(a, []byte("/etc/shadow")), protowire.AppendVarint(wrong, 1)
	group := protowire.AppendTag(protowire.AppendTag(nil, number, protowire.StartGroupType), number, protowire.EndGroupType)
	for kind, field := range map[string][]byte{
		"a text": a, "a number": protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), 1), "a group": group,
		"four bytes": protowire.AppendFixed32(protowire.AppendTag(nil, number, protowire.Fixed32Type), 1),
		// A decoder stores a field of the wrong kind among the unknown fields.
		"another kind": wrong,
	} {
		packed := func(m proto.Message) *anypb.Any { return pack(t, later(m, field)) }
		for where, m := range map[string]proto.Message{
			"a cluster":        later(&clusterv3.Cluster{Name: "c"}, field),
			"a part":           &clusterv3.Cluster{HealthChecks: []*corev3.HealthCheck{later(&corev3.HealthCheck{}, field)}},
			"an extension":     route(nil, map[string]*anypb.Any{"f": packed(&filterv3.DynamicModuleFilterPerRoute{})}),
			"around it":        route(nil, map[string]*anypb.Any{"f": later(&anypb.Any{}, field)}),
			"an access log":    logging(t, later(&streamv3.StdoutAccessLog{}, field)),
			"a duration":       &clusterv3.Cluster{ConnectTimeout: later(durationpb.New(time.Second), field)},
			"a map":            &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"k": later(&structpb.Struct{}, field)}}}}},
			"a secret":         &tlsv3.Secret{Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: later(&tlsv3.TlsCertificate{}, field)}},
			"the filter's":     route(nil, map[string]*anypb.Any{"f": pack(t, &filterv3.DynamicModuleFilterPerRoute{FilterConfig: packed(wrapperspb.String("x"))})}),
			"around filter's":  route(nil, map[string]*anypb.Any{"f": pack(t, &filterv3.DynamicModuleFilterPerRoute{FilterConfig: later(pack(t, wrapperspb.String("")), field)})}),
			"a listener's log": &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{later(&listenerv3.FilterChain{}, field)}},
		} {
			if kind == "another kind" && where == "a duration" {
				continue // its first field is a number
			}
			_, err := admit(t, machine.Bounds{AccessLog: own}, m)
			if err == nil || !strings.Contains(err.Error(), "a field that this proxy's agent does not know") {
				t.Errorf("%s in %s: %v", kind, where, err)
			}
		}
	}
}

// TestKnownFieldsOfEachKindAreTaken: numbers, packed or not, do not count as unknown fields.
func TestKnownFieldsOfEachKindAreTaken(t *testing.T) {
	unpacked := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 503)
	policy := &routev3.RetryPolicy{RetriableStatusCodes: []uint32{503, 504}, HostSelectionRetryMaxAttempts: 3}
	for name, m := range map[string]proto.Message{
		"numbers": &clusterv3.Cluster{ConnectTimeout: durationpb.New(1500 * time.Millisecond), LbPolicy: clusterv3.Cluster_RANDOM, IgnoreHealthOnHostRemoval: true},
		"a float": &structpb.Struct{Fields: map[string]*structpb.Value{"f": structpb.NewNumberValue(1.5)}},
		"a list":  &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{RetryPolicy: policy}}},
	} {
		if body, err := admit(t, machine.Bounds{}, m); err != nil || !bytes.Equal(body, bytesOf(t, m)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := (machine.Bounds{}).Admit("type.googleapis.com/google.protobuf.UInt32Value", unpacked); err != nil {
		t.Error(err)
	}
}

// TestTypedStructsAreRefused covers both names of the type. Envoy makes any extension from it.
func TestTypedStructsAreRefused(t *testing.T) {
	for _, m := range []proto.Message{&typedv3.TypedStruct{TypeUrl: "lua"}, &udpav1.TypedStruct{TypeUrl: "lua"}} {
		for where, in := range map[string]proto.Message{"itself": m, "a route": route(nil, map[string]*anypb.Any{"f": pack(t, m)}), "an access log": logging(t, m)} {
			if _, err := admit(t, machine.Bounds{}, in); err == nil || !strings.Contains(err.Error(), "an extension that cannot be looked into") {
				t.Errorf("%T in %s: %v", m, where, err)
			}
		}
	}
}

// BenchmarkAdmitPush inspects ten thousand clusters and as many assignments.
func BenchmarkAdmitPush(b *testing.B) {
	type sent struct {
		url  string
		body []byte
	}
	var push []sent
	for i := range 10_000 {
		name := fmt.Sprintf("service-%d", i)
		c := trusting(b, roots)
		c.Name, c.ConnectTimeout, c.ClusterDiscoveryType = name, durationpb.New(5*time.Second), &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS}
		at := address(&corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250), PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 8080},
		}}}).(*endpointv3.ClusterLoadAssignment)
		at.ClusterName = name
		push = append(push, sent{"type.googleapis.com/envoy.config.cluster.v3.Cluster", bytesOf(b, c)},
			sent{"type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", bytesOf(b, at)})
	}
	files := machine.Bounds{Roots: roots}
	b.ReportAllocs()
	for b.Loop() {
		for _, s := range push {
			if _, err := files.Admit(s.url, s.body); err != nil {
				b.Fatal(err)
			}
		}
	}
}

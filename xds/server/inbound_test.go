package server

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"
)

// nodes draws the description that a proxy sends of itself.
func nodes(t *rapid.T) *corev3.Node {
	if rapid.Bool().Draw(t, "anonymous") {
		return nil
	}
	n := &corev3.Node{
		Id: rapid.StringN(0, 20, 60).Draw(t, "id"), Cluster: "c", Locality: &corev3.Locality{Zone: "z"},
		Extensions: []*corev3.Extension{{Name: "x"}}, ClientFeatures: []string{"f"},
	}
	if rapid.Bool().Draw(t, "described") {
		n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			"version": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{"v": structpb.NewStringValue("1")}}),
			"filter":  structpb.NewStringValue(rapid.SampledFrom([]string{"none", ""}).Draw(t, "filter")),
		}}
	}
	return n
}

// TestReadAsMessages: reading a request gives the same result as decoding its message.
func TestReadAsMessages(t *testing.T) {
	text := rapid.StringN(0, 20, 60)
	names := rapid.SliceOfN(text, 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		delta := &discovery.DeltaDiscoveryRequest{
			Node: nodes(t), TypeUrl: text.Draw(t, "type"), ResourceNamesSubscribe: names.Draw(t, "subscribe"),
			ResourceNamesUnsubscribe: names.Draw(t, "unsubscribe"), ResponseNonce: text.Draw(t, "nonce"),
			InitialResourceVersions:   rapid.MapOfN(text, text, 0, 5).Draw(t, "versions"),
			ResourceLocatorsSubscribe: []*discovery.ResourceLocator{{Name: "x"}},
		}
		whole := &discovery.DiscoveryRequest{
			VersionInfo: text.Draw(t, "accepted"), Node: delta.Node, TypeUrl: delta.TypeUrl,
			ResourceNames: delta.ResourceNamesSubscribe, ResponseNonce: delta.ResponseNonce,
		}
		if rapid.Bool().Draw(t, "refused") {
			delta.ErrorDetail = &statuspb.Status{Code: 3, Message: text.Draw(t, "error")}
			whole.ErrorDetail = delta.ErrorDetail
		}
		want := request{
			metadata: versions(delta.GetNode().GetMetadata()), node: delta.GetNode().GetId(), bare: bare(delta.GetNode().GetMetadata()),
			url: resource.TypeURL(delta.TypeUrl), subscribe: delta.ResourceNamesSubscribe, nonce: delta.ResponseNonce,
			refused: delta.ErrorDetail != nil, text: delta.GetErrorDetail().GetMessage(),
		}
		inWhole := want
		inWhole.accepted = whole.VersionInfo
		want.unsubscribe, want.versions = delta.ResourceNamesUnsubscribe, delta.InitialResourceVersions
		for _, tc := range []struct {
			m    proto.Message
			f    fields
			want request
		}{{delta, deltaFields, want}, {whole, wholeFields, inWhole}} {
			b, err := proto.Marshal(tc.m)
			if err != nil {
				t.Fatal(err)
			}
			in := &inbound{fields: tc.f, names: 100}
			if err := in.read(b); err != nil || in.over != nil {
				t.Fatalf("%v, %v", err, in.over)
			}
			if d := cmp.Diff(tc.want, in.request, cmp.AllowUnexported(request{}), cmpopts.EquateEmpty()); d != "" {
				t.Fatal(d)
			}
		}
	})
}

// TestReadWithinLimits: memory is not allocated for content beyond a limit, nor for fields
// that nobody reads.
func TestReadWithinLimits(t *testing.T) {
	for name, b := range map[string][]byte{
		"names": []byte(strings.Repeat("\x1a\x00", 8<<20)), "versions": []byte(strings.Repeat("\x2a\x00", 8<<20)),
		// This is Node.metadata.fields, each with an empty name and value.
		"metadata": frameOf(1, frameOf(3, []byte(strings.Repeat("\x0a\x00", 4<<20)))),
		// This is Node.extensions, which is not read.
		"extensions": frameOf(1, []byte(strings.Repeat("\x42\x00", 4<<20))),
	} {
		var before, after runtime.MemStats
		in := &inbound{fields: deltaFields, names: 1000}
		runtime.ReadMemStats(&before)
		err := in.read(b)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		over, allocated := in.over, after.TotalAlloc-before.TotalAlloc
		if (over == nil) != (name == "extensions") || allocated > 1<<20 {
			t.Errorf("%s: %v, with %d bytes allocated", name, over, allocated)
		}
	}
}

// TestNamesOfOurOwn: names that the control plane made are accepted even if they are long,
// because a proxy that is refused for such a name would be refused at each return. Without an
// Authenticator the limits are wide: only the proxy's own Envoy can connect.
func TestNamesOfOurOwn(t *testing.T) {
	long := strings.Repeat("n", 4000)
	in := &inbound{fields: deltaFields, names: 10}
	if err := in.read(frameOf(3, []byte(long))); err != nil || in.over != nil {
		t.Errorf("%v %v", err, in.over)
	}
	if l := (Limits{}).withDefaults(false); l.FirstBytes != maxRequest || l.NameBytes <= maxRequest {
		t.Errorf("%+v", l)
	}
}

func frameOf(field byte, b []byte) []byte {
	n := len(b)
	return append([]byte{field<<3 | 2, byte(n) | 0x80, byte(n>>7) | 0x80, byte(n>>14) | 0x80, byte(n >> 21)}, b...)
}

// TestRefusalsAreBounded: the stream ends if a proxy again and again subscribes to new
// assignments, refuses them and unsubscribes from them.
func TestRefusalsAreBounded(t *testing.T) {
	s := newSession("n", false, Limits{NameBytes: 100_000}.withDefaults(true), &diffs{})
	s.renew(snapshot.State{Set: resource.NewSet(nil, nil), Revision: 1, Version: 1})
	var names []string
	for i := range 1000 {
		var fresh []string
		for j := range 10 {
			fresh = append(fresh, fmt.Sprintf("%d-%d-%s", i, j, strings.Repeat("a", 90)))
		}
		if _, err := s.receive(request{url: resource.Endpoint, subscribe: fresh, unsubscribe: names}); err != nil {
			return
		}
		names = fresh
		for r := s.next(); r != nil; r = s.next() {
			if _, err := s.receive(request{url: resource.Endpoint, nonce: r.nonce, refused: true, text: "no"}); err != nil {
				return
			}
		}
	}
	t.Errorf("it remembers %d refusals", len(s.types[resource.Endpoint].refused))
}

// TestReasonsAreKeptInPart: the kept part of a long reason does not keep the rest in memory.
func TestReasonsAreKeptInPart(t *testing.T) {
	long := strings.Repeat("x", 10*maxErrorBytes)
	kept := safeText(resource.Cluster, long, nil)
	if len(kept) != maxErrorBytes || unsafe.StringData(kept) == unsafe.StringData(long) {
		t.Errorf("%d bytes are kept, as a part of all", len(kept))
	}
}

package server

import (
	"bytes"
	"fmt"
	"testing"
	"unsafe"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"pgregory.net/rapid"
)

// responses draws any response that a session may send. The lengths of its bodies are around
// the length from which resources are shared.
func responses(t *rapid.T) *response {
	text := rapid.StringMatching(`[a-z:./]{0,20}`)
	r := &response{
		typ: rapid.SampledFrom(resource.Types[:]).Draw(t, "type"), nonce: text.Draw(t, "nonce"), version: text.Draw(t, "version"),
		remove: rapid.SliceOfN(text, 0, 5).Draw(t, "removed"),
	}
	for i := range rapid.IntRange(0, 6).Draw(t, "resources") {
		length := rapid.SampledFrom([]int{0, 1, 127, 128, leastShared - 1, leastShared, leastShared + 1, 20000}).Draw(t, "length")
		name := text.Draw(t, "name") + fmt.Sprint(i)
		if rapid.Bool().Draw(t, "nameless") {
			name = ""
		}
		r.add = append(r.add, resource.New(r.typ, name, bytes.Repeat([]byte{byte(i)}, length)))
	}
	return r
}

// TestEncodedAsMessages: the encoded bytes decode to the same messages of the protocol.
func TestEncodedAsMessages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := responses(t)
		delta := &discovery.DeltaDiscoveryResponse{TypeUrl: string(r.typ), Nonce: r.nonce, RemovedResources: r.remove}
		whole := &discovery.DiscoveryResponse{TypeUrl: string(r.typ), Nonce: r.nonce, VersionInfo: r.version}
		if r.version == "" {
			whole.VersionInfo = r.nonce
		}
		for _, a := range r.add {
			body := &anypb.Any{TypeUrl: string(a.Type), Value: a.Body}
			delta.Resources = append(delta.Resources, &discovery.Resource{Name: a.Name, Version: a.Version, Resource: body})
			whole.Resources = append(whole.Resources, body)
		}
		same(t, encodeDelta(r), delta, &discovery.DeltaDiscoveryResponse{})
		same(t, encodeWhole(r), whole, &discovery.DiscoveryResponse{})
	})
}

func same(t *rapid.T, sent *encoded, want, got proto.Message) {
	t.Helper()
	buffers, err := codec{}.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	raw := buffers.Materialize()
	if err := proto.Unmarshal(raw, got); err != nil {
		t.Fatalf("what is sent is no message: %v", err)
	}
	// The comparison with a readable difference takes a hundred times as long.
	if !proto.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got, protocmp.Transform()))
	}
	if n := proto.Size(want); n != len(raw) {
		t.Errorf("%d bytes, the message has %d", len(raw), n)
	}
}

// TestResourcesAreNotCopied: a resource is sent from where it is stored, so that streams share
// it. The rest of a message is one piece of memory that is allocated once.
func TestResourcesAreNotCopied(t *testing.T) {
	r := &response{typ: resource.Cluster, nonce: "n", remove: []string{"gone"}}
	for i := range 50 {
		r.add = append(r.add, resource.New(resource.Cluster, fmt.Sprint(i), bytes.Repeat([]byte{1}, leastShared+i)))
	}
	for name, tc := range map[string]struct {
		encode func(*response) *encoded
		form   func(*resource.Resource) []byte
		// most is the maximum number of allocations per resource: one for its buffer, and one
		// for the bytes before it if the variant puts any there.
		most int
	}{
		"delta": {encodeDelta, inDelta, 1},
		"whole": {encodeWhole, inWhole, 2},
	} {
		shared := 0
		for _, b := range tc.encode(r).buffers {
			for _, a := range r.add {
				if unsafe.SliceData(b.ReadOnlyData()) == unsafe.SliceData(tc.form(a)) {
					shared++
				}
			}
		}
		if shared != len(r.add) {
			t.Errorf("%s: %d of %d resources are sent from where they are", name, shared, len(r.add))
		}
		// The constant covers the encoder, its room, its list, and the buffer at the end.
		if most, n := float64(4+tc.most*len(r.add)), testing.AllocsPerRun(100, func() { tc.encode(r) }); n > most {
			t.Errorf("%s: %v allocations, at most %v", name, n, most)
		}
	}
}

// TestCodecSendsResponsesAlone: a message that was not encoded here causes an error instead of
// a wrong response.
func TestCodecSendsResponsesAlone(t *testing.T) {
	if _, err := (codec{}).Marshal(&discovery.DiscoveryResponse{}); err == nil {
		t.Error("a message was sent past the encoder")
	}
}

// BenchmarkEncode encodes a response for a proxy that reaches 300 services.
func BenchmarkEncode(b *testing.B) {
	r := &response{typ: resource.Cluster, nonce: "7"}
	for i := range 300 {
		r.add = append(r.add, resource.New(resource.Cluster, fmt.Sprintf("service-%d", i), bytes.Repeat([]byte{1}, 700)))
	}
	b.Run("shared", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			encodeDelta(r)
		}
	})
	b.Run("as a message", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := &discovery.DeltaDiscoveryResponse{TypeUrl: string(r.typ), Nonce: r.nonce}
			for _, a := range r.add {
				m.Resources = append(m.Resources, &discovery.Resource{Name: a.Name, Version: a.Version, Resource: &anypb.Any{TypeUrl: string(a.Type), Value: a.Body}})
			}
			buffers, err := encoding.GetCodecV2(grpcproto.Name).Marshal(m)
			if err != nil {
				b.Fatal(err)
			}
			buffers.Free()
		}
	})
}

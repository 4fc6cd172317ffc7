package attacker_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The calls by which proxies get what they do.
const (
	adsPath   = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	deltaPath = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
)

// frames are what a connection over HTTP/2 sends after its preface: frames that are in order
// and such that are not, some of them in floods.
func frames(r *rand.Rand) []byte {
	var out, block bytes.Buffer
	f := http2.NewFramer(&out, nil)
	f.AllowIllegalWrites = true
	encoder := hpack.NewEncoder(&block)
	head := func(more ...hpack.HeaderField) []byte {
		block.Reset()
		for _, h := range append([]hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "https"}, {Name: ":path", Value: adsPath}, {Name: "content-type", Value: "application/grpc"}}, more...) {
			_ = encoder.WriteField(h) // it writes to memory, as all here does
		}
		return block.Bytes()
	}
	if r.IntN(5) > 0 {
		_ = f.WriteSettings()
	}
	for range 1 + r.IntN(6) {
		one(f, r, head)
	}
	raw := out.Bytes()
	if r.IntN(5) == 0 {
		raw = raw[:r.IntN(len(raw)+1)]
	}
	return raw
}

// one writes one kind of misbehaviour. Frames are written to memory, which takes them.
func one(f *http2.Framer, r *rand.Rand, head func(...hpack.HeaderField) []byte) {
	id := []uint32{0, 1, 1, 1, 2, 3, 5, 1<<31 - 1}[r.IntN(8)]
	switch r.IntN(18) {
	case 0:
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head(), EndHeaders: true, EndStream: r.IntN(2) == 0})
	case 1: // begun and given up, often
		for i := range uint32(500) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head(), EndHeaders: true})
			_ = f.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}
	case 2: // more streams than there may be
		for i := range uint32(400) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: head(), EndHeaders: true})
		}
	case 3: // a block that has no end
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head()})
		for range 200 {
			_ = f.WriteContinuation(1, false, bytes.Repeat(head(hpack.HeaderField{Name: "x", Value: "y"})[:1], 16<<10))
		}
	case 4: // a small block that is large when it is read
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(hpack.HeaderField{Name: "a", Value: strings.Repeat("a", 4000)})})
		_ = f.WriteContinuation(1, true, bytes.Repeat([]byte{0xbe}, 16_000))
	case 5:
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: noise(r, 100), EndHeaders: true})
	case 6:
		for i := range 3000 {
			_ = f.WritePing(false, [8]byte{byte(i)})
		}
	case 7:
		for i := range uint32(2000) {
			_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: i})
		}
	case 8:
		_ = f.WriteSettings(http2.Setting{ID: http2.SettingID(r.Uint32N(12)), Val: r.Uint32()}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 31})
	case 9:
		_ = f.WriteWindowUpdate(id, []uint32{0, 1, 1<<31 - 1}[r.IntN(3)])
		_ = f.WriteWindowUpdate(id, 1<<31-1)
	case 10:
		_ = f.WriteData(id, r.IntN(2) == 0, noise(r, r.IntN(16<<10)))
	case 11: // more than the window
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(), EndHeaders: true})
		for range 30 {
			_ = f.WriteData(1, false, noise(r, 16<<10))
		}
	case 12:
		_ = f.WriteContinuation(id, true, head())
	case 13:
		_ = f.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: id + 1, BlockFragment: head(), EndHeaders: true})
	case 14:
		_ = f.WritePriority(id, http2.PriorityParam{StreamDep: id, Exclusive: true, Weight: 255})
		_ = f.WriteGoAway(id, http2.ErrCode(r.Uint32()), noise(r, 1000))
	case 15:
		_ = f.WriteRawFrame(http2.FrameType(r.Uint32N(256)), http2.Flags(r.Uint32N(256)), id, noise(r, r.IntN(2000)))
	case 16: // longer than a frame may be
		_ = f.WriteRawFrame(http2.FrameData, 0, 1, noise(r, 1<<20))
	default: // data that is nothing, often
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head(), EndHeaders: true})
		for range 5000 {
			_ = f.WriteData(1, false, nil)
		}
	}
}

// calls are calls of gRPC by somebody whom nobody knows.
func calls(r *rand.Rand) (out []stream) {
	choose := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 1 + r.IntN(4) {
		s := stream{header: []hpack.HeaderField{
			{Name: ":method", Value: choose("POST", "POST", "POST", "POST", "POST", "POST", "POST", "POST", "GET", "PUT")}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: choose("localhost", "localhost", "localhost", "", "evil.example")},
			{Name: ":path", Value: choose(adsPath, adsPath, adsPath, adsPath, adsPath, adsPath, deltaPath, deltaPath, deltaPath, deltaPath, deltaPath, deltaPath, "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.health.v1.Health/Check", "/", "x", adsPath+"/", "//", "/"+strings.Repeat("a", 5000))},
			{Name: "te", Value: "trailers"},
			{Name: "content-type", Value: choose("application/grpc", "application/grpc", "application/grpc", "application/grpc", "application/grpc", "application/grpc", "application/grpc+proto", "application/grpc+x", "application/json", "")},
		}}
		for _, h := range []struct {
			often int
			hpack.HeaderField
		}{
			{70, hpack.HeaderField{Name: "authorization", Value: choose("Bearer guess", "", "Bearer ", "Basic eDp5", "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.", "Bearer "+alice.application, "Bearer "+strings.Repeat("x", 20_000), "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.e30.e30")}},
			{10, hpack.HeaderField{Name: "authorization", Value: "Bearer second"}},
			{10, hpack.HeaderField{Name: "grpc-timeout", Value: choose("1n", "99999999H", "0S", "-1S", "x", "100000000000000000000S")}},
			{15, hpack.HeaderField{Name: "grpc-encoding", Value: choose("gzip", "identity", "x", "deflate")}},
			{10, hpack.HeaderField{Name: "x-bin", Value: choose("!!!", "AAAA", "AAAA", "")}},
			{5, hpack.HeaderField{Name: "grpc-tags-bin", Value: strings.Repeat("A", 1000)}},
		} {
			if r.IntN(100) < h.often {
				s.header = append(s.header, h.HeaderField)
			}
		}
		s.body = message(r)
		out = append(out, s)
	}
	return out
}

// message is a request for configuration, or something like it.
func message(r *rand.Rand) string {
	length := func(flag byte, n uint32, body []byte) string {
		return string(append(binary.BigEndian.AppendUint32([]byte{flag}, n), body...))
	}
	part := func(tag byte, text string) string { return string([]byte{tag, byte(len(text))}) + text }
	// A node with an id, and a type.
	request := []byte(part(0x12, part(0x0a, fmt.Sprintf("default.sidecar-%d", r.IntN(10)))) + part(0x22, "type.googleapis.com/envoy.config.cluster.v3.Cluster"))
	switch r.IntN(8) {
	case 0:
		return ""
	case 1:
		return length(0, 1<<32-1, request)
	case 2:
		return length(1, uint32(len(request)), request)
	case 3:
		return length(byte(r.Uint32()), uint32(len(request)), request)
	case 4:
		return string(noise(r, r.IntN(2000)))
	case 5:
		body := noise(r, r.IntN(50<<10))
		return length(0, uint32(len(body)), body)
	case 6: // fields in fields
		body := bytes.Repeat([]byte{0x12, 0x7f}, 10_000)
		return length(0, uint32(len(body)), body)
	}
	return length(0, uint32(len(request)), request)
}

package server

import (
	"fmt"

	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Responses are encoded here and not through their messages, because a thousand streams send
// the same resources. gRPC sends these resources from where they are stored, already encoded.
// With messages, each stream would hold a copy of what it sends until the proxy has read it,
// in buffers of a megabyte for everything longer than 32 KiB.

// Fields of DeltaDiscoveryResponse and DiscoveryResponse (envoy.service.discovery.v3).
const (
	deltaType    protowire.Number = 4
	deltaNonce   protowire.Number = 5
	deltaRemoved protowire.Number = 6

	wholeVersion   protowire.Number = 1
	wholeResources protowire.Number = 2
	wholeType      protowire.Number = 4
	wholeNonce     protowire.Number = 5
)

// leastShared is the length in bytes from which a resource is sent without a copy. For a
// shorter resource, a copy costs less than a buffer of its own.
const leastShared = 512

// encoded is a message in the form that gRPC sends.
type encoded struct{ buffers mem.BufferSlice }

// encoder builds one message.
type encoder struct {
	encoded
	// open holds the bytes that were encoded after the last shared resource.
	open []byte
}

func (e *encoder) text(field protowire.Number, s string) {
	if s != "" {
		e.open = protowire.AppendTag(e.open, field, protowire.BytesType)
		e.open = protowire.AppendString(e.open, s)
	}
}

// begin starts a nested message of a known length.
func (e *encoder) begin(field protowire.Number, length int) {
	e.open = protowire.AppendTag(e.open, field, protowire.BytesType)
	e.open = protowire.AppendVarint(e.open, uint64(length)) //nolint:gosec // a length
}

// frozen adds bytes that never change. Long ones are shared, not copied.
func (e *encoder) frozen(b []byte) {
	if len(b) < leastShared {
		e.open = append(e.open, b...)
		return
	}
	if len(e.open) > 0 {
		e.buffers = append(e.buffers, mem.SliceBuffer(e.open))
		// The bytes that follow must not overwrite those in the buffer.
		e.open = e.open[len(e.open):]
	}
	e.buffers = append(e.buffers, mem.SliceBuffer(b))
}

func (e *encoder) end() *encoded {
	if len(e.open) > 0 {
		e.buffers = append(e.buffers, mem.SliceBuffer(e.open))
	}
	return &e.encoded
}

// encodeDelta encodes a response of the delta variant.
func encodeDelta(r *response) *encoded {
	e := newEncoder(r, 0, inDelta)
	for _, a := range r.add {
		e.frozen(a.Delta)
	}
	e.text(deltaType, string(r.typ))
	e.text(deltaNonce, r.nonce)
	for _, name := range r.remove {
		e.begin(deltaRemoved, len(name))
		e.open = append(e.open, name...)
	}
	return e.end()
}

// inDelta and inWhole return the encoded form of a resource in each variant.
func inDelta(r *resource.Resource) []byte { return r.Delta }
func inWhole(r *resource.Resource) []byte { return r.Packed }

// encodeWhole encodes a response of the state-of-the-world variant.
func encodeWhole(r *response) *encoded {
	version := r.version
	if version == "" {
		version = r.nonce
	}
	e := newEncoder(r, len(version), inWhole)
	e.text(wholeVersion, version)
	for _, a := range r.add {
		e.begin(wholeResources, len(a.Packed))
		e.frozen(a.Packed)
	}
	e.text(wholeType, string(r.typ))
	e.text(wholeNonce, r.nonce)
	return e.end()
}

// newEncoder allocates room for everything that is not shared, so that one allocation is
// enough. form returns the form in which the resources will be encoded.
func newEncoder(r *response, more int, form func(*resource.Resource) []byte) *encoder {
	// A tag takes one byte here, a length at most five.
	const overhead = 1 + 5
	room, shared := more+len(r.typ)+len(r.nonce)+3*overhead, 0
	for _, a := range r.add {
		room += overhead
		if n := len(form(a)); n < leastShared {
			room += n
		} else {
			shared++
		}
	}
	for _, name := range r.remove {
		room += overhead + len(name)
	}
	return &encoder{open: make([]byte, 0, room), encoded: encoded{buffers: make(mem.BufferSlice, 0, 2*shared+1)}}
}

// codec sends responses that are already encoded, and reads requests within their limits.
type codec struct{}

// Name implements [encoding.CodecV2].
func (codec) Name() string { return proto.Name }

// Unmarshal implements [encoding.CodecV2].
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		return fmt.Errorf("a message of type %T cannot be read, only requests can", v)
	}
	b := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer b.Free()
	return in.read(b.ReadOnlyData())
}

// Marshal implements [encoding.CodecV2].
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*encoded)
	if !ok {
		return nil, fmt.Errorf("a message of type %T cannot be sent, only responses can", v)
	}
	return m.buffers, nil
}

package server

import (
	"fmt"

	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Responses are encoded here and not through their messages, because a thousand
// streams send the same resources: gRPC takes those from where they are, encoded
// already. With messages each stream holds a copy of what it sends until the proxy has
// read it, in buffers of a megabyte for whatever is longer than 32 KiB.

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

// leastShared is the length in bytes from which a resource is sent from where it is. A
// shorter one costs less in a copy than in a buffer of its own.
const leastShared = 512

// encoded is a message as gRPC sends it.
type encoded struct{ buffers mem.BufferSlice }

// encoder builds one message.
type encoder struct {
	encoded
	// open is what was encoded since the last resource that is shared.
	open []byte
}

func (e *encoder) text(field protowire.Number, s string) {
	if s != "" {
		e.open = protowire.AppendTag(e.open, field, protowire.BytesType)
		e.open = protowire.AppendString(e.open, s)
	}
}

// begin starts a message of a known length within the message.
func (e *encoder) begin(field protowire.Number, length int) {
	e.open = protowire.AppendTag(e.open, field, protowire.BytesType)
	e.open = protowire.AppendVarint(e.open, uint64(length)) //nolint:gosec // a length
}

// frozen adds bytes that never change.
func (e *encoder) frozen(b []byte) {
	if len(b) < leastShared {
		e.open = append(e.open, b...)
		return
	}
	if len(e.open) > 0 {
		e.buffers = append(e.buffers, mem.SliceBuffer(e.open))
		// What follows must not overwrite what the buffer shows.
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

// encodeDelta is a response of the delta variant.
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

// inDelta and inWhole are the forms of a resource in the variants.
func inDelta(r *resource.Resource) []byte { return r.Delta }
func inWhole(r *resource.Resource) []byte { return r.Packed }

// encodeWhole is a response of the state-of-the-world variant.
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

// newEncoder makes room for all that is not shared, so that it is allocated once. The
// resources will be in a form.
func newEncoder(r *response, more int, form func(*resource.Resource) []byte) *encoder {
	// A tag has one byte here, a length at most five.
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

// codec sends responses that are encoded already, and reads requests by their limits.
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

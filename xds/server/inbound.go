package server

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Requests are read from their bytes and not through their messages, because a decoded message
// can be many times as large as its bytes. Two bytes are enough for a name, or for a value in
// the metadata of a node. This code checks the limits before it allocates anything. It skips
// fields that nobody reads, such as the list of a node's extensions.

const (
	// maxName is the maximum length in bytes of a name, a version, a type or a nonce. Names
	// come from the control plane, and a proxy that is refused for such a name would be
	// refused at each return. So the limit is far above the length of any real name;
	// [Limits.NameBytes] bounds what is kept.
	maxName = 64 << 10
	// maxNodeMetadata is the maximum encoded length of a node's metadata in bytes.
	maxNodeMetadata = 64 << 10
)

// fields holds the numbers of the fields that are read, per variant. 0 means that the variant
// has no such field.
type fields struct {
	node, url, subscribe, unsubscribe, versions, nonce, refused, accepted protowire.Number
}

var (
	// deltaFields and wholeFields are the fields of DeltaDiscoveryRequest and
	// DiscoveryRequest (envoy.service.discovery.v3).
	deltaFields = fields{node: 1, url: 2, subscribe: 3, unsubscribe: 4, versions: 5, nonce: 6, refused: 7}
	wholeFields = fields{accepted: 1, node: 2, subscribe: 3, url: 4, nonce: 5, refused: 6}
)

// These are fields of messages within a request: Node (envoy.config.core.v3), a map entry and
// Status (google.rpc).
const (
	nodeID       protowire.Number = 1
	nodeMetadata protowire.Number = 3
	entryKey     protowire.Number = 1
	entryValue   protowire.Number = 2
	statusText   protowire.Number = 2
)

var (
	errUTF8     = errors.New("a text is not valid UTF-8")
	errNames    = status.Error(codes.ResourceExhausted, "the request has too many names")
	errName     = status.Errorf(codes.ResourceExhausted, "a name or version has more than %d bytes", maxName)
	errFirst    = status.Error(codes.ResourceExhausted, "the first request is too large")
	errMetadata = status.Errorf(codes.ResourceExhausted, "the metadata of the node have more than %d bytes", maxNodeMetadata)
)

// inbound is a request in the course of being read.
type inbound struct {
	fields
	// bytes is the maximum length of the request; 0 leaves it to the transport. names is the
	// number of names and versions that it may still contain.
	bytes, names int

	request  request
	metadata *structpb.Struct
	// over is the error of the limit that the request exceeds.
	over error
}

// read decodes a message. The error says that the message cannot be decoded. If the message
// exceeds a limit instead, read returns nil and sets over.
func (in *inbound) read(b []byte) error {
	if in.bytes > 0 && len(b) > in.bytes {
		in.over = errFirst
		return nil
	}
	err := eachField(b, in.field)
	if _, limit := status.FromError(err); err != nil && limit {
		in.over = err
		return nil
	}
	if err != nil {
		return err
	}
	in.request.metadata, in.request.bare = versions(in.metadata), bare(in.metadata)
	return nil
}

// field reads one length-delimited field. A request has no other fields of interest.
func (in *inbound) field(number protowire.Number, b []byte) (err error) {
	r := &in.request
	switch number {
	case in.node:
		return eachField(b, in.nodeField)
	case in.url:
		return short((*string)(&r.url), b)
	case in.subscribe:
		return in.add(&r.subscribe, b)
	case in.unsubscribe:
		return in.add(&r.unsubscribe, b)
	case in.versions:
		return in.version(b)
	case in.nonce:
		return short(&r.nonce, b)
	case in.accepted:
		return short(&r.accepted, b)
	case in.refused:
		r.refused = true
		return eachField(b, func(number protowire.Number, b []byte) error {
			if number != statusText {
				return nil
			}
			return text(&r.text, b)
		})
	}
	return nil
}

func (in *inbound) nodeField(number protowire.Number, b []byte) error {
	switch number {
	case nodeID:
		return short(&in.request.node, b)
	case nodeMetadata:
		if len(b) > maxNodeMetadata {
			return errMetadata
		}
		in.metadata = &structpb.Struct{}
		return proto.Unmarshal(b, in.metadata)
	}
	return nil
}

// one counts a name or a version.
func (in *inbound) one() error {
	if in.names--; in.names < 0 {
		return errNames
	}
	return nil
}

func (in *inbound) add(to *[]string, b []byte) error {
	if err := in.one(); err != nil {
		return err
	}
	var name string
	err := short(&name, b)
	*to = append(*to, name)
	return err
}

func (in *inbound) version(b []byte) error {
	if err := in.one(); err != nil {
		return err
	}
	var name, version string
	if err := eachField(b, func(number protowire.Number, b []byte) error {
		switch number {
		case entryKey:
			return short(&name, b)
		case entryValue:
			return short(&version, b)
		}
		return nil
	}); err != nil {
		return err
	}
	if in.request.versions == nil {
		in.request.versions = map[string]string{}
	}
	in.request.versions[name] = version
	return nil
}

// short reads a text of at most maxName bytes.
func short(to *string, b []byte) error {
	if len(b) > maxName {
		return errName
	}
	return text(to, b)
}

func text(to *string, b []byte) error {
	if !utf8.Valid(b) {
		return errUTF8
	}
	*to = string(b)
	return nil
}

// eachField calls f with each length-delimited field of a message, in order.
func eachField(b []byte, f func(protowire.Number, []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("read a field: %w", protowire.ParseError(n))
		}
		b = b[n:]
		value := b
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return fmt.Errorf("read field %d: %w", number, protowire.ParseError(n))
		}
		b = b[n:]
		if kind != protowire.BytesType {
			continue
		}
		value, _ = protowire.ConsumeBytes(value)
		if err := f(number, value); err != nil {
			return err
		}
	}
	return nil
}

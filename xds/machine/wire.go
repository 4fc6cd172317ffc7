package machine

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

var errMalformed = errors.New("it is no message of its type")

// These are the descriptors of messages that are decoded by hand.
var (
	ofAny  = (*anypb.Any)(nil).ProtoReflect().Descriptor()
	ofText = (*wrapperspb.StringValue)(nil).ProtoReflect().Descriptor()
)

// unpack returns the type and the content of an Any.
func unpack(body []byte) (url, value []byte, err error) {
	if url, err = last(ofAny, body, 1); err != nil {
		return nil, nil, err
	}
	value, err = last(ofAny, body, 2)
	return url, value, err
}

// last returns the last value of a field, which is the one that counts.
func last(md protoreflect.MessageDescriptor, body []byte, number protowire.Number) (value []byte, err error) {
	err = each(md, body, func(fd protoreflect.FieldDescriptor, v []byte) error {
		if fd.Number() == number {
			value = v
		}
		return nil
	})
	return value, err
}

// each visits the length-delimited fields of a message. An unknown field is an error: an Envoy
// of another version may know it, and would read what nobody here has inspected.
func each(md protoreflect.MessageDescriptor, body []byte, visit func(protoreflect.FieldDescriptor, []byte) error) error {
	fields := md.Fields()
	for len(body) > 0 {
		number, kind, n := protowire.ConsumeTag(body)
		if n < 0 {
			return errMalformed
		}
		body = body[n:]
		if n = protowire.ConsumeFieldValue(number, kind, body); n < 0 {
			return errMalformed
		}
		fd := fields.ByNumber(number)
		if fd == nil || !fits(fd, kind) {
			return fmt.Errorf("it holds a field that this proxy's agent does not know (%s, number %d): let the agent be no older than its control plane", md.FullName(), number)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(body)
			if err := visit(fd, value); err != nil {
				return err
			}
		}
		body = body[n:]
	}
	return nil
}

// fits reports whether a decoder accepts a kind of value for a field. It would store any other
// value among the unknown fields. Lists of numbers may be length-delimited.
func fits(fd protoreflect.FieldDescriptor, kind protowire.Type) bool {
	own := kindOf(fd.Kind())
	return kind == own || kind == protowire.BytesType && own != protowire.StartGroupType && fd.IsList()
}

// kindOf returns how single values of a field are encoded.
func kindOf(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.MessageKind, protoreflect.StringKind, protoreflect.BytesKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	default:
		return protowire.VarintType
	}
}

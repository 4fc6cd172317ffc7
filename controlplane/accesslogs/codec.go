package accesslogs

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	// The codec of protobuf, on which ours stands.
	_ "google.golang.org/grpc/encoding/proto"
)

// codec reads calls in which texts are not UTF-8. Envoy puts headers into lines as they came, and
// protobuf refuses a whole call for one such byte: any caller could have the lines of all others
// of that moment dropped.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal implements [encoding.CodecV2].
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	raw := data.Materialize()
	err := proto.Unmarshal(raw, m)
	if err == nil {
		return nil
	}
	proto.Reset(m)
	mended, ok := mend(m.ProtoReflect().Descriptor(), raw, 0)
	if !ok {
		return err
	}
	return proto.Unmarshal(mended, m)
}

// maxNesting is how deep messages may lie in each other.
const maxNesting = 32

// mend returns a message in which every text is UTF-8; ok is false if it is no message.
func mend(md protoreflect.MessageDescriptor, raw []byte, depth int) (out []byte, ok bool) {
	if depth > maxNesting {
		return nil, false
	}
	for len(raw) > 0 {
		num, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return nil, false
		}
		size := protowire.ConsumeFieldValue(num, typ, raw[n:])
		if size < 0 {
			return nil, false
		}
		field := raw[:n+size]
		raw = raw[n+size:]
		fd := md.Fields().ByNumber(num)
		if fd == nil || typ != protowire.BytesType {
			out = append(out, field...)
			continue
		}
		value, _ := protowire.ConsumeBytes(field[n:])
		switch {
		case fd.Kind() == protoreflect.StringKind && !utf8.Valid(value):
			value = []byte(readable(value))
		case fd.Kind() == protoreflect.MessageKind && !fd.IsMap():
			if value, ok = mend(fd.Message(), value, depth+1); !ok {
				return nil, false
			}
		}
		out = protowire.AppendBytes(append(out, field[:n]...), value)
	}
	return out, true
}

// readable writes bytes that are not UTF-8 as their numbers.
func readable(text []byte) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		if r == utf8.RuneError && n == 1 {
			b.WriteString(`\x` + strconv.FormatUint(uint64(text[0])|0x100, 16)[1:])
		} else {
			b.Write(text[:n])
		}
		text = text[n:]
	}
	return b.String()
}

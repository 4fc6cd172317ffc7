package machine

import (
	"bytes"
	"fmt"

	golangv3 "github.com/envoyproxy/go-control-plane/contrib/envoy/extensions/filters/http/golang/v3alpha"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	streamv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stream/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Alike reports whether two resources are the same, apart from their encoding and from the
// files of the machine. What a proxy has contains the files of its agent ([Bounds.Admit]), so
// a comparison with what was sent must ignore them. A resource that cannot be decoded is like
// no other.
func Alike(a, b *anypb.Any) bool {
	var said [2][]byte
	for i, r := range []*anypb.Any{a, b} {
		body, err := anywhere.replace(r.GetTypeUrl(), r.GetValue())
		if err != nil {
			return false
		}
		said[i] = body
	}
	return a.GetTypeUrl() == b.GetTypeUrl() && bytes.Equal(said[0], said[1])
}

// anywhere stands for all machines.
var anywhere = Bounds{Roots: "/", Library: "/"}

// These are the names of the two loggers.
const (
	nameFile   = "envoy.access_loggers.file"
	nameStdout = "envoy.access_loggers.stdout"
)

// replace puts the machine's own files into a resource.
func (b Bounds) replace(typeURL string, body []byte) ([]byte, error) {
	a := &anypb.Any{TypeUrl: typeURL, Value: body}
	if err := b.inAny(a); err != nil {
		return nil, err
	}
	return a.GetValue(), nil
}

// inAny replaces the files in an Any, or the whole logger if it is one.
func (b Bounds) inAny(a *anypb.Any) error {
	if a.GetTypeUrl() == "" {
		return nil
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return fmt.Errorf("decode %s: %w", a.GetTypeUrl(), err)
	}
	switch log := m.(type) {
	case *filev3.FileAccessLog:
		m = b.logger(log.GetLogFormat())
	case *streamv3.StdoutAccessLog:
		m = b.logger(log.GetLogFormat())
	default:
		if err := b.inMessage(m.ProtoReflect()); err != nil {
			return err
		}
	}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", a.GetTypeUrl(), err)
	}
	a.TypeUrl, a.Value = typePrefix+string(m.ProtoReflect().Descriptor().FullName()), value
	return nil
}

// logger returns a logger that writes to the machine's access log.
func (b Bounds) logger(format *corev3.SubstitutionFormatString) proto.Message {
	if b.AccessLog == "" {
		return &streamv3.StdoutAccessLog{AccessLogFormat: &streamv3.StdoutAccessLog_LogFormat{LogFormat: format}}
	}
	return &filev3.FileAccessLog{Path: b.AccessLog, AccessLogFormat: &filev3.FileAccessLog_LogFormat{LogFormat: format}}
}

// inMessage replaces the files that a message names.
func (b Bounds) inMessage(m protoreflect.Message) (err error) {
	switch x := m.Interface().(type) {
	case *anypb.Any:
		return b.inAny(x)
	case *golangv3.Config:
		x.LibraryPath = b.Library
		return nil // the rest is the filter's
	case *tlsv3.CertificateValidationContext:
		if file, is := x.GetTrustedCa().GetSpecifier().(*corev3.DataSource_Filename); is {
			file.Filename = b.Roots
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					err = b.inMessage(v.Message())
					return err == nil
				})
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := 0; i < v.List().Len() && err == nil; i++ {
				err = b.inMessage(v.List().Get(i).Message())
			}
		default:
			err = b.inMessage(v.Message())
		}
		return err == nil
	})
	if log, is := m.Interface().(*accesslogv3.AccessLog); is && err == nil {
		switch log.GetTypedConfig().GetTypeUrl() {
		case typePrefix + fileLog:
			log.Name = nameFile
		case typePrefix + stdoutLog:
			log.Name = nameStdout
		}
	}
	return err
}

// Package concealed knows which parts of a proxy's configuration are shown to nobody: what
// health checks send and expect, and the values of the headers of health checks, of Envoy's own
// calls, and of those that routes add to requests unless the control plane itself adds them. An
// operator may have put a password there. Envoy does not treat these parts as
// secret. It omits from its dumps what it knows to be secret, such as private keys.
package concealed

import (
	"fmt"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Names of members, in Envoy's spelling and in that of JSON.
var (
	// all contain, at any depth, values that are concealed.
	all = []string{"health_checks", "healthChecks", "initial_metadata", "initialMetadata", "http_service", "httpService"}
	// added contain headers that routes add.
	added = []string{"request_headers_to_add", "requestHeadersToAdd"}
	// Members are the members that contain concealed values.
	Members = slices.Concat(all, added)
)

// Place says what is concealed in a part of a configuration.
type Place int

// Places, the strictest one last.
const (
	// Shown is where nothing is.
	Shown Place = iota
	// Added is where headers are that a route adds; see [Place.Conceals].
	Added
	// Hidden is where all values are.
	Hidden
)

// Within returns the place of a member of something at a place.
func (p Place) Within(member string) Place {
	switch {
	case p == Hidden || slices.Contains(all, member):
		return Hidden
	case p == Added || slices.Contains(added, member):
		return Added
	}
	return Shown
}

// Conceals reports whether a value is concealed at a place. header is the header that it is of, if that
// is known.
func (p Place) Conceals(member, header string) bool {
	return p != Shown && IsValue(member) && (p == Hidden || !isOwn(header))
}

// isOwn reports whether the control plane itself has routes add a header, or it says where a request
// comes from.
func isOwn(header string) bool {
	return header == "connection" || strings.HasPrefix(header, "x-forwarded-") || strings.HasPrefix(header, "x-meshgate-")
}

// IsValue reports whether a member is the value of a header, or the value that a health check
// sends or expects.
func IsValue(name string) bool {
	switch name {
	case "value", "raw_value", "rawValue", "text", "binary":
		return true
	}
	return false
}

// Values returns the concealed values of a resource. The error says that the resource cannot
// be decoded.
func Values(typeURL string, body []byte) (values []string, err error) {
	f := &finder{}
	f.any(&anypb.Any{TypeUrl: typeURL, Value: body}, Shown)
	return f.values, f.err
}

// finder collects values.
type finder struct {
	values []string
	err    error
}

// any searches an Any at a place.
func (f *finder) any(a *anypb.Any, at Place) {
	if a.GetTypeUrl() == "" {
		return
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		f.err = fmt.Errorf("decode %s: %w", a.GetTypeUrl(), err)
		return
	}
	f.message(m.ProtoReflect(), at)
}

// message searches the fields of a message.
func (f *finder) message(m protoreflect.Message, at Place) {
	header := ""
	switch m := m.Interface().(type) {
	case *anypb.Any:
		f.any(m, at)
		return
	case *corev3.HeaderValue:
		header = m.GetKey()
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		within := at.Within(name)
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					f.message(v.Message(), within)
					return true
				})
			}
		case fd.IsList() && fd.Message() != nil:
			for i := range v.List().Len() {
				f.message(v.List().Get(i).Message(), within)
			}
		case fd.IsList():
		case fd.Message() != nil:
			f.message(v.Message(), within)
		case !at.Conceals(name, header):
		case fd.Kind() == protoreflect.StringKind:
			f.values = append(f.values, v.String())
		case fd.Kind() == protoreflect.BytesKind:
			f.values = append(f.values, string(v.Bytes()))
		}
		return true
	})
}

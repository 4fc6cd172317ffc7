// Package concealed knows which parts of a proxy's configuration are shown to nobody: what
// health checks send and expect, and the values of the headers of health checks and of Envoy's
// own calls. An operator may have put a password there. Envoy does not treat these parts as
// secret. It omits from its dumps what it knows to be secret, such as private keys.
package concealed

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Members are the names of the members that contain such values at any depth, in Envoy's
// spelling and in that of JSON.
var Members = []string{"health_checks", "healthChecks", "initial_metadata", "initialMetadata", "http_service", "httpService"}

// IsMember reports whether a name is one of [Members].
func IsMember(name string) bool { return slices.Contains(Members, name) }

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
	f.any(&anypb.Any{TypeUrl: typeURL, Value: body}, false)
	return f.values, f.err
}

// finder collects values.
type finder struct {
	values []string
	err    error
}

// any searches an Any. under says that one of [Members] leads to it.
func (f *finder) any(a *anypb.Any, under bool) {
	if a.GetTypeUrl() == "" {
		return
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		f.err = fmt.Errorf("decode %s: %w", a.GetTypeUrl(), err)
		return
	}
	f.message(m.ProtoReflect(), under)
}

// message searches the fields of a message.
func (f *finder) message(m protoreflect.Message, under bool) {
	if a, is := m.Interface().(*anypb.Any); is {
		f.any(a, under)
		return
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		name := string(fd.Name())
		within := under || IsMember(name)
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
		case !under || !IsValue(name):
		case fd.Kind() == protoreflect.StringKind:
			f.values = append(f.values, v.String())
		case fd.Kind() == protoreflect.BytesKind:
			f.values = append(f.values, string(v.Bytes()))
		}
		return true
	})
}

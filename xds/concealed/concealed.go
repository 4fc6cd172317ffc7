// Package concealed knows which parts of a proxy's configuration are shown to nobody: what
// health checks send and expect, and the values of the headers of health checks and of
// Envoy's own calls. An operator may have put a password there. Envoy takes them for
// nothing special. What it knows to be a secret,
// such as private keys, it leaves out of its dumps itself.
package concealed

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Members are the names of what holds such values, at any depth, as Envoy spells them and
// as JSON does.
var Members = []string{"health_checks", "healthChecks", "initial_metadata", "initialMetadata", "http_service", "httpService"}

// IsMember reports whether a name is one of [Members].
func IsMember(name string) bool { return slices.Contains(Members, name) }

// IsValue reports whether a member of a header, or of what a health check sends or expects,
// holds its value.
func IsValue(name string) bool {
	switch name {
	case "value", "raw_value", "rawValue", "text", "binary":
		return true
	}
	return false
}

// Values returns what nobody may read of a resource. The error says that it cannot be
// looked into.
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

// any looks into an Any; under says that a member that holds headers leads there.
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

// message looks at the fields of a message.
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

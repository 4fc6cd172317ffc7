package proxytemplate

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// merge lays a message over another one of the same type: what it sets replaces what is there,
// its lists are appended, and messages are merged. Unlike [proto.Merge] it replaces the
// well-known types, because 5s over 500ms is 5s, and looks into packed messages.
func merge(into, over protoreflect.Message) (err error) {
	over.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			list := into.Mutable(f).List()
			for i := range v.List().Len() {
				list.Append(v.List().Get(i))
			}
		case f.IsMap():
			entries := into.Mutable(f).Map()
			v.Map().Range(func(k protoreflect.MapKey, value protoreflect.Value) bool {
				if f.MapValue().Message() != nil && entries.Has(k) {
					err = mergeMessage(entries.Mutable(k).Message(), value.Message(), func() { entries.Set(k, value) })
				} else {
					entries.Set(k, value)
				}
				return err == nil
			})
		case f.Message() != nil && into.Has(f):
			err = mergeMessage(into.Mutable(f).Message(), v.Message(), func() { into.Set(f, v) })
		default:
			into.Set(f, v)
		}
		return err == nil
	})
	return err
}

func mergeMessage(into, over protoreflect.Message, replace func()) error {
	a, ok := into.Interface().(*anypb.Any)
	if b, too := over.Interface().(*anypb.Any); ok && too {
		return mergePacked(a, b, replace)
	}
	if strings.HasPrefix(string(into.Descriptor().FullName()), "google.protobuf.") {
		replace()
		return nil
	}
	return merge(into, over)
}

func mergePacked(into, over *anypb.Any, replace func()) error {
	if into.GetTypeUrl() != over.GetTypeUrl() {
		replace()
		return nil
	}
	was, err := into.UnmarshalNew()
	if err != nil {
		return err
	}
	now, err := over.UnmarshalNew()
	if err != nil {
		return err
	}
	if err := merge(was.ProtoReflect(), now.ProtoReflect()); err != nil {
		return err
	}
	into.Value, err = proto.MarshalOptions{Deterministic: true}.Marshal(was)
	return err
}

// packed holds the messages that others pack against the rules of their fields. One of an
// unknown type is wrong.
func packed(m protoreflect.Message) (err error) {
	if p, ok := m.Interface().(*anypb.Any); ok {
		inner, err := p.UnmarshalNew()
		if err != nil {
			return err
		}
		if v, ok := inner.(interface{ ValidateAll() error }); ok {
			if err := v.ValidateAll(); err != nil {
				return fmt.Errorf("%s: %w", p.MessageName(), err)
			}
		}
		return packed(inner.ProtoReflect())
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			if f.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, value protoreflect.Value) bool {
					err = packed(value.Message())
					return err == nil
				})
			}
		case f.IsList():
			for i := 0; f.Message() != nil && i < v.List().Len() && err == nil; i++ {
				err = packed(v.List().Get(i).Message())
			}
		case f.Message() != nil:
			err = packed(v.Message())
		}
		return err == nil
	})
	return err
}

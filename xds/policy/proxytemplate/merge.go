package proxytemplate

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// merge puts the fields of a patch into a message. Messages are merged, lists get longer, and
// everything else is replaced. In contrast to proto.Merge durations and wrapped numbers are
// replaced as a whole (half of "0.25s" would stay under "5s"), and packed messages are merged.
func merge(into, patch protoreflect.Message) (err error) {
	patch.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsList():
			list := into.Mutable(fd).List()
			for i := range v.List().Len() {
				list.Append(v.List().Get(i))
			}
		case fd.Kind() != protoreflect.MessageKind || simple(fd.Message()) || !into.Has(fd):
			into.Set(fd, v)
		case fd.Message().FullName() == anyName:
			err = mergePacked(into.Mutable(fd).Message(), v.Message())
		default:
			err = merge(into.Mutable(fd).Message(), v.Message())
		}
		return err == nil
	})
	return err
}

func mergePacked(into, patch protoreflect.Message) error {
	was, ok := into.Interface().(*anypb.Any)
	next, also := patch.Interface().(*anypb.Any)
	if !ok || !also {
		return fmt.Errorf("%s is no packed message", into.Descriptor().FullName())
	}
	if was.GetTypeUrl() != next.GetTypeUrl() {
		return fmt.Errorf("it is %q, and the patch is for %q", was.MessageName(), next.MessageName())
	}
	m, err := was.UnmarshalNew()
	if err != nil {
		return err
	}
	p, err := next.UnmarshalNew()
	if err != nil {
		return err
	}
	if err := merge(m.ProtoReflect(), p.ProtoReflect()); err != nil {
		return err
	}
	if err := valid(m); err != nil {
		return err
	}
	was.Value, err = proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return err
}

package proxytemplate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// scope is a set of places where a template may set a field.
type scope uint

const (
	// made is a new cluster, listener, filter or virtual host.
	made scope = 1 << iota
	// patched is one that the mesh, or the template, has made.
	patched

	anywhere = made | patched
)

// rule says where a field may be set, and to what.
type rule struct {
	in scope
	// bound returns an error for a value that may not be set; nil permits any.
	bound func(protoreflect.Value) error
	// most is how many elements a list may have; 0 stands for maxElements.
	most int
}

// maxElements is how many elements a list has that nothing else is said about.
const maxElements = 16

// check returns an error that names the first field of a message that may not be set as it is.
func (in scope) check(m protoreflect.Message, path string, depth int) error {
	name := m.Descriptor().FullName()
	of, known := fields[name]
	switch {
	case depth > maxDepth:
		return errors.New("its messages lie too deep in each other")
	case !known:
		return fmt.Errorf("%sa template cannot make a %s", at(path), name)
	case len(m.GetUnknown()) > 0:
		return fmt.Errorf("%sit has fields that are not known", at(path))
	}
	all := m.Descriptor().Fields()
	for i := range all.Len() {
		fd := all.Get(i)
		if !m.Has(fd) {
			if in == made && slices.Contains(required[name], fd.Name()) {
				return fmt.Errorf("%sit must be set", at(strings.TrimPrefix(path+"."+string(fd.Name()), ".")))
			}
			continue
		}
		here := strings.TrimPrefix(path+"."+string(fd.Name()), ".")
		r, may := of[fd.Name()]
		if !may || r.in&in == 0 {
			return fmt.Errorf("%sa template cannot set this", at(here))
		}
		if err := in.field(&r, fd, m.Get(fd), here, depth); err != nil {
			return err
		}
	}
	return nil
}

func at(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func (in scope) field(r *rule, fd protoreflect.FieldDescriptor, v protoreflect.Value, path string, depth int) error {
	if !fd.IsList() {
		return in.value(r, fd, v, path, depth)
	}
	most := r.most
	if most == 0 {
		most = maxElements
	}
	if n := v.List().Len(); n > most {
		return fmt.Errorf("%sit has %d elements, and may have %d", at(path), n, most)
	}
	for i := range v.List().Len() {
		if err := in.value(r, fd, v.List().Get(i), fmt.Sprintf("%s[%d]", path, i), depth); err != nil {
			return err
		}
	}
	return nil
}

func (in scope) value(r *rule, fd protoreflect.FieldDescriptor, v protoreflect.Value, path string, depth int) error {
	if r.bound != nil {
		if err := r.bound(v); err != nil {
			return fmt.Errorf("%s%w", at(path), err)
		}
	}
	if fd.Kind() != protoreflect.MessageKind || simple(fd.Message()) {
		return nil
	}
	m := v.Message()
	packed, ok := m.Interface().(*anypb.Any)
	if !ok {
		return in.check(m, path, depth+1)
	}
	inner, err := packed.UnmarshalNew()
	if err != nil {
		return fmt.Errorf("%sit must have an \"@type\" that is known", at(path))
	}
	return in.check(inner.ProtoReflect(), path, depth+1)
}

// simple reports whether a message is a value of its own, which is not looked into and replaces
// what was there: durations and wrapped numbers.
func simple(md protoreflect.MessageDescriptor) bool {
	return md.ParentFile().Package() == "google.protobuf" && md.FullName() != anyName
}

var anyName = (&anypb.Any{}).ProtoReflect().Descriptor().FullName()

// valid returns what the rules of its proto say about a message and about all that is packed in it.
func valid(m proto.Message) error {
	if v, ok := m.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	return within(m.ProtoReflect())
}

func within(m protoreflect.Message) (err error) {
	if packed, ok := m.Interface().(*anypb.Any); ok {
		inner, err := packed.UnmarshalNew()
		if err != nil {
			return err
		}
		return valid(inner)
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Kind() != protoreflect.MessageKind || fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				err = errors.Join(err, within(v.List().Get(i).Message()))
			}
		default:
			err = within(v.Message())
		}
		return err == nil
	})
	return err
}

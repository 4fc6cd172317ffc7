package model

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
)

// Extensions of JSON Schema in the tag jsonschema_extras that say how a store finds the
// resources of a kind.
const (
	extUnique   = "x-unique"    // true, or secret: see [Index]
	extListed   = "x-listed"    // true: see [ListIndex]
	extHolds    = "x-holds"     // see [Hold]
	extOnDelete = "x-on-delete" // cascade: see [Ref]; references refuse without it
	extIn       = "x-in"        // the member that holds Ref.In
)

// Describe returns a kind whose resources have specs of the type of spec. What the tags
// of that type say comes before what k lists itself: the fields of k's schema, if it has
// one, references, and the indexes of single fields. The value of the field that is the
// schema's Key is indexed as KeyIndex spells it. A kind with a Document gets the schema of
// its spec as documents spell it, and nothing else: its tags are those of JSON Schema.
//
// It panics if a tag is wrong, as [Rules.Fields] does.
func (r *Rules) Describe(spec any, k Kind) *Kind {
	t := reflect.TypeOf(spec)
	k.New = func() any { return reflect.New(t).Interface() }
	reflected := reflectSpec(t)
	if s := k.Schema; s != nil {
		s.Fields = append(Identity(s.CreatedUnit, s.Updated), r.fields(reflected)...)
	}
	if d := k.Document; d != nil {
		d.Schema = reflectDocument(t)
		return &k
	}
	var own Kind
	for p := reflected.Properties.Oldest(); p != nil; p = p.Next() {
		spelled(p.Key, p.Value)
		own.find(t, p.Key, p.Value, k.Schema)
	}
	k.Unique = append(own.Unique, k.Unique...)
	k.Refs = append(own.Refs, k.Refs...)
	k.Holds = append(own.Holds, k.Holds...)
	k.Lists = append(own.Lists, k.Lists...)
	return &k
}

// find adds what a field says of how its resources are found.
func (k *Kind) find(t reflect.Type, name string, s *jsonschema.Schema, schema *Schema) {
	field := read{indexOf(t, name)}
	if how := s.Extras[extUnique]; how != nil {
		spelled := field.text
		if schema != nil && schema.Key == name && schema.KeyIndex != nil {
			spelled = field.spelled(schema.KeyIndex)
		}
		k.Unique = append(k.Unique, Index{Name: name, Secret: how == "secret", Value: spelled})
	}
	if to, ok := s.Extras[extRefersTo].(string); ok {
		ref := Ref{Name: name, To: to, OnDelete: Refuse, Target: field.text}
		if s.Extras[extOnDelete] == "cascade" {
			ref.OnDelete = Cascade
		}
		ref.In = scopeOf(t, name, s)
		k.Refs = append(k.Refs, ref)
	}
	if to, ok := s.Extras[extHolds].(string); ok {
		k.Holds = append(k.Holds, Hold{Name: name, To: to, Targets: field.texts})
	}
	if s.Extras[extListed] != nil {
		k.Lists = append(k.Lists, ListIndex{Name: name, Values: field.texts})
	}
}

// scopeOf is [Ref.In] of a field; nil if what it refers to is always of its own scope.
func scopeOf(t reflect.Type, name string, s *jsonschema.Schema) func(any) string {
	in, ok := s.Extras[extIn].(string)
	switch {
	case !ok:
		return nil
	case s.Extras[extOnDelete] != "cascade":
		panic(fmt.Sprintf("the field %s has %s and does not cascade: another scope could keep its target from being deleted", name, extIn))
	}
	field := read{indexOf(t, in)}
	return func(spec any) string {
		scope, _ := field.text(spec)
		return scope
	}
}

// read reads one field of the specs of a type.
type read struct{ index []int }

func (f read) value(spec any) reflect.Value {
	return reflect.ValueOf(spec).Elem().FieldByIndex(f.index)
}

// text is the value of a field of type string, and whether there is one.
func (f read) text(spec any) (string, bool) {
	s := f.value(spec).String()
	return s, s != ""
}

// spelled is text as an index spells it.
func (f read) spelled(fold func(string) string) func(any) (string, bool) {
	return func(spec any) (string, bool) {
		s, ok := f.text(spec)
		if !ok {
			return "", false
		}
		return fold(s), true
	}
}

// texts are the values of a field of type string or []string.
func (f read) texts(spec any) []string {
	v := f.value(spec)
	if list, ok := v.Interface().([]string); ok {
		return list
	}
	if s := v.String(); s != "" {
		return []string{s}
	}
	return nil
}

// indexOf finds the field that JSON names so.
func indexOf(t reflect.Type, name string) []int {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Index
		}
	}
	panic(t.String() + " has no field " + name)
}

// Describe is [Rules.Describe] for a spec whose tags name no rules.
func Describe(spec any, k Kind) *Kind { return (&Rules{}).Describe(spec, k) }

func reflectSpec(t reflect.Type) *jsonschema.Schema {
	r := jsonschema.Reflector{Anonymous: true, DoNotReference: true, ExpandedStruct: true}
	return r.ReflectFromType(t)
}

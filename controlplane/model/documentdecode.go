package model

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// DocumentMeta holds the members of a document beside its spec.
type DocumentMeta struct {
	Type, Mesh, Name string
	Labels           map[string]string
}

// Decoded is a document as it was read.
type Decoded struct {
	Meta DocumentMeta
	Spec any
	// Unknown lists unknown members at any depth, each with the name that was probably meant.
	// It also lists members that are given twice; of these the last one that is not null
	// counts. Unknown members are not in Spec.
	Unknown []fault.Violation
}

// DecodeDocument reads a document into a new spec of its kind, including labels. It refuses
// unknown members: a mistyped name would otherwise leave a default in force, which may allow
// everything. See [ReadDocument].
func DecodeDocument(k *Kind, raw []byte) (DocumentMeta, any, error) {
	d, err := ReadDocument(k, raw)
	if err == nil {
		err = fault.Violated(d.Unknown)
	}
	if err != nil {
		return DocumentMeta{}, nil, err
	}
	return d.Meta, d.Spec, nil
}

// ReadDocument is DecodeDocument for callers that decide themselves about unknown members.
//
// It reads as tolerantly as the mesh API promises. null means absent, names are in camelCase
// or snake_case, and integers are numbers or numeric strings. Enumerations (strings with enum
// in their jsonschema tag) are given by name or number, and bytes are base64. The first value
// of an enumeration is its default, for which a field is "" unless it is a pointer. Empty
// lists and maps count as absent. Types with UnmarshalJSON read themselves. A map[string]any
// is kept as it is, with numbers as float64.
//
// Every failure is an Invalid fault without violations whose detail reads
//
//	invalid <Type> object: "<message>"
//
// The caller has to check whether type, mesh and name are the expected ones.
func ReadDocument(k *Kind, raw []byte) (Decoded, error) {
	r := &documentReader{}
	d, err := r.document(k, raw)
	if err != nil {
		return Decoded{}, fault.New(fault.Invalid, "invalid %s object: %q", k.Document.Type, err.Error())
	}
	d.Unknown = r.unknown
	return d, nil
}

// ReadObject reads a JSON object that is not a document into a struct, as tolerantly as a
// document and with the same limits. It returns the same as [Decoded.Unknown] does for a
// document; unknown members with a tolerated name are left out. Its errors are Invalid
// faults.
func ReadObject(raw []byte, into any, tolerated ...string) (unknown []fault.Violation, err error) {
	o, err := ParseObject(raw)
	if err != nil {
		return nil, err
	}
	return o.Read(into, tolerated...)
}

// Object is a parsed JSON value, for callers that must look at it before they know its type.
// Parsing is what takes memory, many times that of the text.
type Object struct{ tree node }

// ParseObject parses a text for [Object.Read]. Its errors are Invalid faults.
func ParseObject(raw []byte) (*Object, error) {
	tree, err := parseTree(raw)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s", err)
	}
	return &Object{tree}, nil
}

// Has reports whether there is a member with this name that is not null.
func (o *Object) Has(name string) bool {
	members, _ := o.tree.value.([]member)
	return slices.ContainsFunc(members, func(m member) bool { return m.key == name && m.node.value != nil })
}

// Read does the same as [ReadObject] for a parsed object.
func (o *Object) Read(into any, tolerated ...string) (unknown []fault.Violation, err error) {
	r := &documentReader{}
	if err := r.object(reflect.ValueOf(into).Elem(), o.tree, "", tolerated); err != nil {
		return nil, fault.New(fault.Invalid, "%s", err)
	}
	return r.unknown, nil
}

// documentReader reads one document.
type documentReader struct{ unknown []fault.Violation }

// maxUnknown bounds the unknown members in an answer.
const maxUnknown = 100

const textTwice = "is given twice"

// heads lists the members of every document beside those of its spec.
var heads = []string{"type", "mesh", "name", "creationTime", "modificationTime"}

func (r *documentReader) document(k *Kind, raw []byte) (d Decoded, err error) {
	tree, err := parseTree(raw)
	if err != nil {
		return d, err
	}
	members, ok := tree.value.([]member)
	if !ok {
		return d, mismatch("", "object", tree)
	}
	var head struct {
		Type, Mesh, Name               string
		CreationTime, ModificationTime *documentTime
	}
	into := map[string]any{
		"type": &head.Type, "mesh": &head.Mesh, "name": &head.Name,
		"creationTime": &head.CreationTime, "modificationTime": &head.ModificationTime,
	}
	for _, m := range members {
		field := into[m.key]
		if field == nil || m.node.value == nil {
			continue
		}
		if err := r.value(reflect.ValueOf(field).Elem(), m.node, m.key, nil); err != nil {
			return d, err
		}
	}
	d.Spec = k.New()
	if err := r.object(reflect.ValueOf(d.Spec).Elem(), tree, "", heads); err != nil {
		return d, err
	}
	d.Meta = DocumentMeta{Type: head.Type, Mesh: head.Mesh, Name: head.Name, Labels: LabelsOf(d.Spec)}
	return d, nil
}

// stray notes an unknown member. The suggested name comes from fields and others.
func (r *documentReader) stray(at, key string, fields *documentFields, others []string) {
	if len(r.unknown) < maxUnknown {
		r.note(join(at, shown(key)), TextUnknown+fault.Meant(key, append(fields.names(), others...)))
	}
}

func (r *documentReader) note(path, message string) {
	if len(r.unknown) < maxUnknown {
		r.unknown = append(r.unknown, fault.Violation{Path: path, Message: message})
	}
}

// maxShown bounds a key in a path, in bytes.
const maxShown = 100

// shown returns a key in the form for paths. Every member below a key has a path with it, so
// an unlimited key would make a document cost its length times the number of its members.
func shown(key string) string {
	if len(key) <= maxShown {
		return key
	}
	return strings.ToValidUTF8(key[:maxShown], "") + "…"
}

// names holds the members of one object that have been read.
type names map[string]struct{}

// again adds a name and reports whether it was there already.
func (n names) again(name string) bool {
	before := len(n)
	n[name] = struct{}{}
	return len(n) == before
}

// documentTime is a time whose form is checked and which is then ignored.
type documentTime string

// place puts the path before a message.
func place(at, message string) error {
	if at == "" {
		return fmt.Errorf("%s", message)
	}
	return fmt.Errorf("%s: %s", at, message)
}

func mismatch(at, want string, n node) error {
	return place(at, "expected "+want+", got "+n.kind())
}

// value sets v, which is addressable, from a node that is not null. at is the path for
// messages.
func (r *documentReader) value(v reflect.Value, n node, at string, enum []string) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return r.value(v.Elem(), n, at, enum)
	}
	if u, ok := v.Addr().Interface().(json.Unmarshaler); ok {
		if err := u.UnmarshalJSON(n.raw); err != nil {
			return place(at, err.Error())
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		return r.object(v, n, at, nil)
	case reflect.Map:
		return r.mapping(v, n, at, enum)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return decodeBytes(v, n, at)
		}
		return r.list(v, n, at, enum)
	case reflect.Interface:
		return decodeFree(v, n, at)
	}
	return decodeScalar(v, n, at, enum)
}

// object reads the members of a struct. others are further names that are known there.
func (r *documentReader) object(v reflect.Value, n node, at string, others []string) error {
	members, ok := n.value.([]member)
	if !ok {
		return mismatch(at, "object", n)
	}
	fields, seen := documentFieldsOf(v.Type()), names{}
	for _, m := range members {
		f, name := fields.byName[m.key], m.key
		if f != nil {
			name = f.name
		}
		switch {
		case f == nil && !slices.Contains(others, m.key):
			r.stray(at, m.key, fields, others)
		case seen.again(name):
			r.note(join(at, m.key), textTwice)
		}
		if f == nil || m.node.value == nil {
			continue
		}
		field := v.FieldByIndex(f.index)
		field.SetZero()
		if err := r.value(field, m.node, join(at, m.key), f.enum); err != nil {
			return err
		}
		switch {
		case field.Kind() == reflect.Slice && field.Len() == 0,
			field.Kind() == reflect.String && f.enum != nil && field.String() == f.enum[0]:
			field.SetZero()
		}
	}
	return nil
}

func (r *documentReader) mapping(v reflect.Value, n node, at string, enum []string) error {
	members, ok := n.value.([]member)
	if !ok {
		return mismatch(at, "object", n)
	}
	t := v.Type()
	if t.Key().Kind() != reflect.String {
		return place(at, "maps of this type cannot be read")
	}
	// An empty map of free values is kept, because it has a meaning of its own.
	if free := t.Elem().Kind() == reflect.Interface; free || len(members) > 0 {
		v.Set(reflect.MakeMapWithSize(t, len(members)))
	}
	seen := names{}
	for _, m := range members {
		e := reflect.New(t.Elem()).Elem()
		path := at + `["` + shown(m.key) + `"]`
		if seen.again(m.key) {
			r.note(path, textTwice)
		}
		switch {
		case m.node.value != nil:
			if err := r.value(e, m.node, path, enum); err != nil {
				return err
			}
		case e.Kind() != reflect.Interface:
			return place(path, "null is no value of a map")
		}
		v.SetMapIndex(reflect.ValueOf(m.key).Convert(t.Key()), e)
	}
	return nil
}

func (r *documentReader) list(v reflect.Value, n node, at string, enum []string) error {
	elements, ok := n.value.([]node)
	if !ok {
		return mismatch(at, "array", n)
	}
	if len(elements) == 0 {
		return nil
	}
	v.Set(reflect.MakeSlice(v.Type(), len(elements), len(elements)))
	for i, e := range elements {
		path := at + "[" + strconv.Itoa(i) + "]"
		if e.value == nil {
			return place(path, "null is no element of a list")
		}
		if err := r.value(v.Index(i), e, path, enum); err != nil {
			return err
		}
	}
	return nil
}

func decodeBytes(v reflect.Value, n node, at string) error {
	s, ok := n.value.(string)
	if !ok {
		return mismatch(at, "base64 string", n)
	}
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return err
	}
	v.SetBytes(b)
	return nil
}

// decodeFree keeps a value without a declared type.
func decodeFree(v reflect.Value, n node, at string) error {
	var x any
	if err := json.Unmarshal(n.raw, &x); err != nil {
		return place(at, err.Error())
	}
	v.Set(reflect.ValueOf(x))
	return nil
}

func decodeScalar(v reflect.Value, n node, at string, enum []string) error {
	switch v.Kind() {
	case reflect.String:
		return decodeText(v, n, at, enum)
	case reflect.Bool:
		b, ok := n.value.(bool)
		if !ok {
			return mismatch(at, "boolean", n)
		}
		v.SetBool(b)
		return nil
	}
	text, ok := n.value.(string)
	if number, isNumber := n.value.(json.Number); isNumber {
		text, ok = string(number), true
	}
	if !ok || !json.Valid([]byte(text)) {
		return mismatch(at, "number", n)
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(text, v.Type().Bits())
		if err != nil {
			return place(at, "number "+text+" is out of range")
		}
		v.SetFloat(x)
		return nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(whole(text), 10, v.Type().Bits())
		if err != nil {
			return place(at, "expected integer of "+strconv.Itoa(v.Type().Bits())+" bits, got "+text)
		}
		v.SetInt(i)
		return nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		u, err := strconv.ParseUint(whole(text), 10, v.Type().Bits())
		if err != nil {
			return place(at, "expected non-negative integer of "+strconv.Itoa(v.Type().Bits())+" bits, got "+text)
		}
		v.SetUint(u)
		return nil
	}
	return place(at, "values of this type cannot be read")
}

// whole converts other notations of an integer, such as 1e3, into digits.
func whole(text string) string {
	if _, err := strconv.ParseInt(text, 10, 64); err == nil {
		return text
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > exact {
		return text
	}
	return strconv.FormatInt(int64(x), 10)
}

func decodeText(v reflect.Value, n node, at string, enum []string) error {
	s, ok := n.value.(string)
	if number, isNumber := n.value.(json.Number); isNumber && enum != nil {
		i, err := strconv.Atoi(string(number))
		if err != nil || i < 0 || i >= len(enum) {
			return place(at, "unknown value "+string(number)+" of an enumeration")
		}
		s, ok = enum[i], true
	}
	switch {
	case !ok:
		return mismatch(at, "string", n)
	case enum != nil && !slices.Contains(enum, s):
		return place(at, "unknown value "+strconv.Quote(s)+" of an enumeration")
	case v.Type() == reflect.TypeFor[documentTime]():
		if _, err := time.Parse(time.RFC3339, s); err != nil {
			return err
		}
	}
	v.SetString(s)
	return nil
}

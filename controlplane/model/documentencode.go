package model

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// EncodeDocument encodes a resource in the compact form of the mesh API: type, mesh (for
// mesh-scoped kinds), name, times, labels, and beside them the spec. Fields are in the order
// of their declaration, and the keys of maps are sorted. Integers of 64 bits are strings. The
// default of an enumeration is left out like other zero values.
func EncodeDocument(r *Resource) ([]byte, error) { return encodeDocument(r, nil) }

func encodeDocument(r *Resource, c *concealing) ([]byte, error) {
	e := &documentEncoder{}
	e.buf.WriteByte('{')
	e.member("type", reflect.ValueOf(r.Kind.Document.Type))
	if r.Kind.Scoping == Mesh {
		e.member("mesh", reflect.ValueOf(r.Scope))
	}
	e.member("name", reflect.ValueOf(r.Name))
	e.member("creationTime", reflect.ValueOf(r.Created.UTC().Format(time.RFC3339Nano)))
	e.member("modificationTime", reflect.ValueOf(r.Modified.UTC().Format(time.RFC3339Nano)))
	if labels := LabelsOf(r.Spec); len(labels) > 0 {
		e.member("labels", reflect.ValueOf(labels))
	}
	e.concealing = c
	e.fields(reflect.ValueOf(r.Spec).Elem())
	e.buf.WriteByte('}')
	return e.buf.Bytes(), e.err
}

// EncodeSpec encodes a spec alone, without labels, in the form for a document that contains
// it.
func EncodeSpec(spec any) ([]byte, error) { return encodeSpec(spec, nil) }

func encodeSpec(spec any, c *concealing) ([]byte, error) {
	e := &documentEncoder{concealing: c}
	e.buf.WriteByte('{')
	e.fields(reflect.ValueOf(spec).Elem())
	e.buf.WriteByte('}')
	return e.buf.Bytes(), e.err
}

// documentEncoder writes JSON. After the first error the output must not be used.
type documentEncoder struct {
	buf bytes.Buffer
	err error
	// concealing replaces secrets; nil shows them.
	concealing *concealing
}

// member writes a key and its value into the open object.
func (e *documentEncoder) member(key string, v reflect.Value) {
	e.separate()
	e.plain(key)
	e.buf.WriteByte(':')
	e.concealing.enter(key)
	e.value(v)
	e.concealing.leave()
}

// separate writes a comma unless an object or list was just opened.
func (e *documentEncoder) separate() {
	if b := e.buf.Bytes(); b[len(b)-1] != '{' && b[len(b)-1] != '[' {
		e.buf.WriteByte(',')
	}
}

func (e *documentEncoder) fields(v reflect.Value) {
	for _, f := range documentFieldsOf(v.Type()).ordered {
		field := v.FieldByIndex(f.index)
		switch {
		case f.labels:
		case f.omitEmpty && (empty(field) || f.enum != nil && field.Kind() == reflect.String && field.String() == f.enum[0]):
		case f.omitZero && field.IsZero():
		default:
			e.member(f.name, field)
		}
	}
}

// empty reports whether encoding/json omits a value because of omitempty.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice, reflect.String, reflect.Array:
		return v.Len() == 0
	case reflect.Struct:
		return false
	}
	return v.IsZero()
}

func (e *documentEncoder) value(v reflect.Value) {
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	self := v.Interface()
	if v.CanAddr() {
		self = v.Addr().Interface()
	}
	_, own := self.(json.Marshaler)
	switch {
	case e.concealing.secret() && (own || !contains(v)):
		e.conceal(self)
		return
	case own:
		e.plain(self)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		e.buf.WriteByte('{')
		e.fields(v)
		e.buf.WriteByte('}')
	case reflect.Map:
		e.buf.WriteByte('{')
		keys := map[string]reflect.Value{}
		for k, x := range v.Seq2() {
			keys[k.String()] = x
		}
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			e.member(k, keys[k])
		}
		e.buf.WriteByte('}')
	case reflect.Slice:
		e.list(v)
	case reflect.Int64:
		e.plain(strconv.FormatInt(v.Int(), 10))
	case reflect.Uint64:
		e.plain(strconv.FormatUint(v.Uint(), 10))
	default:
		e.plain(v.Interface())
	}
}

func (e *documentEncoder) list(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		e.plain(v.Interface())
		return
	}
	e.buf.WriteByte('[')
	for i, x := range v.Seq2() {
		e.separate()
		e.concealing.enter(strconv.FormatInt(i.Int(), 10))
		e.value(x)
		e.concealing.leave()
	}
	e.buf.WriteByte(']')
}

// plain writes a value as encoding/json does, without escaping HTML characters. Most values are short
// texts, for which nothing is made.
func (e *documentEncoder) plain(x any) {
	if text, ok := x.(string); ok && simple(text) {
		e.text(text)
		return
	}
	enc := json.NewEncoder(&e.buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(x); err != nil {
		if e.err == nil {
			e.err = err
		}
		return
	}
	e.buf.Truncate(e.buf.Len() - 1) // remove the newline
}

// text writes a text in which nothing is escaped.
func (e *documentEncoder) text(text string) {
	e.buf.WriteByte('"')
	e.buf.WriteString(text)
	e.buf.WriteByte('"')
}

// simple reports whether a text is in JSON as it is.
func simple(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// contains reports whether a value has members of its own.
func contains(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		return true
	case reflect.Slice:
		return v.Type().Elem().Kind() != reflect.Uint8
	}
	return false
}

// conceal writes [Concealed] in place of a value.
func (e *documentEncoder) conceal(x any) {
	begin := e.buf.Len()
	e.plain(x)
	e.concealing.note(e.buf.Bytes()[begin:])
	e.buf.Truncate(begin)
	e.plain(Concealed)
}

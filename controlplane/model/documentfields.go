package model

import (
	"reflect"
	"strings"
	"sync"
	"unicode"

	"github.com/invopop/jsonschema"
)

// documentField is one field of a struct with its spelling in documents.
type documentField struct {
	name  string
	index []int
	// enum lists the permitted strings, the default first; nil permits all.
	enum []string
	// omitEmpty and omitZero have the same meaning as in encoding/json.
	omitEmpty, omitZero bool
	// labels is set for the labels of a document, which come before its spec.
	labels bool
}

// documentFields describes a struct type: its fields in the order of declaration. Those of
// embedded structs are at the place of the embedding.
type documentFields struct {
	ordered []documentField
	// byName finds a field by each accepted spelling.
	byName map[string]*documentField
}

var documentTypes sync.Map // reflect.Type -> *documentFields

func documentFieldsOf(t reflect.Type) *documentFields {
	if known, ok := documentTypes.Load(t); ok {
		return known.(*documentFields)
	}
	fs := &documentFields{byName: map[string]*documentField{}}
	// References end the recursion if a type contains itself.
	described := (&jsonschema.Reflector{Anonymous: true, ExpandedStruct: true}).ReflectFromType(t)
	for _, f := range reflect.VisibleFields(t) {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || tag == "-" || f.Anonymous && tag == "" {
			continue
		}
		d := documentField{name: tag, index: f.Index}
		if d.name == "" {
			d.name = f.Name
		}
		if s, ok := described.Properties.Get(d.name); ok {
			d.enum = enumOf(s)
		}
		for option := range strings.SplitSeq(options, ",") {
			d.omitEmpty = d.omitEmpty || option == "omitempty"
			d.omitZero = d.omitZero || option == "omitzero"
		}
		owner := t
		if len(f.Index) > 1 {
			owner = t.FieldByIndex(f.Index[:len(f.Index)-1]).Type
		}
		d.labels = owner == reflect.TypeFor[Labelled]()
		fs.ordered = append(fs.ordered, d)
	}
	for i := range fs.ordered {
		f := &fs.ordered[i]
		fs.byName[snake(f.name)] = f
	}
	// The exact name of a field wins over the second spelling of another one.
	for i := range fs.ordered {
		fs.byName[fs.ordered[i].name] = &fs.ordered[i]
	}
	known, _ := documentTypes.LoadOrStore(t, fs)
	return known.(*documentFields)
}

// enumOf lists the permitted strings of a field, or of each element of a list.
func enumOf(s *jsonschema.Schema) (out []string) {
	if s.Items != nil {
		s = s.Items
	}
	for _, v := range s.Enum {
		if text, ok := v.(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// names returns the spellings that documents show.
func (fs *documentFields) names() []string {
	out := make([]string, len(fs.ordered))
	for i := range fs.ordered {
		out[i] = fs.ordered[i].name
	}
	return out
}

// snake returns the second spelling of a name: useHttp1 becomes use_http1.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

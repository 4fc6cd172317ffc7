package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// The texts of violations.
const (
	TextRequired   = "required field missing"
	TextUnknown    = "unknown field"
	TextNull       = "value must be null"
	TextNotNull    = "must not be null"
	TextEmpty      = "length must be at least 1"
	TextUUID       = "expected a valid UUID"
	TextPrimaryKey = "missing primary key"
)

// Process completes and validates an entity. given is the input of the caller, old the stored
// entity, nil for OpCreate. It returns the write, whose New is the normalised entity, or a
// fault with all violations. An error of a generator is internal.
//
// Unknown fields are violations, each with the name that was probably meant.
func (s *Schema) Process(op Op, given, old map[string]any) (*Write, error) {
	return s.process(op, given, old, false)
}

// ProcessLoosely is Process, but it drops unknown fields. Unknown of the write lists them.
func (s *Schema) ProcessLoosely(op Op, given, old map[string]any) (*Write, error) {
	return s.process(op, given, old, true)
}

func (s *Schema) process(op Op, given, old map[string]any, loose bool) (*Write, error) {
	p := &processor{op: op}
	given = maps.Clone(given)
	if given == nil {
		given = map[string]any{}
	}
	if s.Shorthand != nil {
		p.violations = append(p.violations, s.Shorthand(given)...)
	}
	s.unflatten(given)
	w := p.entity(s, "", given, old)
	if p.err != nil {
		return nil, p.err
	}
	slices.SortFunc(p.unknown, func(a, b fault.Violation) int { return strings.Compare(a.Path, b.Path) })
	if loose {
		w.Unknown = p.unknown
	} else {
		p.violations = append(p.violations, p.unknown...)
	}
	if err := fault.Violated(p.violations); err != nil {
		return nil, err
	}
	return w, nil
}

// unflatten replaces second spellings of references by the first.
func (s *Schema) unflatten(given map[string]any) {
	for i := range s.Fields {
		f := &s.Fields[i]
		v, ok := given[f.Flat]
		if f.Flat == "" || !ok {
			continue
		}
		delete(given, f.Flat)
		if _, both := given[f.Name]; both {
			continue
		}
		if v != nil {
			v = map[string]any{"id": v}
		}
		given[f.Name] = v
	}
}

// processor collects the results of one Process.
type processor struct {
	op         Op
	violations []fault.Violation
	// unknown lists the unknown fields.
	unknown []fault.Violation
	err     error
}

func (p *processor) violate(path, message string) {
	p.violations = append(p.violations, fault.Violation{Path: path, Message: message})
}

// entity completes and checks an entity, or a record at a path.
func (p *processor) entity(s *Schema, path string, given, old map[string]any) *Write {
	w := &Write{Op: p.op, Given: given, Old: old, New: make(map[string]any, len(s.Fields))}
	for name := range given {
		if f := s.Field(name); f == nil || f.Hidden {
			p.stray(s, path, name)
		}
	}
	raw := make(map[string]any, len(s.Fields))
	for i := range s.Fields {
		raw[s.Fields[i].Name] = p.raw(&s.Fields[i], given, old)
	}
	bad := map[string]bool{}
	for i := range s.Fields {
		f := &s.Fields[i]
		before := len(p.violations)
		v := p.field(f, join(path, f.Name), raw, given, old)
		if bad[f.Name] = len(p.violations) > before; !bad[f.Name] {
			w.New[f.Name] = v
		}
	}
	p.checks(s, path, w, bad)
	return w
}

// stray notes an unknown field. It suggests a name only for the first ones, because a body
// may contain a hundred thousand of them.
func (p *processor) stray(s *Schema, path, name string) {
	message := TextUnknown
	if len(p.unknown) < maxUnknown {
		message += fault.Meant(name, s.names())
	}
	p.unknown = append(p.unknown, fault.Violation{Path: join(path, name), Message: message})
}

// names lists the fields that a caller may give.
func (s *Schema) names() (list []string) {
	for _, fields := range [][]Field{s.Fields, s.Shorthands} {
		for i := range fields {
			f := &fields[i]
			if !f.Hidden {
				list = append(list, f.Name)
			}
			if f.Flat != "" {
				list = append(list, f.Flat)
			}
		}
	}
	return list
}

// checks runs the checks whose fields have no violations.
func (p *processor) checks(s *Schema, path string, w *Write, bad map[string]bool) {
next:
	for _, c := range s.Checks {
		for _, name := range c.Fields {
			if bad[name] {
				continue next
			}
		}
		for _, v := range c.Run(w) {
			if v.Path == "" && path == "" {
				v.Path = EntityPath
			}
			p.violate(join(path, v.Path), v.Message)
		}
	}
}

// raw returns the value of a field before validation: the given, stored, default or generated
// one, in this order. A given null is a value, and nothing replaces it.
func (p *processor) raw(f *Field, given, old map[string]any) any {
	if v, ok := given[f.Name]; ok && !f.Hidden {
		return v
	}
	if p.op == OpPatch || f.Keep {
		if v, ok := old[f.Name]; ok {
			return v
		}
	}
	if f.Default != nil || f.Auto == nil || p.op == OpPatch {
		return f.Default
	}
	v, err := f.Auto()
	if err != nil {
		p.err = err
	}
	return v
}

// field normalises and validates one field.
func (p *processor) field(f *Field, path string, raw, given, old map[string]any) any {
	v := raw[f.Name]
	if f.Hidden || (f.Meta && v == nil) {
		return v
	}
	if f.Type == Record {
		return p.recordField(f, path, raw, given, old)
	}
	if v == nil {
		_, named := given[f.Name]
		switch {
		case f.Required:
			p.violate(path, TextRequired)
		case f.NotNull && named:
			p.violate(path, TextNotNull)
		}
		return nil
	}
	return p.value(f, path, v)
}

// recordField validates a record. A patch is merged into the stored record field by field.
func (p *processor) recordField(f *Field, path string, raw, given, old map[string]any) any {
	s := f.Record(raw)
	v := raw[f.Name]
	_, named := given[f.Name]
	switch {
	case v == nil && f.Required && named:
		p.violate(path, TextRequired)
		return nil
	case s == nil:
		return v
	case v == nil && !f.Required:
		return nil
	case v == nil:
		v = map[string]any{}
	}
	sub, ok := v.(map[string]any)
	if !ok {
		p.violate(path, "expected a record")
		return nil
	}
	was, _ := old[f.Name].(map[string]any)
	if p.op == OpPatch && !named {
		sub = map[string]any{}
	}
	return p.entity(s, path, sub, was).New
}

// join appends a segment to a path; either may be empty.
func join(path, segment string) string {
	if path == "" || segment == "" {
		return path + segment
	}
	var b strings.Builder
	b.Grow(len(path) + 1 + len(segment))
	b.WriteString(path)
	b.WriteByte('.')
	b.WriteString(segment)
	return b.String()
}

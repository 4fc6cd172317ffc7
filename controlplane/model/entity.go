package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// The names of the fields that every entity has.
const (
	FieldID      = "id"
	FieldCreated = "created_at"
	FieldUpdated = "updated_at"
)

// lastSecond is the end of the year 9999, the latest time that a resource may have.
const lastSecond = 253402300799

// Identity returns the fields of the resource itself: its id and its times, in the given
// unit.
func Identity(unit time.Duration, updated bool) []Field {
	span := &[2]int64{0, lastSecond * int64(time.Second/unit)}
	fields := []Field{
		{Name: FieldID, Type: String, Meta: true, Check: func(v any) string {
			if !IsUUID(v.(string)) {
				return TextUUID
			}
			return ""
		}},
		{Name: FieldCreated, Type: Integer, Meta: true, Between: span},
	}
	if updated {
		fields = append(fields, Field{Name: FieldUpdated, Type: Integer, Meta: true, Between: span})
	}
	return fields
}

// Fill returns the spec of a normalised entity whose references hold ids. The JSON names of
// the spec are the names of the fields.
func (k *Kind) Fill(entity map[string]any) (any, error) {
	m := make(map[string]any, len(entity))
	for i := range k.Schema.Fields {
		f := &k.Schema.Fields[i]
		v := entity[f.Name]
		if f.Meta || v == nil {
			continue
		}
		if f.Type == Foreign {
			v = v.(map[string]any)["id"]
		}
		m[f.Name] = v
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("%s: encode the entity: %w", k.Name, err)
	}
	spec := k.New()
	if err := json.Unmarshal(raw, spec); err != nil {
		return nil, fmt.Errorf("%s: fill the spec: %w", k.Name, err)
	}
	return spec, nil
}

// Entity returns a stored resource in the form that [Schema.Process] takes as the old state:
// with hidden fields and without presentation.
func (r *Resource) Entity() (map[string]any, error) {
	raw, err := json.Marshal(r.Spec)
	if err != nil {
		return nil, fmt.Errorf("%s: encode the spec: %w", r.Kind.Name, err)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, fmt.Errorf("%s: decode the spec: %w", r.Kind.Name, err)
	}
	for i := range r.Kind.Schema.Fields {
		f := &r.Kind.Schema.Fields[i]
		if id, ok := m[f.Name].(string); ok && f.Type == Foreign {
			m[f.Name] = map[string]any{"id": id}
		}
	}
	return m, nil
}

// Show returns a resource in the form of its API: every field of the schema except hidden
// ones, null if it is not set.
func (r *Resource) Show(now time.Time) (map[string]any, error) {
	entity, err := r.Entity()
	if err != nil {
		return nil, err
	}
	s := r.Kind.Schema
	out := make(map[string]any, len(s.Fields))
	for i := range s.Fields {
		f := &s.Fields[i]
		if f.Hidden {
			continue
		}
		out[f.Name] = f.show(entity, entity[f.Name])
		if f.Flat != "" {
			out[f.Flat] = nil
			if ref, ok := entity[f.Name].(map[string]any); ok {
				out[f.Flat] = ref["id"]
			}
		}
		switch f.Name {
		case FieldID:
			out[FieldID] = r.Name
		case FieldCreated:
			out[FieldCreated] = s.stamp(r.Created)
		case FieldUpdated:
			out[FieldUpdated] = s.stamp(r.Modified)
		}
	}
	if s.Present != nil {
		s.Present(r, out, now)
	}
	return out, nil
}

// show completes a stored record in the same way, and returns other values unchanged.
func (f *Field) show(entity map[string]any, v any) any {
	stored, ok := v.(map[string]any)
	if f.Type != Record || !ok {
		return v
	}
	s := f.Record(entity)
	if s == nil {
		return v
	}
	out := make(map[string]any, len(s.Fields))
	for i := range s.Fields {
		if e := &s.Fields[i]; !e.Hidden {
			out[e.Name] = e.show(stored, stored[e.Name])
		}
	}
	return out
}

// CreatedAt returns the creation time of an entity in the form of its API.
func (r *Resource) CreatedAt() int64 { return r.Kind.Schema.stamp(r.Created) }

// stamp returns a time in the unit of the schema. Created is the reverse.
func (s *Schema) stamp(t time.Time) int64 {
	if s.CreatedUnit == time.Millisecond {
		return t.UnixMilli()
	}
	return t.Unix()
}

// Created returns the creation time in a normalised entity, or zero if there is none.
func (s *Schema) Created(entity map[string]any) time.Time {
	n, ok := entity[FieldCreated].(int64)
	switch {
	case !ok:
		return time.Time{}
	case s.CreatedUnit == time.Millisecond:
		return time.UnixMilli(n)
	}
	return time.Unix(n, 0)
}

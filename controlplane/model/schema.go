package model

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// FieldType is the type of a field's value.
type FieldType int

// Field types. In a normalised entity a String is a string, an Integer an
// int64, a Number a float64, a Boolean a bool, an Array or Set a []any, a Map,
// Record or Foreign a map[string]any. Every field may also be nil: null.
const (
	String FieldType = iota
	Integer
	Number
	Boolean
	// Array keeps order and repetition.
	Array
	// Set is an Array whose repetitions are dropped.
	Set
	// Map has free keys and values of one type.
	Map
	// Record has declared fields.
	Record
	// Foreign is a reference, given as {"id": ..} or by a unique field of its
	// target, such as {"name": ..}.
	Foreign
)

// Limits that hold where a field states none.
const (
	// MaxText bounds a string in bytes.
	MaxText = 8 << 10
	// MaxElements bounds arrays, sets and maps.
	MaxElements = 1000
)

// Field describes one field of an entity: what completes and what checks it.
// Fields are never changed once declared.
type Field struct {
	Name string
	Type FieldType
	// Required refuses null, after Default and Auto have been applied.
	Required bool
	// Default is taken when a creation or replacement does not name the field; a
	// null that was named is none.
	// It is normalised and must not be changed.
	Default any
	// Auto generates a value when a creation or replacement does not name the
	// field and there is no Default.
	Auto func() (any, error)
	// OneOf lists the permitted strings; OneOfInt the permitted integers.
	OneOf    []string
	OneOfInt []int64
	// Between bounds an Integer or Number, inclusively.
	Between *[2]int64
	// MaxLen bounds a String in bytes; 0 means MaxText. Empty strings are
	// refused always.
	MaxLen int
	// MinElements is the least number of elements of an Array or Set.
	MinElements int
	// Elem describes the elements of an Array, Set or Map.
	Elem *Field
	// Schema describes a Record; Variant chooses it by the rest of the entity
	// and may return nil when nothing can be said about the record.
	Schema  *Schema
	Variant func(entity map[string]any) *Schema
	// To is the kind name that a Foreign refers to; Flat is a second spelling
	// of a Foreign, such as service_id, in which only the id is given.
	// By is the field that tells a target by name where a reference has more than
	// one member and no id; empty means name.
	To   string
	Flat string
	By   string
	// Inline, if set, makes the field the list of what refers to the entity; it is
	// then a list of texts and not part of the spec.
	Inline *Inline
	// Null says that no value is permitted (in this version).
	Null bool
	// Meta fields belong to the resource, not to its spec (id, created_at).
	Meta bool
	// Hidden fields are part of the spec but neither accepted nor shown.
	Hidden bool
	// Keep says that a replacement which does not name the field keeps the stored
	// value, where others return to their defaults: clients that were made for
	// other gateways do not know the field, and their replacements must not take
	// away what it restricts. Null clears it.
	Keep bool
	// Announce says that a value the caller chose may be known elsewhere as
	// absent, so that creating it is an event; see admit.
	Announce bool
	// Check returns what is wrong with a non-null value of the right type, or "".
	Check func(v any) string
}

// Inline lists resources that refer to an entity, by the key of their schema. A
// write that names the field makes, keeps and deletes them in its transaction.
type Inline struct {
	// To is their kind name, Ref the reference by which they refer.
	To, Ref string
}

// Op is what a write does to an entity.
type Op int

// Operations.
const (
	OpCreate Op = iota
	OpReplace
	OpPatch
)

// Write is an entity on its way into the store, as checks and Settle see it.
type Write struct {
	Op Op
	// Given is what the caller named; Old the stored entity, nil if there is none.
	Given, Old map[string]any
	// New is the complete entity. Fields with violations are missing in it.
	New map[string]any
	// Unknown names the given fields that mean nothing and were dropped.
	Unknown []fault.Violation
}

// Check is a rule about several fields. It is skipped while one of Fields has
// violations of its own. A violation without a path concerns the entity (or,
// inside a record, that record).
type Check struct {
	Fields []string
	Run    func(w *Write) []fault.Violation
}

// Getter reads resources; a store.Reader is one.
type Getter interface {
	Get(k *Kind, scope, name string) (*Resource, error)
}

// EntityPath is the path of violations that concern a whole entity.
const EntityPath = "@entity"

// Schema describes the entities of a kind as an API shows them. Defaults,
// validation, form typing and output all follow from it.
type Schema struct {
	Fields []Field
	// Key is the unique field that may stand for the id in a URL, or empty.
	// KeyIndex maps its value to the one under which the index of that name
	// finds it; nil means unchanged.
	Key      string
	KeyIndex func(string) string
	// KeyUnder is the reference within whose target the value of Key is unique,
	// or empty if it is unique as it is. The index then holds the target's id, a
	// blank and the value.
	KeyUnder string
	// CreatedUnit is the unit of times: a second or a millisecond.
	CreatedUnit time.Duration
	// Updated says that entities show when they were last written.
	Updated bool
	// Shorthand rewrites what the caller gave before anything else happens.
	// It owns the map. Shorthands describes the fields that it takes beside Fields.
	Shorthand  func(given map[string]any) []fault.Violation
	Shorthands []Field
	Checks     []Check
	// Settle turns a valid entity into what is stored, such as a secret into
	// its hash. It runs outside of transactions and may be slow.
	Settle func(w *Write, now time.Time) error
	// Cross checks a resource against others inside the transaction.
	Cross func(g Getter, r *Resource) ([]fault.Violation, error)
	// Present completes the output of a resource.
	Present func(r *Resource, out map[string]any, now time.Time)
}

// Field returns the named field, or nil.
func (s *Schema) Field(name string) *Field {
	for i := range s.Fields {
		if s.Fields[i].Name == name {
			return &s.Fields[i]
		}
	}
	return nil
}

// Record returns the schema of a Record within an entity, or nil.
func (f *Field) Record(entity map[string]any) *Schema {
	if f.Variant != nil {
		return f.Variant(entity)
	}
	return f.Schema
}

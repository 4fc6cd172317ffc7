package model

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// FieldType is the type of a field's value.
type FieldType int

// The types of fields. In a normalised entity a String is a string, an Integer an int64, a
// Number a float64, a Boolean a bool, an Array or Set a []any, a Map, Record or Foreign a
// map[string]any. Every field may also be nil, which means null.
const (
	String FieldType = iota
	Integer
	Number
	Boolean
	// Array keeps order and repetition.
	Array
	// Set is an Array without repetitions, which are dropped.
	Set
	// Map has free keys and values of one type.
	Map
	// Record has declared fields.
	Record
	// Foreign is a reference, given as {"id": ..} or by a unique field of its target, such as
	// {"name": ..}.
	Foreign
)

// The limits of fields that declare none.
const (
	// MaxText bounds a string in bytes.
	MaxText = 8 << 10
	// MaxElements bounds arrays, sets and maps.
	MaxElements = 1000
)

// Field describes one field of an entity: how it is completed and checked. Fields never
// change after their declaration.
type Field struct {
	Name string
	Type FieldType
	// Required refuses null, after Default and Auto have been applied.
	Required bool
	// Default is used if a creation or replacement does not name the field; a given null
	// counts as naming it. Default is normalised and must not be changed.
	Default any
	// Auto generates a value if a creation or replacement does not name the field and there
	// is no Default.
	Auto func() (any, error)
	// OneOf lists the permitted strings; OneOfInt the permitted integers.
	OneOf    []string
	OneOfInt []int64
	// Between bounds an Integer or Number, inclusively.
	Between *[2]int64
	// MaxLen bounds a String in bytes; 0 means MaxText. Empty strings are refused, unless Chars begins at 0.
	MaxLen int
	// Chars, if set, bounds a String in characters, inclusively, in place of MaxLen. Four bytes of
	// each are at most MaxText.
	Chars *[2]int
	// MinElements is the least number of elements of an Array or Set, MostElements the largest; 0
	// means MaxElements.
	MinElements, MostElements int
	// Elem describes the elements of an Array, Set or Map.
	Elem *Field
	// Schema describes a Record. Variant chooses the schema by the rest of the entity, and
	// returns nil if nothing is known about the record.
	Schema  *Schema
	Variant func(entity map[string]any) *Schema
	// To is the kind name that a Foreign refers to. Flat is a second spelling of a Foreign,
	// such as service_id, which holds only the id. By is the field that identifies the target
	// of a reference without an id and with several members; empty means name.
	To   string
	Flat string
	By   string
	// Inline, if set, makes the field the list of resources that refer to the entity. It is
	// then a list of texts, and not part of the spec.
	Inline *Inline
	// Null is set if no value is permitted in this version.
	Null bool
	// NotNull refuses a given null of a field that is not Required: it may be left out, and nothing would
	// become of the null. The client would take it for done.
	NotNull bool
	// Meta fields belong to the resource, not to its spec (id, created_at).
	Meta bool
	// Hidden fields are part of the spec but neither accepted nor shown.
	Hidden bool
	// Keep makes a replacement that does not name the field keep the stored value. Other
	// fields return to their defaults. Clients that were made for other gateways do not know
	// the field, and their replacements must not remove its restrictions. Null clears it.
	Keep bool
	// Announce makes the creation of a value that the caller chose an event, because the
	// value may be known elsewhere as absent; see package admit.
	Announce bool
	// Check returns what is wrong with a non-null value of the right type, or "".
	Check func(v any) string
}

// Inline lists resources that refer to an entity, by the key of their schema. A write that
// names the field creates, keeps and deletes them in its transaction.
type Inline struct {
	// To is the name of their kind, Ref the reference to the entity.
	To, Ref string
}

// Op is the kind of a write to an entity.
type Op int

// The kinds of writes.
const (
	OpCreate Op = iota
	OpReplace
	OpPatch
)

// Write is a write of an entity, in the form for checks and Settle.
type Write struct {
	Op Op
	// Given holds the input of the caller. Old is the stored entity, nil if there is none.
	Given, Old map[string]any
	// New is the complete entity, without the fields that have violations.
	New map[string]any
	// Unknown lists the unknown fields that were dropped.
	Unknown []fault.Violation
}

// Check is a rule about several fields. It is skipped if one of Fields has violations. A
// violation without a path concerns the whole entity or, inside a record, the record.
type Check struct {
	Fields []string
	Run    func(w *Write) []fault.Violation
}

// Getter reads resources; store.Reader implements it.
type Getter interface {
	Get(k *Kind, scope, name string) (*Resource, error)
}

// EntityPath is the path of violations that concern a whole entity.
const EntityPath = "@entity"

// Schema describes the entities of a kind in the form of their API. Defaults, validation,
// form typing and output all follow from it.
type Schema struct {
	Fields []Field
	// Key is the unique field that may replace the id in a URL, or empty. KeyIndex converts
	// its value into that of the index with this name; nil means unchanged.
	Key      string
	KeyIndex func(string) string
	// KeyUnder is the reference within whose target the value of Key is unique, or empty if
	// it is unique everywhere. The index then holds the target's id, a blank and the value.
	KeyUnder string
	// CreatedUnit is the unit of times: a second or a millisecond.
	CreatedUnit time.Duration
	// Updated is set if entities show the time of their last write.
	Updated bool
	// Shorthand rewrites the input of the caller before anything else happens. It may change
	// the map. Shorthands describes the fields that it accepts in addition to Fields.
	Shorthand  func(given map[string]any) []fault.Violation
	Shorthands []Field
	Checks     []Check
	// Settle converts a valid entity into its stored form, such as a secret into its hash. It
	// runs outside of transactions and may be slow.
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

// Record returns the schema of a Record inside an entity, or nil.
func (f *Field) Record(entity map[string]any) *Schema {
	if f.Variant != nil {
		return f.Variant(entity)
	}
	return f.Schema
}

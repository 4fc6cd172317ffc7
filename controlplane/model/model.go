// Package model describes what a resource is. A [Kind] is the only description
// of a kind in the whole program: storage keys, indexes, references, routes of
// the APIs and later OpenAPI, CLI nouns and console pages follow from it.
package model

import "time"

// Class says how a kind is stored and who hears of its changes.
type Class int

const (
	// Config is synchronously durable, has a revision and a place in the change
	// feed and in views.
	Config Class = iota
	// Credential is unique and transactional. Its feed events are chosen per
	// kind by [Kind.Announce]; it has no place in views.
	Credential
	// Status is lossy and batched, without revision and feed.
	Status
)

// Announce chooses the feed events of a credential kind.
type Announce int

const (
	// AnnounceRevocations announces updates and deletes: what revokes.
	AnnounceRevocations Announce = iota
	// AnnounceAll announces creations too.
	AnnounceAll
	// AnnounceNone announces nothing.
	AnnounceNone
)

// Scoping says what the scope of a kind's resources is.
type Scoping int

// Scopings.
const (
	Global Scoping = iota
	Mesh
	ControlPlane
)

// DefaultControlPlane is the control plane that exists from the start.
const DefaultControlPlane = "default"

// Kind describes one kind of resource. Kinds are package variables that are
// never changed; they are compared by pointer.
type Kind struct {
	// Name is the singular, such as "service"; it is part of storage keys and
	// must never change.
	Name string
	// Path is the collection in the API of the kind, such as "services".
	Path string
	// Scoping says what scopes its resources live in.
	Scoping Scoping
	// Class is its storage class.
	Class Class
	// Announce chooses feed events; for Config kinds all changes are announced.
	Announce Announce
	// Recorded has the changes of a credential kind kept for administrators of which
	// nothing is announced; those of others are anyway.
	Recorded bool
	// ReadOnly kinds are not written through APIs.
	ReadOnly bool
	// Fleeting resources come and go all day by themselves, as access tokens do. Their
	// changes are kept apart from all others.
	Fleeting bool
	// Durable rows of a credential kind survive a power failure once they are written, whatever class
	// the transaction was said to be.
	Durable bool
	// Busy rows are read and written by many transactions in a second, or looked for in vain: a store
	// keeps the last of them in memory for these, and which are not there. It does not for sealed kinds.
	Busy bool
	// Sealed kinds hold secrets; their specs are encrypted at rest as a whole.
	Sealed bool
	// Secrets are the members whose values are kept nowhere but in the resource, as
	// JSON pointers into what its API shows; * is any key, and all that is below a
	// member goes with it. None in a Sealed kind means all.
	Secrets []string
	// New returns a pointer to an empty spec.
	New func() any
	// Unique lists values that no two resources of a scope may share.
	Unique []Index
	// Refs lists references to other resources.
	Refs []Ref
	// Holds lists references to several resources each.
	Holds []Hold
	// Guards list who speaks of resources of this kind without referring to them.
	Guards []Guard
	// Lists are values to list by that need not be unique (tags among them).
	Lists []ListIndex
	// Expires, if set, returns when the row itself may be dropped; zero = never.
	// An expired resource is treated as absent by every read.
	Expires func(spec any) time.Time
	// Schema describes the entities as an API shows them; nil for kinds that
	// are not written through typed operations.
	Schema *Schema
	// Document describes the documents of a kind of the mesh API; nil for others.
	Document *Document
}

// Plain is implemented by specs of which so many are stored that encoding/json would be much of what that costs.
type Plain interface {
	// ReadPlain reads JSON into an empty spec if it has a form that it knows, with the result of encoding/json. Otherwise it returns false, and has changed nothing.
	ReadPlain(spec []byte) bool
}

// Plural is what texts and files call the resources of a kind.
func (k *Kind) Plural() string { return k.Name + "s" }

// Index is one unique key.
type Index struct {
	// Name is the field it guards, as the API spells it.
	Name string
	// Secret values are stored only as an HMAC.
	Secret bool
	// Value returns the value and whether the spec has one.
	Value func(spec any) (string, bool)
}

// ListIndex finds resources by a value that several may share.
type ListIndex struct {
	Name   string
	Values func(spec any) []string
}

// OnDelete says what a reference does when its target is deleted.
type OnDelete int

const (
	// Refuse forbids deleting the target.
	Refuse OnDelete = iota
	// Cascade deletes the referrer in the same transaction.
	Cascade
)

// Ref is a reference by name to a resource of another kind, in the same scope unless it
// says otherwise. Resources can be listed by each of their references.
type Ref struct {
	// Name is the field, such as "service".
	Name string
	// To is the target's kind name.
	To string
	// OnDelete applies when the target goes.
	OnDelete OnDelete
	// Target returns the name of the target and whether the spec has one.
	Target func(spec any) (string, bool)
	// In, if set, returns the scope of the target where that is another one than the
	// referrer's, else nothing. Such a reference cascades: nobody in another scope may
	// keep a resource from being deleted.
	In func(spec any) string
}

// Key returns the key of what a resource refers to, and whether it refers to anything.
func (r *Ref) Key(from *Resource) (Key, bool) {
	name, ok := r.Target(from.Spec)
	if !ok {
		return Key{}, false
	}
	to := Key{Kind: r.To, Scope: from.Scope, Name: name}
	if r.In != nil {
		if scope := r.In(from.Spec); scope != "" {
			to.Scope = scope
		}
	}
	return to, true
}

// Hold is a reference by name to any number of resources of another kind in the
// same scope. None of them can be deleted while it is held.
type Hold struct {
	// Name is the field, such as "ca_certificates".
	Name string
	// To is the targets' kind name.
	To string
	// Targets returns the names of the targets.
	Targets func(spec any) []string
}

// Guard protects resources that others in the same scope name by a text, which
// need not name anything. A resource cannot be deleted while it is named so, and
// cannot give up the text.
type Guard struct {
	// By is the kind of those that name others, Index its list index of the texts.
	By    *Kind
	Index string
	// Field is where the text stands, such as "config.anonymous".
	Field string
	// Texts are those by which a resource can be named.
	Texts func(r *Resource) []string
}

// Key addresses a resource.
type Key struct{ Kind, Scope, Name string }

// Resource is one stored resource. Once stored or read it is immutable, its
// spec included, and shared by all readers.
type Resource struct {
	Kind  *Kind
	Scope string
	// Name is unique within kind and scope. Gateway kinds are named by uuid.
	Name string
	// Version counts the writes of this resource, from 1; compare-and-swap uses it.
	Version uint64
	// Revision is the store revision of the commit that wrote it; for a commit
	// that announced nothing, the newest revision at that moment.
	Revision uint64
	// Created is when it was made, as its writer may say; a store that is told nothing
	// takes the time. Nothing may be decided by it between writers who distrust each
	// other; see CreatedRevision.
	Created  time.Time
	Modified time.Time
	// CreatedRevision is the store revision of the commit that made the row; for a commit
	// that announced nothing, the next one. The store alone gives it, and keeps it for as
	// long as there is the row. APIs neither take nor show it.
	CreatedRevision uint64
	// Taken has, by index, the revision in which the row took the unique value that it
	// has, where it had another one or none before. It is given as CreatedRevision is.
	Taken map[string]uint64
	// Order is greater than that of all rows that the store had when it made this one, of
	// whatever kind. So of two rows that are there, the one with the lesser order was made
	// first, whether that was announced or not. It is given as CreatedRevision is. A later
	// row may have it again once this one is gone.
	Order uint64
	// Spec is what Kind.New returns, filled.
	Spec any
}

// Since is the store revision from which on the resource has its value of a unique index,
// or its name if index is empty. It is meaningless where it has no value.
func (r *Resource) Since(index string) uint64 {
	if taken, ok := r.Taken[index]; ok {
		return taken
	}
	return r.CreatedRevision
}

// Key returns the resource's key.
func (r *Resource) Key() Key { return Key{r.Kind.Name, r.Scope, r.Name} }

package store

import (
	"encoding/json"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// ChangeRecord is what is kept of one change for people: who made it, when and from
// where, and which members differ. It is written in the transaction of the change, so
// that there is neither one without the other. It holds nothing secret: whoever writes
// it has taken that out.
type ChangeRecord struct {
	// Number counts the records of a store, from 1, without gaps. The store gives it.
	Number uint64
	// Revision is that of the commit, Previous the newest one before it: equal if the
	// commit took none. The store gives both, and Time.
	Revision, Previous uint64
	Time               time.Time
	// Actor has no groups.
	Actor  model.Actor
	Origin model.Origin
	Op     Op
	// Key has no name where Count changes are summed up.
	Key     model.Key
	Scoping model.Scoping
	// Fleeting says that the resource comes and goes all day and ends by itself, as
	// tokens do.
	Fleeting bool
	// Sealed says that the resource is encrypted at rest; so are then title and members.
	Sealed bool
	// Title is what people call the resource where its name is an id, or empty.
	Title string
	// Members differ between the old and the new resource; More counts those that are
	// left out.
	Members []Member
	More    int
	// Cause is the resource with which this one came or went, if it was not asked for
	// by itself.
	Cause *model.Key
	Count int
	// Unreadable says that title, members, cause and count could not be read back: the
	// record is damaged, or another version wrote it.
	Unreadable bool
}

// Member is one member that differs.
type Member struct {
	// Path is a JSON pointer (RFC 6901) into the resource as its API shows it.
	Path string `json:"path"`
	// Old and New are scalars or empty containers; absent where the member was or is.
	Old json.RawMessage `json:"old,omitempty" jsonschema_description:"A scalar or an empty container; absent where the member was or is"`
	New json.RawMessage `json:"new,omitempty" jsonschema_description:"A scalar or an empty container; absent where the member was or is"`
	// Secret members have no values here.
	Secret bool `json:"secret,omitempty"`
	// Cut says that a value is longer than what is kept of it.
	Cut bool `json:"cut,omitempty"`
}

// RecordQuery selects change records. Empty texts select all.
type RecordQuery struct {
	// Since, if set, leaves out commits that were made before the one that took this
	// revision, and that one. Commits that took no revision come after the one whose
	// revision they bear.
	Since *uint64
	// Oldest puts the oldest first, otherwise the newest is.
	Oldest bool
	// After is the number behind which the page starts in the order of the query; 0
	// starts at the beginning.
	After uint64
	// Limit bounds the result; 0 means all.
	Limit int
	// Kind leaves out all other kinds, Without one kind; empty for neither.
	Kind, Without string
	// Scope is that of the resources. Scoping, if set, says what it is the name of: a
	// mesh and a control plane may have the same.
	Scope   string
	Scoping *model.Scoping
	// Actor is the name of one, ActorKind what it is.
	Actor     string
	ActorKind model.ActorKind
	// Fleeting takes records of what comes and goes all day, too. They are left out
	// otherwise, unless Kind is set.
	Fleeting bool
}

// WithFleeting reports whether records of what comes and goes all day are selected.
func (q RecordQuery) WithFleeting() bool { return q.Fleeting || q.Kind != "" }

// Budget is what a record shares the room with in which records are kept. Who fills one
// budget pushes nothing out of another.
type Budget int

// Budgets.
const (
	// OfOperators are the records of people, of tokens, and of what the control plane
	// does by itself.
	OfOperators Budget = iota
	// OfProxies are those of what proxies do: they register, they drain, they are gone.
	// Whoever has the token of one can write as many of them as they like.
	OfProxies
	// OfTokens are those of what comes and goes all day: a busy day of revocations would
	// otherwise leave nothing of a month of administration.
	OfTokens
)

// NumBudgets is how many budgets there are.
const NumBudgets = int(OfTokens) + 1

// Budgets lists all budgets.
func Budgets() []Budget { return []Budget{OfOperators, OfProxies, OfTokens} }

// Budget is what the record belongs to.
func (r *ChangeRecord) Budget() Budget {
	if r.Actor.Kind == model.ActorNode || r.Origin == model.OriginProxy {
		return OfProxies
	}
	if r.Fleeting {
		return OfTokens
	}
	return OfOperators
}

// Budgets are those that a query can select something of.
func (q RecordQuery) Budgets() (list []Budget) {
	if q.ActorKind != model.ActorNode {
		list = append(list, OfOperators)
	}
	if q.ActorKind == "" || q.ActorKind == model.ActorNode || q.ActorKind == model.ActorSystem {
		list = append(list, OfProxies)
	}
	if q.ActorKind != model.ActorNode && q.WithFleeting() {
		list = append(list, OfTokens)
	}
	return list
}

// Retention says how long change records are kept: what is older than Age goes, and
// what is not among the newest of its [Budget]: Rows of operators and as many of tokens, a
// tenth of that of proxies. The newest record of each budget always stays. They go when others are
// written.
type Retention struct {
	Age  time.Duration
	Rows int
}

// DefaultRetention is what the zero values of [Retention] mean.
var DefaultRetention = Retention{Age: 30 * 24 * time.Hour, Rows: 100_000}

// proxyShare is by how much fewer records of proxies are kept.
const proxyShare = 10

// Of is how many records of a budget are kept, at least one.
func (r Retention) Of(b Budget) int {
	if b == OfProxies {
		return max(1, r.Rows/proxyShare)
	}
	return max(1, r.Rows)
}

// Or fills zero values from another retention.
func (r Retention) Or(d Retention) Retention {
	if r.Age == 0 {
		r.Age = d.Age
	}
	if r.Rows == 0 {
		r.Rows = d.Rows
	}
	return r
}

package store

import (
	"encoding/json"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// ChangeRecord describes one change for people: who made it, when and from where, and which
// members differ. It is written in the transaction of the change, so that neither exists
// without the other. It holds no secrets: its author must remove them before.
type ChangeRecord struct {
	// Number counts the records of a store, from 1, without gaps. The store sets it.
	Number uint64
	// Revision is the revision of the commit, Previous the newest revision before it. They
	// are equal if the commit took none. The store sets both, and Time.
	Revision, Previous uint64
	Time               time.Time
	// Actor has no groups.
	Actor  model.Actor
	Origin model.Origin
	Op     Op
	// Key has no name if the record sums up Count changes.
	Key     model.Key
	Scoping model.Scoping
	// Fleeting is set for resources that come and go all day and end by themselves, as tokens
	// do.
	Fleeting bool
	// Sealed is set if the resource is encrypted at rest; title and members are encrypted
	// then, too.
	Sealed bool
	// Title is what people call the resource if its name is an id; it may be empty.
	Title string
	// Members are those that differ between the old and the new resource; More counts those
	// that are left out.
	Members []Member
	More    int
	// Cause is the resource with which this one was created or deleted, unless it was
	// requested by itself.
	Cause *model.Key
	Count int
	// Unreadable is set if title, members, cause and count could not be read: the record is
	// damaged, or another version wrote it.
	Unreadable bool
}

// Member is a member of a resource that differs.
type Member struct {
	// Path is a JSON pointer (RFC 6901) into the resource as its API shows it.
	Path string `json:"path"`
	// Old and New are scalars or empty containers; absent if the member was or is absent.
	Old json.RawMessage `json:"old,omitempty" jsonschema_description:"A scalar or an empty container; absent where the member was or is"`
	New json.RawMessage `json:"new,omitempty" jsonschema_description:"A scalar or an empty container; absent where the member was or is"`
	// Secret members have no values here.
	Secret bool `json:"secret,omitempty"`
	// Cut is set if a value was shortened.
	Cut bool `json:"cut,omitempty"`
}

// RecordQuery selects change records. Empty texts select everything.
type RecordQuery struct {
	// Since, if set, leaves out the commit that took this revision and all earlier ones.
	// Commits that took no revision come after the commit whose revision they have.
	Since *uint64
	// Oldest sorts the oldest record first. By default the newest is first.
	Oldest bool
	// After is the number after which the page starts, in the order of the query; 0 starts at
	// the beginning.
	After uint64
	// Limit bounds the result; 0 means all.
	Limit int
	// Kind selects one kind, Without excludes one kind; both may be empty.
	Kind, Without string
	// Scope is the scope of the resources. Scoping, if set, says what the scope is, because a
	// mesh and a control plane may have the same name.
	Scope   string
	Scoping *model.Scoping
	// Actor is the name of an actor, ActorKind its kind.
	Actor     string
	ActorKind model.ActorKind
	// User, if set, also selects what the user of this name did, beside the Actor of the ActorKind.
	User string
	// Fleeting also selects records of fleeting resources. Without it they are left out,
	// unless Kind is set.
	Fleeting bool
}

// WithFleeting reports whether records of fleeting resources are selected.
func (q RecordQuery) WithFleeting() bool { return q.Fleeting || q.Kind != "" }

// Budget is a group of records that share the room for records. Records of one budget never
// push out those of another.
type Budget int

// The budgets.
const (
	// OfOperators are the records of people, of API tokens, and of what the control plane
	// does by itself.
	OfOperators Budget = iota
	// OfProxies are the records of what proxies do: they register, drain and leave. Everybody
	// who has the token of a proxy can write any number of them.
	OfProxies
	// OfTokens are the records of fleeting resources. Otherwise one busy day of revocations
	// would push out a month of administration.
	OfTokens
)

// NumBudgets is the number of budgets.
const NumBudgets = int(OfTokens) + 1

// Budgets lists all budgets.
func Budgets() []Budget { return []Budget{OfOperators, OfProxies, OfTokens} }

// Budget returns the budget of the record.
func (r *ChangeRecord) Budget() Budget {
	if r.Actor.Kind == model.ActorNode || r.Origin == model.OriginProxy {
		return OfProxies
	}
	if r.Fleeting {
		return OfTokens
	}
	return OfOperators
}

// Budgets returns the budgets from which a query can select records.
func (q RecordQuery) Budgets() (list []Budget) {
	if q.ActorKind != model.ActorNode || q.User != "" {
		list = append(list, OfOperators)
	}
	if q.ActorKind == "" || q.ActorKind == model.ActorNode || q.ActorKind == model.ActorSystem {
		list = append(list, OfProxies)
	}
	if (q.ActorKind != model.ActorNode || q.User != "") && q.WithFleeting() {
		list = append(list, OfTokens)
	}
	return list
}

// Retention says how long change records are kept. A record is dropped if it is older than
// Age, or not among the newest of its [Budget]: Rows for operators, Rows for tokens, and a
// tenth of Rows for proxies. The newest record of each budget always stays. Records are
// dropped when others are written.
type Retention struct {
	Age  time.Duration
	Rows int
}

// DefaultRetention replaces the zero values of [Retention].
var DefaultRetention = Retention{Age: 30 * 24 * time.Hour, Rows: 100_000}

// proxyShare is the divisor of Rows for records of proxies.
const proxyShare = 10

// Of returns how many records of a budget are kept, at least one.
func (r Retention) Of(b Budget) int {
	if b == OfProxies {
		return max(1, r.Rows/proxyShare)
	}
	return max(1, r.Rows)
}

// Or replaces zero values by those of another retention.
func (r Retention) Or(d Retention) Retention {
	if r.Age == 0 {
		r.Age = d.Age
	}
	if r.Rows == 0 {
		r.Rows = d.Rows
	}
	return r
}

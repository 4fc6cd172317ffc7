package changes

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Shown is a record as APIs show it.
type Shown struct {
	// Number distinguishes records, even those of one revision. It increases by one.
	Number   uint64       `json:"number"`
	Revision uint64       `json:"revision"`
	Time     string       `json:"time" jsonschema:"format=date-time"`
	Actor    Actor        `json:"actor"`
	Origin   model.Origin `json:"origin,omitempty"`
	Action   store.Op     `json:"action" jsonschema:"enum=created,enum=updated,enum=deleted"`
	Resource
	// Title is what people call the resource if its name is an id.
	Title string `json:"title,omitempty"`
	// Count is the number of unnamed resources that a record stands for.
	Count   int            `json:"count,omitempty" jsonschema:"minimum=0"`
	Cause   *Resource      `json:"cause,omitempty"`
	Members []store.Member `json:"members"`
	// More is the number of members that are left out.
	More int `json:"more,omitempty" jsonschema:"minimum=0"`
	// Unreadable says that title, count, cause and members are no longer known.
	Unreadable bool `json:"unreadable,omitempty"`
}

// Actor is who made a change.
type Actor struct {
	Kind model.ActorKind `json:"kind"`
	Name string          `json:"name"`
}

// Resource is what was changed, or the cause of a change.
type Resource struct {
	Kind string `json:"kind"`
	// Scoping says what Scope is the name of. It is left out of causes.
	Scoping string `json:"scoping,omitempty"`
	Scope   string `json:"scope,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Scopings are the texts for the scoping of kinds.
var Scopings = map[model.Scoping]string{model.Global: "global", model.Mesh: "mesh", model.ControlPlane: "control-plane"}

// Show returns a record in the form of APIs.
func Show(r *store.ChangeRecord) Shown {
	s := Shown{
		Number: r.Number, Revision: r.Revision, Time: r.Time.UTC().Format(time.RFC3339Nano),
		Actor: Actor{r.Actor.Kind, r.Actor.Name}, Origin: r.Origin, Action: r.Op,
		Resource: Resource{Kind: r.Key.Kind, Scoping: Scopings[r.Scoping], Scope: r.Key.Scope, Name: r.Key.Name},
		Title:    r.Title, Count: r.Count, Members: r.Members, More: r.More, Unreadable: r.Unreadable,
	}
	if s.Members == nil {
		s.Members = []store.Member{}
	}
	if r.Cause != nil {
		s.Cause = &Resource{Kind: r.Cause.Kind, Scope: r.Cause.Scope, Name: r.Cause.Name}
	}
	return s
}

// Page is a part of what a query selects.
type Page struct {
	Records []Shown
	// Next is the offset of the next page, or 0 on the last one.
	Next uint64
	// Oldest is the smallest revision since which no matching change has been lost.
	Oldest uint64
}

// maxMembers is the number of members in total after which a page ends early.
const maxMembers = 20_000

// Read returns a page of at most size records.
func Read(r store.Reader, q store.RecordQuery, size int) (p Page, err error) {
	q.Limit = size + 1
	list, err := r.Records(q)
	if err != nil {
		return p, err
	}
	p.Records = make([]Shown, 0, min(size, len(list)))
	members := 0
	for i := range list {
		if len(p.Records) == size || members > maxMembers {
			p.Next = list[i-1].Number
			break
		}
		p.Records = append(p.Records, Show(&list[i]))
		members += len(list[i].Members)
	}
	p.Oldest, err = r.RecordsSince(q)
	return p, err
}

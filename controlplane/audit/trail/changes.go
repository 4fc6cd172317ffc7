package trail

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Changed puts an event of each change that people and their programs make into the outbox, in the
// transaction of the change; see [delivery.PutAdministration]. What proxies write, and what the control
// plane does by itself, is no administration. It is an [admit.Reporter].
func (t *Trail) Changed(ctx context.Context, tx store.Tx, made []changes.Entry) error {
	if !administers(&made[0].Record) { // one write has one author
		return nil
	}
	return delivery.PutAdministration(tx, func() ([]audit.Event, error) {
		events := make([]audit.Event, 0, len(made))
		for i := range made {
			a, err := change(&made[i])
			if err != nil {
				return nil, err
			}
			e := t.event(httpkit.EntryOf(ctx), a)
			e.Time = t.Now()
			events = append(events, e)
		}
		return events, nil
	})
}

// administers reports whether a change was made from outside, and not by a proxy.
func administers(r *store.ChangeRecord) bool {
	return r.Origin == model.OriginFile || r.Actor.Kind == model.ActorUser || r.Actor.Kind == model.ActorToken
}

// change describes a change.
func change(c *changes.Entry) (*audit.Administration, error) {
	r := &c.Record
	a := &audit.Administration{
		Class: audit.Change, Actor: r.Actor.ID(), Action: string(r.Op),
		Kind: r.Key.Kind, Scoping: changes.Scopings[r.Scoping], Scope: r.Key.Scope, Name: r.Key.Name, Title: r.Title, Count: r.Count, More: r.More,
	}
	if r.Cause != nil {
		a.Cause = r.Cause.Kind + " " + r.Cause.Name
	}
	var cut, cutToo bool
	var err error
	if a.Before, cut, err = changes.Masked(c.Old); err != nil {
		return nil, err
	}
	if a.After, cutToo, err = changes.Masked(c.New); err != nil {
		return nil, err
	}
	a.Cut = cut || cutToo
	a.Members, a.More = members(r)
	return a, nil
}

// mostMembers bounds the list of the members that differ, in bytes.
const mostMembers = 2 << 10

// members lists the JSON pointers of what differs, as far as there is room, and counts the others.
func members(r *store.ChangeRecord) (list string, more int) {
	paths, size := []string{}, 0
	for _, m := range r.Members {
		if size += len(m.Path) + len(`"",`); size > mostMembers {
			break
		}
		paths = append(paths, m.Path)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(paths) // texts
	return string(bytes.TrimSpace(b.Bytes())), r.More + len(r.Members) - len(paths)
}

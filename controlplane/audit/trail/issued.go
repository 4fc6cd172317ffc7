package trail

import (
	"context"
	"encoding/json"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// actionIssued is what is done with a token that is stored nowhere.
const actionIssued = "issued"

// Issued puts an event of a token that is issued into the outbox, before anybody sees the token. Issuing
// stores nothing, so no change tells of it. about is what the token is of, of the given scoping, and request
// what it is good for. If the event cannot be stored, the token must not be handed out.
func (t *Trail) Issued(ctx context.Context, about model.Key, scoping model.Scoping, request any) error {
	kept := false
	err := t.Store.View(ctx, func(r store.Reader) (err error) {
		kept, err = delivery.Keeps(r)
		return err
	})
	if err != nil || !kept {
		return err
	}
	who, _ := model.ActorOf(ctx)
	says, err := json.Marshal(request)
	if err != nil {
		return err
	}
	a := &audit.Administration{
		Class: audit.Change, Actor: who.ID(), Action: actionIssued, Kind: about.Kind, Scoping: changes.Scopings[scoping], Scope: about.Scope, Name: about.Name,
	}
	if a.After = string(says); len(a.After) > changes.MaxDocument {
		return fault.New(fault.Invalid, "the request is too long for the audit log of the control plane")
	}
	e := t.event(httpkit.EntryOf(ctx), a)
	e.Time = t.Now()
	_, err = t.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		return delivery.PutAdministration(tx, func() ([]audit.Event, error) { return []audit.Event{e}, nil })
	})
	return err
}

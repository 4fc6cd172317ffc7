package trail

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/audit/delivery"
	"github.com/meshgate/meshgate/controlplane/changes"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// full is a writer whose store takes nothing.
type full struct{ delivery.Writer }

var errFull = errors.New("no space left")

func (full) Write(context.Context, model.Class, func(store.Tx) error) (store.Commit, error) {
	return store.Commit{}, errFull
}

// TestIssued: a token that is stored nowhere has an event while the log is on, and is refused if the event
// cannot be stored.
func TestIssued(t *testing.T) {
	w := newWorld(t)
	about, request := model.Key{Kind: "user_token", Name: "eve"}, map[string]any{"name": "eve", "groups": []string{"mesh-system:admin"}}
	issue := func() error { return w.trail.Issued(ann(t), about, model.Global, request) }
	if err := issue(); err != nil || len(w.events()) != 0 {
		t.Fatalf("with the log off: %v, %v", err, w.events())
	}
	w.write(ann(t), destination("siem", "secret"))
	w.turn(true)
	before := len(w.events())
	if err := issue(); err != nil {
		t.Fatal(err)
	}
	events := w.events()
	if len(events) != before+1 {
		t.Fatalf("%d events", len(events)-before)
	}
	last := &events[len(events)-1]
	if got, want := said(last), `CHANGE user:ann issued user_token eve  - +{"groups":["mesh-system:admin"],"name":"eve"}`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if last.Administration.Class != audit.Change || last.Administration.Scoping != "global" {
		t.Errorf("%+v", last.Administration)
	}
	request["groups"] = []string{strings.Repeat("x", changes.MaxDocument)}
	if err := issue(); !fault.Is(err, fault.Invalid) || len(w.events()) != len(events) {
		t.Errorf("a token of which the log cannot say everything is handed out: %v", err)
	}
	request["groups"] = nil
	w.trail.Writer = full{}
	if err := issue(); !errors.Is(err, errFull) {
		t.Errorf("a token whose event is lost is handed out: %v", err)
	}
}

package cloud

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestPlainEvents: logins are read in the short way, and nothing of any other event is lost by it.
func TestPlainEvents(t *testing.T) {
	login := audit.Event{ID: "i", Time: time.UnixMilli(1).UTC(), Method: audit.Basic, Outcome: audit.Success, Source: netip.MustParseAddr("192.0.2.1"), Portal: "p"}
	own := login
	own.Administration = &audit.Administration{Class: audit.Change}
	for name, c := range map[string]struct {
		event Event
		plain bool
	}{
		"a login":            {Event{Event: login}, true},
		"one for sinks only": {Event{Event: login, SinksOnly: true}, false},
		"a change":           {Event{Event: own}, false},
	} {
		text, err := json.Marshal(&c.event)
		if err != nil {
			t.Fatal(err)
		}
		got := Events.New()
		if plain := got.(model.Plain).ReadPlain(text); plain != c.plain {
			t.Errorf("%s is plain: %v", name, plain)
		}
		want := &Event{}
		if c.plain {
			want = &c.event
		}
		if !reflect.DeepEqual(got, any(want)) {
			t.Errorf("%s is read as %+v, want %+v", name, got, want)
		}
	}
}

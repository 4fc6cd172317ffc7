package enrol

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// told lists the change records, the oldest first.
func told(t *testing.T, s store.Store) (out []string) {
	t.Helper()
	if err := s.View(context.Background(), func(r store.Reader) error {
		list, err := r.Records(store.RecordQuery{Oldest: true})
		for _, c := range list {
			out = append(out, fmt.Sprint(c.Origin, " ", c.Actor.ID(), " ", c.Op, " ", c.Budget() == store.OfProxies))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestTheSameAgainIsNoWrite: the holder of a token who enrols in a loop causes neither
// records nor revisions as long as nothing changes.
func TestTheSameAgainIsNoWrite(t *testing.T) {
	s := newMeshServer(t)
	say := func(status int, more map[string]any) {
		t.Helper()
		doc := map[string]any{"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "instance": "a"}
		for k, v := range more {
			doc[k] = v
		}
		if rec := send(s, http.MethodPost, "", encode(t, doc)); rec.Code != status {
			t.Fatalf("%d %s", rec.Code, rec.Body)
		}
	}
	joins := map[string]any{"dataplaneResource": dataplaneYAML, "relay": Relay{Socket: "/s", AdminSocket: "/a"}}
	leaves := map[string]any{"leaving": true}
	before := s.Store.Revision()
	for _, c := range []struct {
		status int
		doc    map[string]any
	}{{http.StatusOK, joins}, {http.StatusNoContent, leaves}, {http.StatusOK, joins}} {
		for range 5 {
			say(c.status, c.doc)
		}
	}
	const by = "proxy node:default.web-1 "
	if diff := cmp.Diff([]string{by + "created true", by + "updated true", by + "updated true"}, told(t, s.Store)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if took := s.Store.Revision() - before; took != 3 {
		t.Errorf("%d revisions", took)
	}
}

// TestRemovalsShareTheRoomOfProxies: a client that registers and vanishes in a loop uses up
// only the limit of records for proxies.
func TestRemovalsShareTheRoomOfProxies(t *testing.T) {
	removals(t, func(w *removing) {
		w.put("web-1", mesh.OwnerAgent)
		time.Sleep(31 * time.Second) // virtual time
		synctest.Wait()
		w.expect("it never came")
		got := told(w.t, w.store)
		if last := got[len(got)-1]; last != "proxy system:test deleted true" {
			w.t.Error(got)
		}
	})
}

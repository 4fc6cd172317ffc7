package oauth

import (
	"context"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// heldBack is a body that arrives only after something else has happened.
type heldBack struct {
	meanwhile func()
	body      io.Reader
}

// Read implements io.Reader.
func (h *heldBack) Read(p []byte) (int, error) {
	if h.meanwhile != nil {
		h.meanwhile()
		h.meanwhile = nil
	}
	return h.body.Read(p)
}

// postLate sends a form whose body is held back.
func (w *world) postLate(endpoint, body string, meanwhile func()) (int, map[string]any) {
	w.t.Helper()
	r := handedOver("POST", "/x/oauth2/"+endpoint, form, &heldBack{meanwhile, strings.NewReader(body)})
	rec := httptest.NewRecorder()
	w.server.ServeHTTP(rec, r)
	var doc map[string]any
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		w.t.Fatalf("%d %q: %v", rec.Code, rec.Body, err)
	}
	return rec.Code, doc
}

// TestABodyThatIsHeldBackStretchesNoGrace: a thief begins a request while the refresh token
// is valid, and sends the body after the owner has spent the token. The time of the judgement
// counts.
func TestABodyThatIsHeldBackStretchesNoGrace(t *testing.T) {
	for name, tc := range map[string]struct {
		body  string
		first func(*world) string
		// after is the time from the use of the token to the arrival of the body.
		after time.Duration
	}{
		"public, no grace":             {refreshAsPublic, (*world).publicRefresh, 0},
		"confidential, past its grace": {refreshAsApp, func(w *world) string { _, r := w.newPair(); return r }, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			worlds(t, strict(), func(t *testing.T, w *world) {
				first := tc.first(w)
				var owner map[string]any
				status, doc := w.postLate("token", tc.body+first, func() {
					w.now = w.now.Add(time.Second)
					var status int
					if status, owner = w.post("token", tc.body+first); status != 200 {
						t.Fatalf("the owner: %d %v", status, owner)
					}
					w.now = w.now.Add(tc.after)
				})
				if status != 400 || doc["error"] != "invalid_grant" {
					t.Errorf("the thief gets %d %v", status, doc)
				}
				if w.lives(owner["access_token"].(string)) || w.count(gateway.Tokens) != 0 {
					t.Error("the family lives")
				}
			})
		})
	}
}

// TestAClockThatWasSetBackGivesNoGrace: a client without grace has none, whatever the clock
// says.
func TestAClockThatWasSetBackGivesNoGrace(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		first := w.publicRefresh()
		if status, doc := w.post("token", refreshAsPublic+first); status != 200 {
			t.Fatalf("%d %v", status, doc)
		}
		w.now = w.now.Add(-time.Minute)
		if status, doc := w.post("token", refreshAsPublic+first); status != 400 {
			t.Errorf("the replay: %d %v", status, doc)
		}
		if n := w.count(gateway.Tokens); n != 0 {
			t.Errorf("%d tokens are left", n)
		}
	})
}

// TestABodyThatIsHeldBackKeepsNoTokenActive: a token that has ended by the time of the answer
// is not active, whenever the request began.
func TestABodyThatIsHeldBackKeepsNoTokenActive(t *testing.T) {
	cfg := strict()
	cfg.Endpoints = true
	worlds(t, cfg, func(t *testing.T, w *world) {
		access, _ := w.newPair()
		body := asApp + "&token=" + access
		if _, doc := w.post("introspect", body); doc["active"] != true {
			t.Fatalf("a good token: %v", doc)
		}
		_, doc := w.postLate("introspect", body, func() { w.now = w.now.Add(61 * time.Second) })
		if doc["active"] != false {
			t.Errorf("a token that has ended: %v", doc)
		}
	})
}

// durabilities is a write path that notes the durability with which each kind is written.
type durabilities struct {
	store.Store
	settled
	of map[*model.Kind][]model.Class
}

// Write implements Writer.
func (d durabilities) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	commit, err := d.Update(ctx, class, fn)
	for _, c := range commit.Changes {
		kind := gateway.Tokens
		if c.New != nil {
			kind = c.New.Kind
		} else if c.Old != nil {
			kind = c.Old.Kind
		}
		if c.Op == store.Deleted || kind == gateway.SpentValues {
			d.of[kind] = append(d.of[kind], class)
		}
	}
	return commit, err
}

// TestSpendingIsAsDurableAsARevocation: a power failure must not restore a code or a refresh
// token that was exchanged.
func TestSpendingIsAsDurableAsARevocation(t *testing.T) {
	lax := strict()
	lax.Profile = gateway.ProfileOAuth20
	for name, cfg := range map[string]gateway.OAuth2Config{"strict": strict(), "default": lax} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, cfg)
			spent := durabilities{Store: w.db, of: map[*model.Kind][]model.Class{}}
			w.server.Writer = spent
			_, refresh := w.newPair()
			if status, _, _ := w.refresh(refresh); status != 200 {
				t.Fatalf("refresh: %d", status)
			}
			if len(spent.of[gateway.Codes]) != 1 || len(spent.of[gateway.Tokens]) != 1 {
				t.Fatalf("spent were %v", spent.of)
			}
			for kind, classes := range spent.of {
				for _, class := range classes {
					if class != model.Config {
						t.Errorf("a %s was spent with the durability of a new token", kind.Name)
					}
				}
			}
		})
	}
}

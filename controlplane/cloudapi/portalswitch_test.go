package cloudapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/portal"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestPasswordsAreSwitchedOff: where nobody logs in with a password any more, no session counts that began
// with one. It can be left, so that it does not count later either.
func TestPasswordsAreSwitchedOff(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.developer(at, "ada@example.com")
	stays, leaves := f.login(at, "ada@example.com", password), f.login(at, "ada@example.com", password)
	settings := func(body string) { f.must(200, "PATCH", at+"/authentication-settings", body) }
	expect := func(when string, a answer, want int) {
		t.Helper()
		if got := f.site("GET", at, "/me", "", a.with()).Code; got != want {
			t.Errorf("%s: %d, want %d", when, got, want)
		}
	}
	expect("logged in", stays, 200)
	settings(`{"basic_auth_enabled":false}`)
	expect("passwords are off", stays, 401)
	if got := f.site("POST", at, "/refresh", "", stays.with()).Code; got != 401 {
		t.Errorf("refreshed while passwords are off: %d", got)
	}
	if got := f.site("POST", at, "/logout", "", leaves.with()).Code; got != 204 {
		t.Errorf("left while passwords are off: %d", got)
	}
	settings(`{"basic_auth_enabled":true}`)
	expect("passwords are on again, and it was left", leaves, 401)
	expect("passwords are on again", stays, 401)
	if got := f.site("POST", at, "/refresh", "", stays.with()).Code; got != 401 {
		t.Errorf("refreshed when passwords are on again: %d", got)
	}
	again := f.login(at, "ada@example.com", password)
	expect("logged in anew", again, 200)
	f.must(200, "PATCH", at, `{"display_name":"Docs"}`)
	settings(`{"basic_auth_enabled":true}`)
	refreshed := f.site("POST", at, "/refresh", "", again.with())
	expect("passwords stayed on, and it was refreshed", refreshed, 200)
}

// TestReuseWhileSwitchedOff: a refresh token that was exchanged before ends its session also while no session
// counts. It is a sign of theft, and would be lost otherwise.
func TestReuseWhileSwitchedOff(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.developer(at, "ada@example.com")
	first := f.login(at, "ada@example.com", password)
	f.site("POST", at, "/refresh", "", first.with())
	f.must(200, "PATCH", at+"/authentication-settings", `{"basic_auth_enabled":false}`)
	if got := f.site("POST", at, "/refresh", "", first.with()).Code; got != 401 {
		t.Errorf("with the old token: %d", got)
	}
	if n := len(f.rows(cloud.Sessions, "")); n != 0 {
		t.Errorf("%d sessions are left", n)
	}
}

// busy is a store in which something else is written right before a transaction.
type busy struct {
	store.Store
	before func(store.Store)
}

func (b *busy) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if before := b.before; before != nil {
		b.before = nil
		before(b.Store)
	}
	return b.Store.Update(ctx, class, fn)
}

// TestPublicPortalHasNoDevelopers: a portal that has developers does not become public, even if the first one
// comes at the same moment, and however the request is written.
func TestPublicPortalHasNoDevelopers(t *testing.T) {
	db := &busy{}
	f := setupOn(t, func(now func() time.Time) store.Store {
		db.Store = memstore.Open(memstore.Options{Now: now})
		return db
	})
	const refused = "409 Conflict/The portal has developers, and a public one cannot have any"
	at := f.portal("docs")
	db.before = func(s store.Store) {
		_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := portal.Add(tx, &cloud.Developer{Portal: path.Base(at), Email: "ada@example.com", FullName: "Ada", Status: cloud.Approved}, epoch)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if got := told(f.do("PATCH", at, `{"is_public":true}`)); got != refused {
		t.Errorf("a developer comes at the same moment: %s", got)
	}
	if got := told(f.do("PATCH", at, `{"is_public":true,"display_name":"Docs"}`)); got != refused {
		t.Errorf("a developer is there: %s", got)
	}
	r := httptest.NewRequest(http.MethodPatch, at, strings.NewReader("is_public=true"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer admin")
	w := httptest.NewRecorder()
	if f.handler.ServeHTTP(w, r); w.Code != http.StatusConflict {
		t.Errorf("as a form: %d %s", w.Code, w.Body)
	}
	if got := told(f.do("PATCH", at, `{"is_public":false,"display_name":"Docs"}`)); got != "200 <nil>/<nil>" {
		t.Errorf("it stays what it is: %s", got)
	}
}

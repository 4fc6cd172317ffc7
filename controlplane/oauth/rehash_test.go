package oauth

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// setApp changes an application without the rules, as an import of old data does.
func (w *world) setApp(change func(*gateway.Application)) {
	w.t.Helper()
	if _, err := w.db.Update(context.Background(), model.Config, func(tx store.Tx) error {
		res, err := tx.Get(gateway.Applications, scopeName, "app")
		if err != nil {
			return err
		}
		app := *res.Spec.(*gateway.Application)
		change(&app)
		_, err = tx.Update(&model.Resource{Kind: res.Kind, Scope: scopeName, Name: "app", Spec: &app}, 0)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) app() *gateway.Application {
	w.t.Helper()
	var app *gateway.Application
	if err := w.db.View(context.Background(), func(r store.Reader) error {
		res, err := r.Get(gateway.Applications, scopeName, "app")
		if err == nil {
			app = res.Spec.(*gateway.Application)
		}
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return app
}

// old is the hash of "secret" with outdated parameters.
const old = "$pbkdf2-sha512$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$2IVLzDcUS76iY9+wBooZzkS5Z0mI6ikZPfMieFfR1eU"

func TestRehash(t *testing.T) {
	for name, tc := range map[string]struct {
		app           gateway.Application
		given         string
		first, second bool // whether they are hashes with current parameters afterwards
	}{
		"hashing is off":       {gateway.Application{ClientSecret: "secret", SecondarySecret: "two"}, "secret", false, false},
		"plain":                {gateway.Application{HashSecret: true, ClientSecret: "secret"}, "secret", true, false},
		"plain, both":          {gateway.Application{HashSecret: true, ClientSecret: "secret", SecondarySecret: "two"}, "secret", true, true},
		"old parameters":       {gateway.Application{HashSecret: true, ClientSecret: old, SecondarySecret: "two"}, "secret", true, true},
		"old, by the other":    {gateway.Application{HashSecret: true, ClientSecret: old, SecondarySecret: "two"}, "two", false, true},
		"plain, by the second": {gateway.Application{HashSecret: true, ClientSecret: "secret", SecondarySecret: "two"}, "two", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
			w.setApp(func(a *gateway.Application) {
				a.HashSecret, a.ClientSecret, a.SecondarySecret = tc.app.HashSecret, tc.app.ClientSecret, tc.app.SecondarySecret
			})
			for range 2 {
				if status, doc := w.post("token", "grant_type=client_credentials&client_id=app&client_secret="+tc.given); status != 200 {
					t.Fatalf("%d %v", status, doc)
				}
			}
			app := w.app()
			_, first := gateway.Hashed(app.ClientSecret)
			_, second := gateway.Hashed(app.SecondarySecret)
			if first != tc.first || second != tc.second {
				t.Errorf("hashed: %t, %t", first, second)
			}
			for _, secret := range []string{"secret", tc.app.SecondarySecret} {
				if secret == "" {
					continue
				}
				if status, doc := w.post("token", "grant_type=client_credentials&client_id=app&client_secret="+secret); status != 200 {
					t.Errorf("%q afterwards: %d %v", secret, status, doc)
				}
			}
		})
	}
}

func TestRehashOfTheWrongSecret(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	w.setApp(func(a *gateway.Application) { a.HashSecret = true })
	if status, _ := w.post("token", "grant_type=client_credentials&client_id=app&client_secret=wrong"); status != 400 {
		t.Fatalf("%d", status)
	}
	if w.app().ClientSecret != "secret" {
		t.Error("a secret that nobody proved to know was replaced")
	}
}

// TestRehashLosesRaces: if somebody else writes the application meanwhile, that write wins.
// The request is judged again by the new application. So the client still gets its token, and
// the secret of the new application is hashed.
func TestRehashLosesRaces(t *testing.T) {
	w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
	w.setApp(func(a *gateway.Application) { a.HashSecret = true })
	w.server.Writer = &racing{world: w}
	if status, doc := w.post("token", "grant_type=client_credentials&client_id=app&client_secret=secret"); status != 200 {
		t.Fatalf("%d %v", status, doc)
	}
	got := w.app()
	if _, hashed := gateway.Hashed(got.ClientSecret); got.Name != "renamed" || !hashed {
		t.Errorf("%+v", got)
	}
}

// racing is a write path before whose first write somebody else changes the application.
type racing struct {
	*world
	settled
	done bool
}

// Write implements Writer.
func (r *racing) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	if !r.done {
		r.done = true
		r.setApp(func(a *gateway.Application) { a.Name = "renamed" })
	}
	return r.db.Update(ctx, class, fn)
}

// answering is a write path whose first write ends with an error, whether it is stored or
// not.
type answering struct {
	*world
	settled
	err    error
	stores bool
}

// Write implements Writer.
func (a *answering) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (c store.Commit, err error) {
	err, a.err = a.err, nil
	if err != nil && !a.stores {
		return c, err
	}
	if c, e := a.db.Update(ctx, class, fn); e != nil || err == nil {
		return c, e
	}
	return c, err
}

// TestRehashThatIsNotStoredOrNotConfirmed: a hash that a full disk does not take is not
// logged, because a line for each request would fill the disk up. A hash that is stored but
// not confirmed everywhere counts as done.
func TestRehashThatIsNotStoredOrNotConfirmed(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		stores bool
		warned bool
	}{
		"the disk is full": {err: fault.New(fault.Unstored, "the disk is full")},
		"not confirmed":    {err: fault.New(fault.Unavailable, "a gateway does not answer"), stores: true},
		"another failure":  {err: errors.New("the database is corrupt"), warned: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, gateway.OAuth2Config{EnableClientCredentials: true})
			w.setApp(func(a *gateway.Application) { a.HashSecret = true })
			var log strings.Builder
			w.server.Log = slog.New(slog.NewTextHandler(&log, nil))
			w.server.Writer = &answering{world: w, err: tc.err, stores: tc.stores}
			if status, doc := w.post("token", "grant_type=client_credentials&client_id=app&client_secret=secret"); status != 200 {
				t.Fatalf("%d %v", status, doc)
			}
			if warned := strings.Contains(log.String(), "level=WARN"); warned != tc.warned {
				t.Errorf("the log: %s", log.String())
			}
			if _, hashed := gateway.Hashed(w.app().ClientSecret); hashed != tc.stores {
				t.Errorf("hashed: %t", hashed)
			}
		})
	}
}

package oauth

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// worlds runs a test on every store.
func worlds(t *testing.T, cfg gateway.OAuth2Config, test func(*testing.T, *world)) {
	for name, open := range map[string]func(*testing.T, func() time.Time) store.Store{
		"memory": func(_ *testing.T, now func() time.Time) store.Store { return memstore.Open(memstore.Options{Now: now}) },
		"sqlite": func(t *testing.T, now func() time.Time) store.Store {
			keys, err := seal.New(make([]byte, seal.RootSize))
			if err != nil {
				t.Fatal(err)
			}
			db, err := sqlstore.Open(t.Context(), sqlstore.Options{
				Path: filepath.Join(t.TempDir(), "once.db"), Kinds: gateway.Kinds(), Sealer: keys, Now: now, Log: slog.New(slog.DiscardHandler),
			})
			if err != nil {
				t.Fatal(err)
			}
			return db
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, now: time.UnixMilli(1_700_000_000_500)}
			w.db = open(t, w.clock)
			t.Cleanup(func() { _ = w.db.Close() })
			w.fill(cfg)
			test(t, w)
		})
	}
}

// flood sends one request a hundred times at once to three servers on the same store, as if
// they were three processes, and returns the answers.
func (w *world) flood(body string) []*httptest.ResponseRecorder {
	servers := []*Server{w.open(), w.open(), w.open()}
	answers := make([]*httptest.ResponseRecorder, 100)
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range answers {
		all.Go(func() {
			<-start
			answers[i] = askServer(servers[i%len(servers)], "POST", "/x/oauth2/token", form, body, nil)
		})
	}
	close(start)
	all.Wait()
	return answers
}

// oneSucceeds checks that exactly one of the answers is a token.
func oneSucceeds(t *testing.T, answers []*httptest.ResponseRecorder, refusal string) {
	t.Helper()
	won := 0
	for _, a := range answers {
		switch {
		case a.Code == 200:
			won++
		case a.Code != 400 || !strings.Contains(a.Body.String(), refusal):
			t.Errorf("%d %s", a.Code, a.Body)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d requests succeeded", won, len(answers))
	}
}

func TestOnce(t *testing.T) {
	cfg := strict()
	cfg.Profile = gateway.ProfileOAuth20
	worlds(t, cfg, func(t *testing.T, w *world) {
		exchange := "grant_type=authorization_code&" + asApp + "&code_verifier=" + verifier + "&code="
		oneSucceeds(t, w.flood(exchange+w.newCode()), "Invalid code")
		_, refresh := w.newPair()
		oneSucceeds(t, w.flood("grant_type=refresh_token&"+asApp+"&refresh_token="+refresh), "Invalid refresh_token")
	})
}

// TestReplaysRevokeEverything: in the strict profile without grace, a flood leaves no token
// of the family, whichever request came first.
func TestReplaysRevokeEverything(t *testing.T) {
	cfg := strict()
	cfg.RefreshTokenGrace = 0
	worlds(t, cfg, func(t *testing.T, w *world) {
		_, refresh := w.newPair()
		oneSucceeds(t, w.flood("grant_type=refresh_token&"+asApp+"&refresh_token="+refresh), "Invalid refresh_token")
		if n := w.count(gateway.Tokens); n != 0 {
			t.Errorf("%d tokens are left", n)
		}
	})
}

func (w *world) count(k *model.Kind) (n int) {
	w.t.Helper()
	if err := w.db.View(context.Background(), func(r store.Reader) (err error) {
		n, err = r.Count(k, store.Query{Scope: scopeName})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// failing is a write path that dies before the commit.
type failing struct {
	store.Store
	settled
}

var errDied = errors.New("the process died")

// Write implements Writer.
func (f failing) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return f.Update(ctx, class, func(tx store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errDied
	})
}

// TestDeathUsesNothingUp: a code or token stays usable if the answer to it could not be
// committed.
func TestDeathUsesNothingUp(t *testing.T) {
	worlds(t, strict(), func(t *testing.T, w *world) {
		code := w.newCode()
		_, refresh := w.newPair()
		dying := w.open()
		dying.Writer = failing{Store: w.db}
		for _, body := range []string{
			"grant_type=authorization_code&" + asApp + "&code_verifier=" + verifier + "&code=" + code,
			"grant_type=refresh_token&" + asApp + "&refresh_token=" + refresh,
		} {
			if a := askServer(dying, "POST", "/x/oauth2/token", form, body, nil); a.Code != 500 || strings.Contains(a.Body.String(), "died") {
				t.Errorf("%d %s", a.Code, a.Body)
			}
			if status, doc := w.post("token", body); status != 200 {
				t.Errorf("afterwards: %d %v", status, doc)
			}
		}
	})
}

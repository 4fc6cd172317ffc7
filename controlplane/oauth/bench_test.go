package oauth

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// BenchmarkIssue measures whole token requests, 64 at a time, with sqlite.
func BenchmarkIssue(b *testing.B) {
	w := durableWorld(b, gateway.OAuth2Config{EnableClientCredentials: true, TokenExpiration: 7200})
	inParallel(b, func() bool {
		rec := w.ask(http.MethodPost, "/oauth2/token", form, "grant_type=client_credentials&client_id=app&client_secret=secret", nil)
		if rec.Code != http.StatusOK {
			b.Errorf("%d %s", rec.Code, rec.Body)
		}
		return rec.Code == http.StatusOK
	})
}

// BenchmarkExchange measures pairs of requests, 64 at a time, with sqlite: a code is issued
// and exchanged. The use of the code is synchronised to the disk.
func BenchmarkExchange(b *testing.B) {
	w := durableWorld(b, strict())
	authorize := "provision_key=pk&authenticated_userid=u&client_id=app&response_type=code&code_challenge_method=S256&code_challenge=" + challenge
	exchange := "grant_type=authorization_code&" + asApp + "&code_verifier=" + verifier + "&code="
	inParallel(b, func() bool {
		var doc map[string]string
		rec := w.ask(http.MethodPost, "/oauth2/authorize", form, authorize, nil)
		if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil || rec.Code != http.StatusOK {
			b.Errorf("%d %s", rec.Code, rec.Body)
			return false
		}
		uri, err := url.Parse(doc["redirect_uri"])
		if err != nil {
			b.Error(err)
			return false
		}
		if rec = w.ask(http.MethodPost, "/oauth2/token", form, exchange+uri.Query().Get("code"), nil); rec.Code != http.StatusOK {
			b.Errorf("%d %s", rec.Code, rec.Body)
		}
		return rec.Code == http.StatusOK
	})
}

// inParallel calls f from 64 goroutines until it fails.
func inParallel(b *testing.B, f func() bool) {
	b.ReportAllocs()
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() && f() {
		}
	})
}

// durableWorld is a world with sqlite instead of memory.
func durableWorld(b *testing.B, cfg gateway.OAuth2Config) *world {
	b.Helper()
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		b.Fatal(err)
	}
	db, err := sqlstore.Open(b.Context(), sqlstore.Options{
		Path: filepath.Join(b.TempDir(), "bench.db"), Kinds: gateway.Kinds(), Sealer: keys,
		Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	from := newWorld(b, cfg)
	copyAll(b, from.db, db)
	from.db, from.now = db, time.Now()
	from.server = from.open()
	from.server.Now = time.Now
	return from
}

func copyAll(b *testing.B, from, to store.Store) {
	b.Helper()
	var all []*model.Resource
	if err := from.View(b.Context(), func(r store.Reader) error {
		for _, k := range []*model.Kind{gateway.Services, gateway.Consumers, gateway.Plugins, gateway.Applications} {
			rows, err := r.List(k, store.Query{Scope: scopeName})
			if err != nil {
				return err
			}
			all = append(all, rows...)
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	if _, err := to.Update(b.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range all {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
}

package oauth

import (
	"io"
	"log/slog"
	"net/http"
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
	defer db.Close()
	from := newWorld(b, gateway.OAuth2Config{EnableClientCredentials: true, TokenExpiration: 7200})
	copyAll(b, from.db, db)
	from.server.Store, from.server.Writer, from.server.Now, from.server.Minted = db, direct{Store: db}, time.Now, nil
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			rec := from.ask(http.MethodPost, "/oauth2/token", form, "grant_type=client_credentials&client_id=app&client_secret=secret", nil)
			if rec.Code != http.StatusOK {
				b.Errorf("%d %s", rec.Code, rec.Body)
				return
			}
		}
	})
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

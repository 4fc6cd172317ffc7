package gatewayapi_test

import (
	"bytes"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// BenchmarkPage measures pages of 100 of 10,000 applications and as many tokens
// in a store on disk.
func BenchmarkPage(b *testing.B) {
	key, err := seal.New(bytes.Repeat([]byte{1}, seal.RootSize))
	if err != nil {
		b.Fatal(err)
	}
	s, err := sqlstore.Open(b.Context(), sqlstore.Options{
		Path: filepath.Join(b.TempDir(), "meshgate.db"), Kinds: gateway.Kinds(), Sealer: key, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	populate(b, s, 10_000, 1)
	h := gatewayapi.New(gatewayapi.Options{
		Store: s, Gate: admit.New(s, newRevoker(), gateway.Kinds(), time.Now), Collections: gatewayapi.Collections(),
		Progress: progress{}, Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}).Handler()
	for _, c := range costs {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				w := httptest.NewRecorder()
				if h.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil)); w.Code != 200 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

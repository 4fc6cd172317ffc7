package meshapi

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// BenchmarkPage measures pages of 100 of 10,000 dataplanes in a store on disk.
func BenchmarkPage(b *testing.B) {
	key, err := seal.New(bytes.Repeat([]byte{1}, seal.RootSize))
	if err != nil {
		b.Fatal(err)
	}
	a := newAPI(b, func(o *Options) {
		s, err := sqlstore.Open(b.Context(), sqlstore.Options{
			Path: filepath.Join(b.TempDir(), "meshgate.db"), Kinds: o.Kinds, Sealer: key, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		o.Store = s
		fill(b, s, 5000)
	})
	for name, path := range map[string]string{
		"first": "/dataplanes?size=100", "deep": "/dataplanes?size=100&offset=7500", "name": "/dataplanes?size=100&name=0012", "tag": "/dataplanes?size=100&tag=" + mesh.TagService + ":s3",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if rec := request(a.handler, "GET", path, ""); rec.Code != 200 {
					b.Fatal(rec.Body)
				}
			}
		})
	}
}

package sqlstore_test

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// BenchmarkWrite measures commits per second with 16 concurrent writers for
// each core, which the writer groups.
func BenchmarkWrite(b *testing.B) {
	for name, c := range map[string]struct {
		class model.Class
		kind  *model.Kind
	}{
		"config":     {model.Config, storetest.Box},
		"credential": {model.Credential, storetest.Badge},
	} {
		b.Run(name, func(b *testing.B) {
			s := open(b, options(b, filepath.Join(b.TempDir(), "meshgate.db")))
			var n atomic.Int64
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := fmt.Sprint(n.Add(1))
					if _, err := s.Update(b.Context(), c.class, func(tx store.Tx) error {
						_, err := tx.Create(&model.Resource{Kind: c.kind, Scope: "s", Name: id, Spec: &storetest.Item{Label: id, Secret: id}})
						return err
					}); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// BenchmarkGet measures a view with one sealed resource.
func BenchmarkGet(b *testing.B) {
	s := open(b, options(b, filepath.Join(b.TempDir(), "meshgate.db")))
	if _, err := s.Update(b.Context(), model.Credential, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: storetest.Badge, Scope: "s", Name: "a", Spec: &storetest.Item{Secret: "x"}})
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.View(b.Context(), func(r store.Reader) error {
			_, err := r.Find(storetest.Badge, "s", "secret", "x")
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

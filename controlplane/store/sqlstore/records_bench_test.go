package sqlstore_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// BenchmarkRecords measures pages of 100 records, and their counts, with as many records as
// can be kept. It also compares a recorded write with one that is not.
func BenchmarkRecords(b *testing.B) {
	s := open(b, options(b, filepath.Join(b.TempDir(), "bench.db")))
	for n := range 100 {
		var list []store.ChangeRecord
		for i := range 1000 {
			r := recordOf(storetest.Box, fmt.Sprint("a value of some length ", i))
			if r.Key.Scope = fmt.Sprint("scope-", i%10); i%20 == 0 {
				r.Key.Kind, r.Actor.Name = "thing", fmt.Sprint("actor-", n)
			}
			list = append(list, r)
		}
		record(b, s, list...)
	}
	since := uint64(0)
	for _, c := range []struct {
		name string
		q    store.RecordQuery
	}{
		{"newest", store.RecordQuery{}},
		{"since", store.RecordQuery{Since: &since, Oldest: true}},
		{"kind", store.RecordQuery{Kind: "thing"}},
		{"kind in scope", store.RecordQuery{Kind: "box", Scope: "scope-3"}},
		{"scope", store.RecordQuery{Scope: "scope-0"}},
		{"old actor", store.RecordQuery{Actor: "actor-0"}},
		{"no such actor", store.RecordQuery{Actor: "nobody"}},
	} {
		c.q.Limit = 100
		b.Run(c.name+"/page", func(b *testing.B) {
			for range b.N {
				if err := s.View(b.Context(), func(r store.Reader) error {
					_, err := r.Records(c.q)
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+"/count", func(b *testing.B) {
			for range b.N {
				if err := s.View(b.Context(), func(r store.Reader) error {
					_, err := r.CountRecords(c.q)
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, recorded := range []bool{false, true} {
		b.Run(fmt.Sprint("write/recorded=", recorded), func(b *testing.B) {
			for i := range b.N {
				if _, err := s.Update(b.Context(), model.Credential, func(tx store.Tx) error {
					if recorded {
						tx.Record(recordOf(storetest.Quiet, "x"))
					}
					_, err := tx.Create(&model.Resource{Kind: storetest.Quiet, Scope: fmt.Sprint(recorded), Name: fmt.Sprint(b.N, "-", i), Spec: &storetest.Item{}})
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

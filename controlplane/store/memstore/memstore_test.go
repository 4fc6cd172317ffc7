package memstore_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) (store.Store, func() store.Store) {
		s := memstore.Open(memstore.Options{History: storetest.History})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s, nil
	})
}

func TestRetention(t *testing.T) {
	storetest.RunRetention(t, func(t *testing.T, keep store.Retention, now func() time.Time) (store.Store, func() store.Store) {
		s := memstore.Open(memstore.Options{Retention: keep, Now: now})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s, nil
	})
}

func TestPast(t *testing.T) {
	storetest.RunPast(t, func(t *testing.T, keep store.Retention, now, past func() time.Time) store.Store {
		s := memstore.Open(memstore.Options{Retention: keep, Now: now, Past: past})
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	})
}

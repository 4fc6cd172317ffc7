package view_test

import (
	"context"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
)

// TestUnreadableCrossings: what cannot be read of another mesh keeps no mesh from being read.
func TestUnreadableCrossings(t *testing.T) {
	db := &storetest.Unreadable{Store: memstore.New()}
	defer func() { _ = db.Close() }()
	for _, name := range []string{"m", "office", "third"} {
		storetest.Put(t, db, mesh.Crossings, "", name, &mesh.Crossing{Mesh: name})
	}
	load := func() (known []string, err error) {
		err = db.View(context.Background(), func(r store.Reader) error {
			m, err := view.LoadMesh("m", []*model.Kind{mesh.Crossings}, r)
			if err != nil {
				return err
			}
			for name := range m.Crossings() {
				known = append(known, name)
			}
			return nil
		})
		return known, err
	}
	db.Spoil(mesh.Crossings, "", "office", true)
	if known, err := load(); err != nil || len(known) != 2 {
		t.Errorf("known are %v: %v", known, err)
	}
	db.Spoil(mesh.Crossings, "", "m", true)
	if known, err := load(); err == nil {
		t.Errorf("the own row cannot be read, and known are %v", known)
	}
}

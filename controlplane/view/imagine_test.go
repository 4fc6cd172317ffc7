package view_test

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
)

var errUndone = errors.New("undone")

// TestImagine: a scope takes what a transaction has written without showing it. It does so only on
// the state on which the transaction is based, and if the transaction ends, nothing has happened.
func TestImagine(t *testing.T) {
	r := open(t, memstore.New())
	r.await(update(t, r.store, put(gateway.Consumers, alice, &gateway.Consumer{Username: "alice"})))
	imagine := func(fn func(store.Tx) error, base *view.Gateway) (i view.Imagined[*view.Gateway], ok bool) {
		t.Helper()
		_, err := r.store.Update(r.ctx, model.Config, func(tx store.Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			if base != nil {
				i, ok = r.scope.ImagineFrom(base, view.DraftOf(tx)), true
			} else {
				i, ok = r.scope.Imagine(view.DraftOf(tx))
			}
			return errUndone
		})
		if !errors.Is(err, errUndone) {
			t.Fatal(err)
		}
		return i, ok
	}
	service := put(gateway.Services, bob, &gateway.Service{Host: "a.example", Port: 80})
	before := r.scope.State()
	i, ok := imagine(service, nil)
	if _, there := i.After.Service(bob); !ok || !there || len(i.Keys) != 1 || i.All || i.Err != nil || i.Before != before || !i.Moved() {
		t.Errorf("%t %t %+v", ok, there, i)
	}
	if r.scope.State() != before {
		t.Error("the scope shows something else")
	}
	if i, ok := imagine(func(store.Tx) error { return nil }, nil); !ok || i.Moved() {
		t.Errorf("a transaction that writes nothing: %t %+v", ok, i)
	}
	// Where the scope is behind, the state is read in the transaction before it writes.
	var base *view.Gateway
	if _, err := r.store.Update(r.ctx, model.Config, func(tx store.Tx) (err error) {
		if base, err = r.scope.Read(tx); err == nil {
			err = errUndone
		}
		return err
	}); !errors.Is(err, errUndone) {
		t.Fatal(err)
	}
	if i, _ := imagine(service, base); base == before || base.Revision() != before.Revision() || i.Before != base || len(i.Keys) != 1 {
		t.Errorf("%d %+v", base.Revision(), i)
	}
	behind, _ := imagine(func(tx store.Tx) error {
		tx.Announce(model.Key{Kind: gateway.Consumers.Name, Scope: model.DefaultControlPlane, Name: alice}, store.Updated)
		return service(tx)
	}, nil)
	if _, there := behind.After.Service(bob); !there {
		t.Error("an announcement of something else is in the way")
	}
}

// readings counts the lists that a reader makes.
type readings struct {
	store.Reader
	n *int
}

func (r readings) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	*r.n++
	return r.Reader.List(k, q)
}

// TestImagineWhereARowCannotBeRead: everything is read only where the row is written that cannot be.
func TestImagineWhereARowCannotBeRead(t *testing.T) {
	db := &storetest.Unreadable{Store: memstore.New()}
	r := open(t, db)
	r.await(update(t, db, put(gateway.Services, alice, service())))
	db.Spoil(gateway.Services, model.DefaultControlPlane, alice, true)
	update(t, db, put(gateway.Services, alice, service()))
	for r.scope.Err() == nil {
		select {
		case <-r.wake:
		case <-r.ctx.Done():
			t.Fatal("the scope is well")
		}
	}
	for name, c := range map[string]struct {
		write func(store.Tx) error
		mends bool
	}{
		"another row":  {put(gateway.Services, bob, service()), false},
		"the row":      {put(gateway.Services, alice, service()), true},
		"the row goes": {remove(gateway.Services, alice), true},
	} {
		read := 0
		var i view.Imagined[*view.Gateway]
		_, err := db.Update(r.ctx, model.Config, func(tx store.Tx) error {
			if err := c.write(tx); err != nil {
				return err
			}
			d := view.DraftOf(tx)
			d.Reader = readings{tx, &read}
			i, _ = r.scope.Imagine(d)
			return errUndone
		})
		if !errors.Is(err, errUndone) || i.All != c.mends || (i.Err == nil) != c.mends || (read > 0) != c.mends {
			t.Errorf("%s: %v, %d lists were read, all %t, %v", name, err, read, i.All, i.Err)
		}
	}
}

// TestImagineTwoMeshes: what a transaction writes into another mesh is not taken for what this one
// has under the same name.
func TestImagineTwoMeshes(t *testing.T) {
	db := memstore.New()
	t.Cleanup(func() { _ = db.Close() })
	of := func(scope, address string) func(store.Tx) error {
		return func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: mesh.Dataplanes, Scope: scope, Name: "web", Spec: &mesh.Dataplane{Networking: &mesh.Networking{Address: address}}})
			return err
		}
	}
	update(t, db, of("one", "10.0.0.1"))
	if _, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error {
		before, err := view.LoadMesh("one", nil, tx)
		if err != nil {
			return err
		}
		if err := of("two", "10.0.0.2")(tx); err != nil {
			return err
		}
		views := view.New(db, nil, slog.New(slog.DiscardHandler))
		defer views.Close()
		scope, err := views.Mesh(t.Context(), "one")
		if err != nil {
			return err
		}
		defer scope.Release()
		i := scope.ImagineFrom(before, view.DraftOf(tx))
		if d, there := i.After.Dataplane("web"); i.Err != nil || i.Moved() || !there || d.Spec.Networking.Address != "10.0.0.1" {
			t.Errorf("%+v", i)
		}
		return errUndone
	}); !errors.Is(err, errUndone) {
		t.Fatal(err)
	}
}

package publish

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// quiet is a publisher to which nobody listens.
type quiet struct{}

func (quiet) Announce(...snapshot.Publication) {}
func (quiet) Drop(string)                      {}
func (quiet) End(string)                       {}

// sick is a store of which services cannot be listed for as long as it is.
type sick struct {
	store.Store
	is atomic.Bool
}

var errSick = errors.New("services cannot be listed")

// View implements [store.Store].
func (s *sick) View(ctx context.Context, fn func(store.Reader) error) error {
	return s.Store.View(ctx, func(r store.Reader) error { return fn(sickReader{r, s}) })
}

type sickReader struct {
	store.Reader
	of *sick
}

// List implements [store.Reader].
func (r sickReader) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	if k == gateway.Services && r.of.is.Load() {
		return nil, errSick
	}
	return r.Reader.List(k, q)
}

// startGroup follows a group of a and b, which cannot be read from the start.
func startGroup(t *testing.T) (context.Context, *sick, *Loop) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	db := &sick{Store: memstore.New()}
	db.is.Store(true)
	members(t, db, "a", "b")
	for _, scope := range []string{"a", "b"} {
		storetest.Put(t, db, gateway.Services, scope, "svc", &gateway.Service{Name: scope, Host: "h"})
	}
	l := Begin(t, db, Options{
		Publisher: quiet{}, Kinds: append(gateway.Kinds(), scopestest.Groups),
		Views: view.NewResolved(db, scopestest.Resolver{}, all.Kinds(), slog.New(slog.DiscardHandler)),
	}, nil)
	for {
		l.mu.Lock()
		err, moved := l.unread[model.DefaultControlPlane], l.moved
		l.mu.Unlock()
		if errors.Is(err, errSick) {
			return ctx, db, l
		}
		select {
		case <-moved:
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

func members(t *testing.T, db store.Store, names ...string) uint64 {
	t.Helper()
	return commit(t, db, func(tx store.Tx) error { return scopestest.Set(tx, model.DefaultControlPlane, names...) })
}

func commit(t *testing.T, db store.Store, fn func(store.Tx) error) uint64 {
	t.Helper()
	c, err := db.Update(t.Context(), model.Config, fn)
	if err != nil {
		t.Fatal(err)
	}
	return c.Revision
}

// TestGroupThatCouldNeverBeRead: who waits for a write of a member of a group waits for the
// group, and who waits for one of somebody else does not.
func TestGroupThatCouldNeverBeRead(t *testing.T) {
	remove := func(t *testing.T, db store.Store) uint64 {
		return commit(t, db, func(tx store.Tx) error { return tx.Delete(gateway.Services, "b", "svc", 0) })
	}
	for name, mend := range map[string]func(*testing.T, store.Store) uint64{
		"a member gives way": remove,
		"a member leaves":    func(t *testing.T, db store.Store) uint64 { return members(t, db, "a") },
		"a member gives way, and then writes what is shown to no gateway": func(t *testing.T, db store.Store) uint64 {
			remove(t, db)
			storetest.Put(t, db, gateway.Consumers, "b", "eve", &gateway.Consumer{Username: "eve"})
			storetest.Put(t, db, gateway.Keys, "b", "key", &gateway.Key{Key: "k", Consumer: "eve"})
			return storetest.Put(t, db, gateway.Keys, "b", "key", &gateway.Key{Key: "l", Consumer: "eve"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, db, l := startGroup(t)
			scope := ControlPlaneScope(model.DefaultControlPlane)
			concerned := func(revision uint64) bool {
				t.Helper()
				list, err := l.Concerned(ctx, revision)
				if err != nil {
					t.Fatal(err)
				}
				concerns, err := l.Concerns(ctx, revision)
				if err != nil {
					t.Fatal(err)
				}
				if yes := slices.Contains(list, scope); concerns(scope) != yes {
					t.Errorf("revision %d concerns it: %v, and who is away there: %v", revision, yes, !yes)
				}
				return slices.Contains(list, scope)
			}
			other := storetest.Put(t, db, gateway.Services, "c", "svc", &gateway.Service{Name: "c", Host: "h"})
			if concerned(other) {
				t.Error("a write of a control plane that is no member concerns the group")
			}
			if err := l.Settled(ctx, other); err != nil {
				t.Errorf("it waits for the group: %v", err)
			}
			if still := storetest.Put(t, db, gateway.Services, "a", "svc", &gateway.Service{Name: "a", Host: "other"}); !concerned(still) {
				t.Error("a write of a member does not concern the group")
			}
			db.is.Store(false)
			revision := mend(t, db)
			if !concerned(revision) {
				t.Error("the write that mends the group does not concern it")
			}
			if err := l.Settled(ctx, revision); err != nil {
				t.Fatal(err)
			}
			p := l.followedPlane(model.DefaultControlPlane)
			if p == nil || p.scope.State().Revision() < revision {
				t.Fatalf("who waited does not find it: %+v", p)
			}
			// Once it is read, the same is asked of what is followed.
			if !concerned(storetest.Put(t, db, gateway.Services, "a", "svc", &gateway.Service{Name: "a", Host: "third"})) {
				t.Error("a write of a member does not concern the group that was read")
			}
			if concerned(storetest.Put(t, db, gateway.Services, "c", "svc", &gateway.Service{Name: "c", Host: "other"})) {
				t.Error("a write of a control plane that is no member concerns the group that was read")
			}
		})
	}
}

// TestGroupThatNobodyFollows: gateways of it that are away should have what its members write.
func TestGroupThatNobodyFollows(t *testing.T) {
	_, db, l := startGroup(t)
	commit(t, db, func(tx store.Tx) error { return scopestest.Set(tx, "others", "c", "d") })
	for scope, want := range map[string]bool{"a": false, "c": true, "d": true, "e": false} {
		concerns, err := l.Concerns(t.Context(), storetest.Put(t, db, gateway.Services, scope, "more", &gateway.Service{Name: "more", Host: "h"}))
		if err != nil {
			t.Fatal(err)
		}
		if got := concerns(ControlPlaneScope("others")); got != want {
			t.Errorf("a write of %s concerns the group: %v", scope, got)
		}
		if !concerns(ControlPlaneScope(scope)) || concerns(MeshScope(scope)) {
			t.Errorf("a write of %s does not concern it, or a mesh of that name", scope)
		}
	}
}

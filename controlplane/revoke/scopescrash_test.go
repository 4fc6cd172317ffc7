package revoke

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// unreadable is a resolver that cannot read while it is broken.
type unreadable struct {
	scopestest.Resolver
	broken *atomic.Bool
}

// Resolve implements [scopes.Resolver].
func (u unreadable) Resolve(r store.Reader, scope string) (scopes.Source, error) {
	if u.broken.Load() {
		return scopes.Source{}, errors.New("disk I/O error")
	}
	return u.Resolver.Resolve(r, scope)
}

// TestMembersThatCannotBeReadWhenTheyChange: a link whose members were read before a change,
// and which is registered after that was published, is not welcomed with them, also where
// nobody could read what they are by then. The change is confirmed without the filter.
func TestMembersThatCannotBeReadWhenTheyChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken atomic.Bool
		w := newTenantsWith(t, func(o *Options) { o.Resolver = unreadable{broken: &broken} }, "a", "b")
		f, _ := w.join("group", contract.Hello{Instance: "first"}, contract.AcceptScopes)
		f.conn.Close()
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		l := w.r.newLink(Node{ID: "cp/group/2", ControlPlane: "group"}, here, nil)
		l.hello.Instance, l.scoped = "i", true
		if err := w.r.reserve(l); err != nil {
			t.Fatal(err)
		}
		var before *members
		if err := w.store.View(t.Context(), func(tx store.Reader) (err error) {
			before, err = w.r.membersOf(tx, "group")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		broken.Store(true)
		w.group("a") // which is confirmed
		broken.Store(false)
		err := w.r.register(l, before)
		if err != nil {
			w.r.release(l)
		} else {
			w.r.unregister(l, false)
			w.r.owned.Done()
		}
		if !errors.Is(err, errReshaped) {
			t.Errorf("welcomed with %v: %v", before.scopes.Members, err)
		}
	})
}

// afterReader is a store on which something happens when a reader has been committed, and
// before whoever noted it hears of that.
type afterReader struct {
	store.Store
	then func(scope string)
}

// Update implements [store.Store].
func (s afterReader) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	c, err := s.Store.Update(ctx, class, fn)
	for _, ch := range c.Changes {
		if err == nil && ch.New != nil && ch.New.Kind == readers {
			s.then(ch.New.Name)
		}
	}
	return c, err
}

// TestChangeWhileTheFirstFilterComes: a change of members that is made as soon as a scope has
// a filter leaves a row for the next process. A process that ends before it publishes the
// change would else be followed by one that answers "nothing has changed" and waits for
// nobody, while a filter that was welcomed with the former members is out of reach.
func TestChangeWhileTheFirstFilterComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w *world
		noted := false
		w = newTenantsWith(t, func(o *Options) {
			o.Store = afterReader{o.Store, func(string) {
				if _, err := w.commit(func(tx store.Tx) error { return scopestest.Set(tx, "group", "a") }); err != nil {
					t.Error(err)
				}
				noted = true
			}}
		}, "a", "b")
		w.join("group", contract.Hello{Instance: "i"}, contract.AcceptScopes)
		if err := w.store.View(t.Context(), func(tx store.Reader) error {
			_, err := tx.Get(tombstones, "", "scope:group")
			return err
		}); err != nil || !noted {
			t.Errorf("the change is forgotten: %v, made %v", err, noted)
		}
	})
}

// refusing is a store that does not note readers while it refuses.
type refusing struct {
	store.Store
	refuses *atomic.Bool
}

// Update implements [store.Store].
func (s refusing) Update(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return s.Store.Update(ctx, class, func(tx store.Tx) error {
		err := fn(tx)
		if err == nil && s.refuses.Load() && slices.ContainsFunc(tx.Changes(), func(c store.Change) bool { return c.New != nil && c.New.Kind == readers }) {
			err = errors.New("disk full")
		}
		return err
	})
}

// TestReaderThatCouldNotBeNoted: no filter is let in before its scope is in the store, also
// not when it comes again.
func TestReaderThatCouldNotBeNoted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		w := newTenantsWith(t, func(o *Options) { o.Store = refusing{o.Store, &refuses} }, "a")
		refuses.Store(true)
		for range 2 {
			if err := w.r.noteReader(t.Context(), "group"); err == nil {
				t.Error("noted on a disk that is full")
			}
		}
		refuses.Store(false)
		if err := w.r.noteReader(t.Context(), "group"); err != nil {
			t.Error(err)
		}
		if err := w.store.View(t.Context(), func(tx store.Reader) error {
			_, err := tx.Get(readers, "", "group")
			return err
		}); fault.Is(err, fault.NotFound) {
			t.Error("it is not in the store")
		}
	})
}

// TestRevokedBesideANamesake: a token is revoked by itself although the same commit deletes an
// application of its id in another control plane.
func TestRevokedBesideANamesake(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t)
		name := w.hold("b", "value")
		f, _ := w.join("b", contract.Hello{Instance: "i"}, contract.AcceptScopes)
		w.must(func(tx store.Tx) error {
			if err := tx.Delete(gateway.Applications, "a", w.app, 0); err != nil {
				return err
			}
			return tx.Delete(gateway.Tokens, "b", name, 0)
		})
		if got := tokensOf(f.invalidated()); !slices.Equal(got, hashes("value")) {
			t.Errorf("told of %x", got)
		}
	})
}

// TestManyScopesInRedis: what many scopes consist of is written in several batches, each with
// a time of its own, as everything else is: Redis would never be in order otherwise.
func TestManyScopesInRedis(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		w.r.mu.Lock()
		for i := range 2*pipelineSize + 1 {
			w.r.readers[fmt.Sprint("scope-", i)] = true
		}
		w.r.mu.Unlock()
		redis.restore(map[string][]byte{})
		w.settles(t)
		redis.mu.Lock()
		defer redis.mu.Unlock()
		if redis.most > pipelineSize {
			t.Errorf("%d keys at once", redis.most)
		}
		for i := range 2*pipelineSize + 1 {
			if redis.values[contract.RedisMembersKey(fmt.Sprint("scope-", i))] == nil {
				t.Fatalf("scope %d is missing", i)
			}
		}
	})
}

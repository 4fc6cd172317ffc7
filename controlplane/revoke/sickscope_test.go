package revoke

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// sickResolver cannot read what one scope consists of.
type sickResolver struct {
	scopestest.Resolver
	of   string
	sick atomic.Bool
}

// Resolve implements [scopes.Resolver].
func (s *sickResolver) Resolve(r store.Reader, scope string) (scopes.Source, error) {
	if scope == s.of && s.sick.Load() {
		return scopes.Source{}, fmt.Errorf("%w: its row is damaged", store.ErrUnreadable)
	}
	return s.Resolver.Resolve(r, scope)
}

// TestScopeThatCannotBeRead: Redis is in order for everybody else. It lists no members of the
// scope, so its filters take nothing from there, and the filters of others keep their links.
func TestScopeThatCannotBeRead(t *testing.T) {
	sick := &sickResolver{of: "sick"}
	virtually(t, func(o *Options) { o.Auth, o.Resolver = byNode{}, sick }, func(t *testing.T, w *world, redis *scripted) {
		set := func(tx store.Tx, groups ...string) error {
			for _, group := range groups {
				if err := scopestest.Set(tx, group, "a", uuid.NewString()); err != nil {
					return err
				}
			}
			return nil
		}
		w.must(func(tx store.Tx) error { return set(tx, "sick", "well") })
		w.settles(t)
		for _, of := range []string{"sick", "well"} {
			f, _ := w.pipe("cp/"+of+"/1", contract.Hello{Instance: of})
			f.cut()
		}
		lists := func(when string, want map[string]bool) {
			t.Helper()
			w.settles(t)
			for of, some := range want {
				m, err := contract.ParseMembers(redis.get(contract.RedisMembersKey(of)))
				if err != nil || m.Epoch != w.trust().Epoch || slices.Contains(m.Members, "a") != some || !some && len(m.Members) > 0 {
					t.Errorf("%s: of %s Redis lists %+v, %v", when, of, m, err)
				}
			}
		}
		lists("both can be read", map[string]bool{"sick": true, "well": true})
		sick.sick.Store(true)
		redis.restore(map[string][]byte{})
		lists("Redis was emptied", map[string]bool{"sick": false, "well": true})

		well, _ := w.pipe("cp/well/2", contract.Hello{Instance: "linked"})
		w.r.mu.Lock()
		for l := range w.r.links {
			l.scoped = true // it understands who has left
		}
		w.r.mu.Unlock()
		done := async(func() error { return w.write(func(tx store.Tx) error { return set(tx, "sick", "well") }) })
		well.invalidated()
		if s := well.scopes(); s.Of != "well" {
			t.Errorf("told of %+v", s)
		}
		well.ack(well.invalidated().To)
		well.cut()
		if err := <-done; err != nil {
			t.Errorf("a change of both: %v", err)
		}
		lists("both have changed", map[string]bool{"sick": false, "well": true})
		if !w.revoked("a") {
			t.Error("a revocation is not confirmed")
		}
		sick.sick.Store(false)
		w.must(func(tx store.Tx) error { return set(tx, "sick") })
		lists("it can be read again", map[string]bool{"sick": true, "well": true})
	})
}

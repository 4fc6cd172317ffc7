package revoke

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// noted lists the scopes that the store says filters belong to.
func (w *world) noted() (n int) {
	w.t.Helper()
	if err := w.store.View(w.t.Context(), func(r store.Reader) (err error) {
		n, err = r.Count(readers, store.Query{})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return n
}

// TestUnusedScopesAreForgotten: a day after its last filter was seen, a scope is forgotten, in
// memory and in the store. That of a filter that is linked is not. Who comes back is told what
// the scope consists of by then, and of each change after that.
func TestUnusedScopesAreForgotten(t *testing.T) {
	virtually(t, func(o *Options) { o.Auth, o.Resolver = byNode{}, scopestest.Resolver{} }, func(t *testing.T, w *world, redis *scripted) {
		w.group("a", "b")
		here, _ := w.pipe("cp/a/1", contract.Hello{Instance: "i"})
		here.keep()
		node := w.dial("cp/group/1")
		node.hello(contract.Hello{Instance: "i"})
		w.group("a", "b", "c")
		node.cut()
		if n := w.noted(); n != 2 {
			t.Fatalf("%d scopes are noted", n)
		}
		time.Sleep(contract.RememberFilter + 2*rememberEvery)
		synctest.Wait()
		w.r.mu.Lock()
		_, group := w.r.readers["group"]
		_, linked := w.r.readers["a"]
		left := len(w.r.reshapedAt) + len(w.r.audiences)
		w.r.mu.Unlock()
		if n := w.noted(); n != 1 || group || !linked || left != 1 {
			t.Errorf("%d scopes are noted, the group: %t, the linked one: %t, %d more remembered", n, group, linked, left)
		}
		w.group("a", "b") // nobody is told
		back := w.dial("cp/group/1")
		if wel := back.hello(contract.Hello{Instance: "j"}); wel.From != 0 {
			t.Errorf("%+v", wel)
		}
		synctest.Wait()
		listed := func() []string {
			m, err := contract.ParseMembers(redis.get(contract.RedisMembersKey("group")))
			if err != nil {
				t.Fatal(err)
			}
			return m.Members
		}
		if got := listed(); len(got) != 2 {
			t.Errorf("Redis lists %v", got)
		}
		w.group("a")
		if got := listed(); len(got) != 1 {
			t.Errorf("Redis lists %v", got)
		}
		if n := w.noted(); n != 2 {
			t.Errorf("%d scopes are noted", n)
		}
	})
}

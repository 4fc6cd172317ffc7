package revoke

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// took is how long it takes to revoke somebody of a control plane.
func (w *world) took(plane string) time.Duration {
	w.t.Helper()
	id := uuid.NewString()
	w.must(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: plane, Name: id, Spec: &gateway.Consumer{Username: id}})
		return err
	})
	begun := time.Now()
	if err := w.drop(plane, gateway.Consumers, id); err != nil {
		w.t.Errorf("of %s: %v", plane, err)
	}
	return time.Since(begun)
}

// TestOthersAreNotWaitedFor: a filter that never acknowledges, or whose connection has broken,
// holds up those only whose credentials it may hold: of its control plane, of each member of
// its group, and of who was one until it acknowledges that.
func TestOthersAreNotWaitedFor(t *testing.T) {
	virtually(t, func(o *Options) { o.Auth, o.Resolver = byNode{}, scopestest.Resolver{} }, func(t *testing.T, w *world, _ *scripted) {
		w.group("b", "c")
		w.settles(t)
		time.Sleep(contract.Lease) // that of a predecessor
		for _, tc := range []struct {
			of     string
			before func(f *fake)
			waits  string
		}{
			{"b", func(*fake) {}, "b"},
			{"b", func(f *fake) { f.cut() }, "b"},
			{"group", func(*fake) {}, "bc"},
			{"group", func(f *fake) { f.cut() }, "bc"},
			{"group", func(f *fake) {
				go func() { _ = w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", "b") }) }()
				f.invalidated()
				f.scopes()
			}, "bc"},
			{"group", func(f *fake) {
				go func() { _ = w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", "b") }) }()
				f.invalidated()
				f.scopes()
				f.ack(f.invalidated().To)
				f.send(contract.FrameRenew, contract.EncodeNumber(7))
				f.expect(contract.FrameGranted)
			}, "b"},
		} {
			for _, plane := range []string{"a", "b", "c"} {
				f, _ := w.pipe("cp/"+tc.of+"/1", contract.Hello{Instance: uuid.NewString()})
				f.lease()
				w.r.mu.Lock()
				for l := range w.r.links {
					l.scoped = true // it understands who has left
				}
				w.r.mu.Unlock()
				tc.before(f)
				time.Sleep(time.Millisecond)
				if took := w.took(plane); (took > 0) != strings.Contains(tc.waits, plane) {
					t.Errorf("a revocation in %s with a filter of %s takes %s", plane, tc.of, took)
				}
				f.cut()
				time.Sleep(2 * contract.Lease)
				w.group("b", "c")
			}
		}
	})
}

// TestOthersAreNotNamed: who waits in vain is told of no gateway of another control plane.
func TestOthersAreNotNamed(t *testing.T) {
	virtually(t, func(o *Options) { o.Auth, o.Resolver = byNode{}, scopestest.Resolver{} }, func(t *testing.T, w *world, redis *scripted) {
		w.settles(t)
		for _, plane := range []string{"a", "b"} {
			f, _ := w.pipe("cp/"+plane+"/secret-name", contract.Hello{Instance: plane})
			f.cut()
		}
		time.Sleep(2 * contract.Lease)
		redis.be(gone)
		id := uuid.NewString()
		w.must(func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: "a", Name: id, Spec: &gateway.Consumer{Username: id}})
			return err
		})
		err := w.drop("a", gateway.Consumers, id)
		redis.be(fine)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || !strings.Contains(f.Detail, "cp/a/secret-name") || strings.Contains(f.Detail, "cp/b/secret-name") {
			t.Errorf("answered %v", err)
		}
	})
}

package revoke

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// withGroup runs a test in a world of the control planes a to e. A group consists of b and c.
func withGroup(t *testing.T, fn func(t *testing.T, w *world, redis *scripted)) {
	t.Helper()
	virtually(t, func(o *Options) {
		o.Auth, o.Resolver = byNode{}, scopestest.Resolver{}
		o.ControlPlaneOf = func(node string) string { return strings.Split(node, "/")[1] }
	}, func(t *testing.T, w *world, redis *scripted) {
		w.group("b", "c")
		w.settles(t)
		time.Sleep(contract.Lease) // that of a predecessor
		fn(t, w, redis)
	})
}

// leaveAway links a filter of a scope that believes Redis, and breaks the link.
func (w *world) leaveAway(of string) {
	w.t.Helper()
	f, welcome := w.pipe("cp/"+of+"/1", contract.Hello{Instance: uuid.NewString()})
	w.r.mu.Lock()
	for l := range w.r.links {
		l.scoped = true // it understands who has left
	}
	w.r.mu.Unlock()
	if welcome.Trust.Epoch == 0 {
		w.t.Error("the filter is not told to believe Redis")
	}
	f.ack(f.first.To)
	f.cut()
	time.Sleep(2 * contract.Lease)
}

// revoked revokes somebody of a control plane, and reports whether that was confirmed.
func (w *world) revoked(plane string) bool {
	w.t.Helper()
	id := uuid.NewString()
	w.must(func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: plane, Name: id, Spec: &gateway.Consumer{Username: id}})
		return err
	})
	return w.confirms(w.drop(plane, gateway.Consumers, id))
}

// confirms reports whether there is no error. One that there is names nobody of others.
func (w *world) confirms(err error) bool {
	w.t.Helper()
	if err == nil {
		return true
	}
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != fault.Unavailable {
		w.t.Errorf("answered %v", err)
	}
	return false
}

// waiting lists the control planes in which a revocation, and whoever finds nothing to revoke,
// is not answered with success. Both must agree.
func (w *world) waiting() (out string) {
	w.t.Helper()
	for _, plane := range []string{"a", "b", "c", "d", "e"} {
		if !w.revoked(plane) {
			out += plane
		}
		if got := w.confirms(w.r.Settle(context.Background(), plane)); got != !strings.HasSuffix(out, plane) {
			w.t.Errorf("in %s a revocation is confirmed: %v, and what is revoked already: %v", plane, !got, got)
		}
	}
	if got := w.confirms(w.r.Settle(context.Background())); got != (out == "") {
		w.t.Errorf("%q wait, and whoever asks for all is answered with success: %v", out, got)
	}
	return out
}

// TestOthersAreNotWaitedForWithoutRedis: while Redis cannot be written, a filter that is away
// holds up those only whose credentials it may find there: those that it was told to accept,
// unless it can find that they have left. So it is after a restart.
func TestOthersAreNotWaitedForWithoutRedis(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(w *world, redis *scripted)
		waits  string
		// later says who waits after a restart, if that is somebody else: the next process
		// does not know what Redis says.
		later string
	}{
		"nobody is away":    {before: func(*world, *scripted) {}},
		"one alone is away": {before: func(w *world, _ *scripted) { w.leaveAway("a") }, waits: "a"},
		"a member is away":  {before: func(w *world, _ *scripted) { w.leaveAway("b") }, waits: "b"},
		"the group is away": {before: func(w *world, _ *scripted) { w.leaveAway("group") }, waits: "bc"},
		"two are away":      {before: func(w *world, _ *scripted) { w.leaveAway("a"); w.leaveAway("d") }, waits: "ad"},
		"another is away":   {before: func(w *world, _ *scripted) { w.leaveAway("e") }, waits: "e"},
		"a member has left, and Redis says so": {before: func(w *world, _ *scripted) {
			w.leaveAway("group")
			w.group("b")
		}, waits: "b", later: "bc"},
		"a member has left, and Redis does not say so": {before: func(w *world, redis *scripted) {
			w.leaveAway("group")
			redis.be(gone)
			synctest.Wait()
			if w.confirms(w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", "b") })) {
				w.t.Error("it has left, and who is away may not know")
			}
		}, waits: "bc"},
		"a member has come": {before: func(w *world, _ *scripted) {
			w.leaveAway("group")
			w.group("b", "c", "d")
		}, waits: "bcd"},
		"a member has left and come back": {before: func(w *world, _ *scripted) {
			w.leaveAway("group")
			w.group("b")
			w.group("b", "c")
		}, waits: "bc"},
	} {
		t.Run(name, func(t *testing.T) {
			withGroup(t, func(t *testing.T, w *world, redis *scripted) {
				tc.before(w, redis)
				redis.be(gone)
				if got := w.waiting(); got != tc.waits {
					t.Errorf("%q wait, want %q", got, tc.waits)
				}
				w.crash()
				w.open(nil)
				time.Sleep(2 * contract.Lease)
				if got, want := w.waiting(), cmp.Or(tc.later, tc.waits); got != want {
					t.Errorf("after a restart %q wait, want %q", got, want)
				}
				redis.be(fine)
				time.Sleep(2 * maxBackoff)
				if got := w.waiting(); got != "" {
					t.Errorf("when Redis is back %q wait", got)
				}
			})
		})
	}
}

// TestAnotherRedisIsWaitedForAlone: who has not heard that Redis was replaced holds up those
// only whose credentials it may find in the former one.
func TestAnotherRedisIsWaitedForAlone(t *testing.T) {
	withGroup(t, func(t *testing.T, w *world, redis *scripted) {
		w.leaveAway("group")
		redis.mu.Lock()
		redis.id, redis.values = "run-2", map[string][]byte{}
		redis.mu.Unlock()
		w.settles(t)
		time.Sleep(watchEvery)
		w.settles(t)
		if got := w.waiting(); got != "bc" {
			t.Errorf("%q wait", got)
		}
	})
}

// TestOthersAreNotCounted: who waits in vain is told of no gateway of others, neither by name
// nor by number, also if it finds that what it revokes is gone.
func TestOthersAreNotCounted(t *testing.T) {
	withGroup(t, func(t *testing.T, w *world, redis *scripted) {
		for _, of := range []string{"a", "b", "b", "group", "d"} {
			w.leaveAway(of)
		}
		redis.be(gone)
		synctest.Wait()
		id := uuid.NewString()
		w.must(func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: "b", Name: id, Spec: &gateway.Consumer{Username: id}})
			return err
		})
		for what, err := range map[string]error{
			"revoked": w.drop("b", gateway.Consumers, id), "gone already": w.r.Settle(context.Background(), "b"),
		} {
			says(t, err, "3 of 3 gateways", "(cp/b/1, cp/group/1)")
			for _, other := range []string{"cp/a", "cp/d", "other control planes"} {
				if err != nil && strings.Contains(err.Error(), other) {
					t.Errorf("%s: answered %v", what, err)
				}
			}
		}
		err := w.r.Settle(context.Background())
		says(t, err, "5 of 5 gateways", aGatewayElsewhere)
		if strings.Contains(err.Error(), "cp/") {
			t.Errorf("who asks for all is told %v", err)
		}
	})
}

// TestSettleWaitsForItsOwn: whoever finds nothing to revoke waits for the memory of those
// filters only that may hold what was there, whoever else has revoked something.
func TestSettleWaitsForItsOwn(t *testing.T) {
	withGroup(t, func(t *testing.T, w *world, _ *scripted) {
		for _, of := range []string{"b", "group"} {
			f, _ := w.pipe("cp/"+of+"/1", contract.Hello{Instance: uuid.NewString()})
			f.lease()
			revoked := async(func() error { return w.write(w.touchIn("b")) })
			f.invalidated()
			for _, plane := range []string{"a", "b", "c", "d"} {
				begun := time.Now()
				if plane == "b" || of == "group" && plane == "c" {
					settled := async(func() error { return w.r.Settle(context.Background(), plane) })
					stillWaits(t, "what is gone from "+plane, settled)
					continue
				}
				if err := w.r.Settle(context.Background(), plane); err != nil || time.Since(begun) > 0 {
					t.Errorf("with a filter of %s, %s waits for %s: %v", of, plane, time.Since(begun), err)
				}
			}
			f.cut()
			if err := <-revoked; err != nil {
				t.Error(err)
			}
			time.Sleep(2 * contract.Lease)
		}
	})
}

// touchIn makes somebody in a control plane and changes them, which revokes what is known of
// them.
func (w *world) touchIn(plane string) func(store.Tx) error {
	w.t.Helper()
	id := uuid.NewString()
	row := &model.Resource{Kind: gateway.Consumers, Scope: plane, Name: id, Spec: &gateway.Consumer{Username: id}}
	w.must(func(tx store.Tx) error {
		_, err := tx.Create(row)
		return err
	})
	return func(tx store.Tx) error {
		_, err := tx.Update(row, 0)
		return err
	}
}

// TestMatters: what publications are about.
func TestMatters(t *testing.T) {
	m := matterOf([]entry{{scope: "b"}, {scope: "a"}, {scope: "b"}, {inv: contract.Invalidation{Subject: subjectScope, ID: "g"}}})
	if m.all || !slices.Equal(m.scopes, []string{"a", "b"}) || !slices.Equal(m.groups, []string{"g"}) {
		t.Errorf("%+v", m)
	}
	if old := matterOf([]entry{{scope: "a"}, {}}); !old.all || old.key() == m.key() {
		t.Errorf("a row of an older release is about %+v", old)
	}
	for of, want := range map[string]bool{"a": true, "b": true, "g": true, "c": false} {
		if got := m.concerns([]*contract.Scopes{{Of: of, Members: []string{of}}}); got != want {
			t.Errorf("it concerns filters of %s: %v", of, got)
		}
	}
}

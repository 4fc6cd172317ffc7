package revoke

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
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

// TestWhoHasLeftStaysAway: who has left while Redis could not be written is not waited for any
// more once Redis says so, also when Redis is away again. Who has left before is not waited for
// anew when another one leaves.
func TestWhoHasLeftStaysAway(t *testing.T) {
	leave := func(w *world, members ...string) {
		w.t.Helper()
		synctest.Wait()
		if w.confirms(w.write(func(tx store.Tx) error { return scopestest.Set(tx, "group", members...) })) {
			w.t.Error("it has left, and who is away may not know")
		}
	}
	waits := func(w *world, when, want string) {
		w.t.Helper()
		if got := w.waiting(); got != want {
			w.t.Errorf("%s %q wait, want %q", when, got, want)
		}
	}
	t.Run("two outages", func(t *testing.T) {
		withGroup(t, func(_ *testing.T, w *world, redis *scripted) {
			w.leaveAway("group")
			redis.be(gone)
			leave(w, "b")
			waits(w, "while Redis does not say so", "bc")
			redis.be(fine)
			time.Sleep(2 * maxBackoff)
			waits(w, "when Redis is back", "")
			redis.be(gone)
			waits(w, "in the second outage", "b")
		})
	})
	t.Run("one after the other", func(t *testing.T) {
		withGroup(t, func(_ *testing.T, w *world, redis *scripted) {
			w.group("b", "c", "d")
			w.leaveAway("group")
			w.group("b", "c")
			redis.be(gone)
			waits(w, "d has left", "bc")
			leave(w, "b")
			waits(w, "c has left", "bc")
		})
	})
	t.Run("who comes back is waited for", func(t *testing.T) {
		withGroup(t, func(_ *testing.T, w *world, redis *scripted) {
			w.leaveAway("group")
			w.group("b")
			redis.be(gone)
			leave(w, "b", "c")
			waits(w, "c is back", "bc")
			redis.be(fine)
			time.Sleep(2 * maxBackoff)
			redis.be(gone)
			waits(w, "and Redis says so", "bc")
		})
	})
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

// TestSettleIsAboutItsOwn: while Redis cannot be written, whoever finds nothing to revoke is
// answered by what was revoked in the scopes where it looked. What somebody else has revoked
// since is not asked of the filters of these scopes, then or later.
func TestSettleIsAboutItsOwn(t *testing.T) {
	withGroup(t, func(t *testing.T, w *world, redis *scripted) {
		if !w.revoked("a") {
			t.Error("a revocation is not confirmed while all is well")
		}
		w.leaveAway("a")
		redis.be(gone)
		synctest.Wait()
		settles := func(when string, want bool, scopes ...string) {
			t.Helper()
			if got := w.confirms(w.r.Settle(context.Background(), scopes...)); got != want {
				t.Errorf("%s: in %v it is answered with success: %v", when, scopes, got)
			}
		}
		if !w.revoked("b") {
			t.Error("a revocation in b waits for a filter of a")
		}
		settles("b has revoked", true, "a")
		settles("b has revoked", true, "a", "b")
		settles("b has revoked", false)
		w.r.mu.Lock()
		for _, of := range w.r.unconfirmed {
			if !of.about.all {
				t.Errorf("%v of %+v is asked for", of.at, of.about)
			}
		}
		w.r.mu.Unlock()
		if w.revoked("a") {
			t.Error("a revocation in a does not wait for its filter")
		}
		settles("a has revoked", false, "a")
		settles("a has revoked", true, "b")
		w.crash()
		w.open(nil)
		time.Sleep(2 * contract.Lease)
		settles("after a restart", false, "a")
	})
}

// TestLatest: the newest revocation that a matter is about, if more scopes revoke than are
// remembered.
func TestLatest(t *testing.T) {
	l := latest{in: map[string]contract.Position{}}
	expect := func(want contract.Position, scopes ...string) {
		t.Helper()
		m := matterIn(scopes)
		if got := l.of(&m); got != want {
			t.Errorf("of %v: %d, want %d", scopes, got, want)
		}
	}
	expect(0)
	l.note(&matter{scopes: []string{"a"}, groups: []string{"g"}}, 3)
	l.note(&matter{scopes: []string{"b"}}, 5)
	expect(3, "a")
	expect(3, "g")
	expect(5, "a", "b")
	expect(0, "c")
	expect(5)
	l.note(&matter{all: true}, 6)
	expect(6, "c")
	for i := range maxLatest {
		l.note(&matter{scopes: []string{uuid.NewString()}}, contract.Position(7+i))
	}
	expect(6, "c")
	l.note(&matter{scopes: []string{"a"}}, 1<<20)
	expect(1<<20, "c")
	expect(1 << 20)
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

// TestDoubtsEnd: after a predecessor that was killed while a filter had not heard that Redis was
// replaced, the filter may have been told anything, and everybody waits for it. Once it has
// heard, it takes from Redis what is listed there, and is waited for by its own alone.
func TestDoubtsEnd(t *testing.T) {
	withGroup(t, func(t *testing.T, w *world, redis *scripted) {
		unsure := func() (some bool) {
			w.r.mu.Lock()
			defer w.r.mu.Unlock()
			some = w.r.unsure > 0
			for of, a := range w.r.audiences {
				some = some || of != unknownOnes && a.unsure > 0
			}
			return some
		}
		come := func() {
			f, _ := w.pipe("cp/group/1", contract.Hello{Instance: "i"})
			f.ack(f.first.To)
			f.cut()
			time.Sleep(2 * contract.Lease)
		}
		come()
		redis.mu.Lock()
		redis.id, redis.values = "run-2", map[string][]byte{}
		redis.mu.Unlock()
		w.settles(t)
		time.Sleep(watchEvery)
		w.settles(t)
		w.crash()
		w.open(nil)
		w.settles(t)
		time.Sleep(2 * contract.Lease)
		if got := w.waiting(); got != "abcde" || !unsure() {
			t.Errorf("%q wait for who may have been told anything; unsure: %v", got, unsure())
		}
		come()
		if got := w.waiting(); got != "" || unsure() {
			t.Errorf("%q wait when it has heard; unsure: %v", got, unsure())
		}
		redis.be(gone)
		if got := w.waiting(); got != "bc" {
			t.Errorf("%q wait when Redis is away", got)
		}
	})
}

// busyStore is a store whose readers are all in use while busy is set.
type busyStore struct {
	store.Store
	busy atomic.Bool
}

// View implements [store.Store].
func (s *busyStore) View(ctx context.Context, fn func(store.Reader) error) error {
	if s.busy.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.View(ctx, fn)
}

// TestStageWaitsForNoReader: a transaction that changes what a scope consists of holds up the
// writer of the store for a moment at most. If it cannot read what was before, it does not say
// who may have been a member.
func TestStageWaitsForNoReader(t *testing.T) {
	disk := &busyStore{}
	virtually(t, func(o *Options) {
		o.Auth, o.Resolver = byNode{}, scopestest.Resolver{}
		disk.Store, o.Store = o.Store, disk
	}, func(t *testing.T, w *world, _ *scripted) {
		for _, busy := range []bool{false, true} {
			w.group("b")
			disk.busy.Store(busy)
			begun, committed := time.Now(), make(chan store.Commit, 1)
			go func() {
				c, err := w.commit(func(tx store.Tx) error { return scopestest.Set(tx, "group", "c") })
				if err != nil {
					t.Error(err)
				}
				committed <- c
			}()
			select {
			case c := <-committed:
				var members []string
				for _, ch := range c.Changes {
					if row, ok := ch.New.Spec.(*Tombstone); ok {
						members = row.Members
					}
				}
				if got := len(members); (got == 0) != busy {
					t.Errorf("busy=%v: the row says %v", busy, members)
				}
				if took := time.Since(begun); took > aroundTimeout {
					t.Errorf("busy=%v: it takes %v", busy, took)
				}
			case <-time.After(patience):
				t.Fatalf("busy=%v: the writer waits for a reader", busy)
			}
			disk.busy.Store(false)
		}
	})
}

package tokencache

import (
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// What Redis may hold of one member under a token hash.
const (
	holdsNothing   = "nothing"
	holdsCounting  = "a record that counts"
	holdsOwn       = "a record of its own gateways" // another member had the value first
	holdsTombstone = "a tombstone"
	holdsGarbage   = "garbage"
)

// hold writes what a member holds of a token. The user of its record is the member.
func (s *fakeStore) hold(t *testing.T, plane string, token int, what string) {
	t.Helper()
	r := of(plane, token, 5)
	switch r.UserID = plane; what {
	case holdsOwn, holdsCounting:
		r.Own = what == holdsOwn
		s.putRecord(t, token, r)
	case holdsTombstone:
		s.set(contract.RedisRecordKey(plane, hashOf(token)), contract.MarshalTombstone(7))
	case holdsGarbage:
		s.set(contract.RedisRecordKey(plane, hashOf(token)), []byte("{"))
	}
}

// userOf is the user of a token that a look-up in the deeper levels finds.
func (w *world) userOf(token int) (user string, answer contract.Answer) {
	done := make(chan struct{})
	w.cache.Resolve(hashOf(token), testPlugin, func(a contract.Answer, packed []byte) {
		defer close(done)
		if answer = a; a == contract.Found {
			spans, _ := contract.Unpacked(packed)
			id := spans[contract.FieldUserID]
			user = string(packed[id.Off : id.Off+id.Len])
		}
	})
	<-done
	return user, answer
}

// whoCounts is what a gateway of a group makes of what two members hold: whose record it uses,
// or else what it answers where nobody else can be asked.
func whoCounts(a, b string) (user string, alone contract.Answer) {
	is := func(what string) bool { return a == what || b == what }
	switch {
	case a == holdsCounting && b == holdsCounting:
		return "", contract.Unavailable
	case a == holdsCounting:
		return "plane-1", contract.Found
	case b == holdsCounting:
		return "plane-2", contract.Found
	case is(holdsOwn), is(holdsGarbage):
		return "", contract.Unavailable
	case is(holdsTombstone):
		return "", contract.Revoked
	}
	return "", contract.Unknown
}

// TestWhatTwoMembersHold: the record of the one that had the value first is used, whatever the
// other one holds. Without one, the control plane is asked: what one has revoked must not
// hide that another one's may count by now. Nothing else comes into the memory.
func TestWhatTwoMembersHold(t *testing.T) {
	states := []string{holdsNothing, holdsCounting, holdsOwn, holdsTombstone, holdsGarbage}
	pairs := func(each func(token int, name, a, b string)) {
		for i, a := range states {
			for j, b := range states {
				each(1+i*len(states)+j, fmt.Sprintf("%s and %s", a, b), a, b)
			}
		}
	}
	fill := func(t *testing.T, w *world) {
		pairs(func(token int, _, a, b string) {
			w.store.hold(t, "plane-1", token, a)
			w.store.hold(t, "plane-2", token, b)
		})
	}
	t.Run("linked", func(t *testing.T) {
		inWorld(t, worldConfig{}, func(w *world) {
			w.group("plane-1", "plane-2")
			fill(t, w)
			pairs(func(token int, name, a, b string) {
				asked, doubted := w.control.asked.Load(), w.cache.Stats().L2Untrusted
				want, alone := whoCounts(a, b)
				user, answer := w.userOf(token)
				asks := w.control.asked.Load() != asked
				if user != want || asks == (alone == contract.Found) || asks && answer != contract.Unknown {
					t.Errorf("%s: answer %d, of %q, asked %t", name, answer, user, asks)
				}
				if doubts := w.cache.Stats().L2Untrusted != doubted; doubts != (alone == contract.Unavailable) {
					t.Errorf("%s: in doubt %t", name, doubts)
				}
				if memory := w.lookup(token); (memory == contract.Found) != (alone == contract.Found) {
					t.Errorf("%s: in memory %d", name, memory)
				}
			})
		})
	})
	t.Run("out of reach", func(t *testing.T) {
		inWorld(t, worldConfig{}, func(w *world) {
			l := w.group("plane-1", "plane-2")
			fill(t, w)
			w.control.down.Store(true)
			_ = l.conn.Close()
			w.advance(contract.Lease)
			pairs(func(token int, name, a, b string) {
				want, _ := whoCounts(a, b)
				if user, answer := w.userOf(token); user != want || answer != contract.Found && answer != contract.Unavailable {
					t.Errorf("%s: answer %d, of %q", name, answer, user)
				}
			})
		})
	})
	t.Run("without a control plane", func(t *testing.T) {
		inWorld(t, worldConfig{static: true}, func(w *world) {
			w.cache.Close()
			w.settings.Scopes = []string{"plane-1", "plane-2"}
			w.open()
			fill(t, w)
			pairs(func(token int, name, a, b string) {
				want, alone := whoCounts(a, b)
				if user, answer := w.userOf(token); user != want || answer != alone {
					t.Errorf("%s: answer %d, of %q, want %d", name, answer, user, alone)
				}
			})
		})
	})
}

// TestOwnGatewaysUseTheirRecord: what counts at the gateways of one control plane only is used
// there.
func TestOwnGatewaysUseTheirRecord(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.live()
		w.store.putClock(0)
		w.store.hold(t, testPlane, 1, holdsOwn)
		if user, answer := w.userOf(1); user != testPlane || answer != contract.Found {
			t.Errorf("answer %d, of %q", answer, user)
		}
		w.want("in memory", w.lookup(1), contract.Found)
	})
}

// TestFirstHolderGivesWay: what another member has is used again when the control plane has
// said so once, and not from the record of before, in memory or in Redis.
func TestFirstHolderGivesWay(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		l := w.group("plane-1", "plane-2")
		w.store.hold(t, "plane-1", 1, holdsCounting)
		w.store.hold(t, "plane-2", 1, holdsOwn)
		if user, _ := w.userOf(1); user != "plane-1" {
			t.Fatalf("of %q", user)
		}
		w.store.set(contract.RedisRecordKey("plane-1", hashOf(1)), contract.MarshalTombstone(7))
		w.store.putClock(1)
		l.invalidate(1, tokenGone(1, 7))
		l.expectAck(1)
		w.want("in memory", w.lookup(1), contract.Miss)
		w.control.introspect = func(*contract.Introspect) *contract.Result {
			r := of("plane-2", 1, 8)
			r.UserID = "plane-2"
			w.store.putRecord(t, 1, r)
			return &contract.Result{Answer: contract.Found, Revision: 8, Record: r}
		}
		if user, answer := w.userOf(1); user != "plane-2" || w.control.asked.Load() != 1 {
			t.Errorf("answer %d, of %q, asked %d times", answer, user, w.control.asked.Load())
		}
		w.want("in memory", w.lookup(1), contract.Found)
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(contract.Lease)
		if user, answer := w.userOf(1); user != "plane-2" {
			t.Errorf("from redis: answer %d, of %q", answer, user)
		}
	})
}

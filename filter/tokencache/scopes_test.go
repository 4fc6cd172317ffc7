package tokencache

import (
	"slices"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// groupOf is a gateway of a group.
func groupOf(members ...string) *contract.Scopes {
	return &contract.Scopes{Of: "group-1", Members: members}
}

// of is the record of a token that a control plane holds.
func of(plane string, token int, revision uint64) *contract.Record {
	r := testRecord(token, revision)
	r.Plane = plane
	return r
}

// putMembers writes what Redis says of the group.
func (s *fakeStore) putMembers(epoch contract.Epoch, members ...string) {
	s.set(contract.RedisMembersKey("group-1"), contract.Members{Epoch: epoch, Members: members}.Marshal())
}

// group is live as a gateway of a group, whose control plane knows no token.
func (w *world) group(members ...string) *fakeLink {
	w.t.Helper()
	w.store.putClock(0)
	w.store.putMembers(testEpoch, members...)
	w.control.introspect = func(*contract.Introspect) *contract.Result {
		return &contract.Result{Answer: contract.Unknown, Revision: 9}
	}
	w.control.auto = true
	l := w.control.accept()
	l.json(contract.FrameWelcome, contract.Welcome{Log: testLog, Trust: testTrust, Scopes: groupOf(members...)})
	w.advance(0)
	return l
}

// TestRecordsOfOthersAreNotAccepted: neither Redis nor the control plane makes a gateway
// accept what another control plane holds, and a filter that nobody told accepts nothing
// from Redis.
func TestRecordsOfOthersAreNotAccepted(t *testing.T) {
	for name, tc := range map[string]struct {
		scopes *contract.Scopes
		of     string // the record's, in Redis under the key of at
		at     string
		redis  contract.Answer
		asked  contract.Answer // if the control plane answers with it
	}{
		"its own":                  {testScopes, testPlane, testPlane, contract.Found, contract.Found},
		"another's":                {testScopes, "plane-2", "plane-2", contract.Unknown, contract.Unavailable},
		"another's at its place":   {testScopes, "plane-2", testPlane, contract.Unknown, contract.Unavailable},
		"nobody's":                 {testScopes, "", testPlane, contract.Unknown, contract.Unavailable},
		"a member's":               {groupOf("plane-0", testPlane), testPlane, testPlane, contract.Found, contract.Found},
		"of who is no member":      {groupOf("plane-0", testPlane), "plane-2", "plane-2", contract.Unknown, contract.Unavailable},
		"of an empty group":        {groupOf(), testPlane, testPlane, contract.Unknown, contract.Unavailable},
		"untold, one's own":        {nil, testPlane, testPlane, contract.Unknown, contract.Unavailable},
		"untold, of an older one":  {nil, "", "", contract.Unknown, contract.Found},
		"told, of an older record": {testScopes, "", "", contract.Unknown, contract.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				w.store.putClock(0)
				w.store.putMembers(testEpoch, "plane-0", testPlane)
				r := of(tc.of, 1, 5)
				w.store.putRecord(t, 1, r)
				signed, err := r.Sign(hashOf(1), testKey)
				if err != nil {
					t.Fatal(err)
				}
				w.store.set(contract.RedisRecordKey(tc.at, hashOf(1)), signed)
				answer := &contract.Result{Answer: contract.Unknown, Revision: 9}
				w.control.introspect = func(*contract.Introspect) *contract.Result { return answer }
				w.control.auto = true
				l := w.control.accept()
				l.json(contract.FrameWelcome, contract.Welcome{Log: testLog, Trust: testTrust, Scopes: tc.scopes})
				w.advance(0)
				w.want("from redis", w.resolve(1), tc.redis)
				answer = &contract.Result{Answer: contract.Found, Revision: 9, Record: of(tc.of, 2, 9)}
				w.want("by the control plane", w.resolve(2), tc.asked)
				want := contract.Miss
				if tc.asked == contract.Found {
					want = contract.Found
				}
				w.want("in memory", w.lookup(2), want)
			})
		})
	}
}

// TestMembersHoldOneCredential: what one member has revoked does not refuse what another
// one holds. Of two records that say that they count one is out of date.
func TestMembersHoldOneCredential(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		w.group("plane-1", "plane-2")
		w.store.putRecord(t, 1, of("plane-2", 1, 5))
		w.store.set(contract.RedisRecordKey("plane-1", hashOf(1)), contract.MarshalTombstone(7))
		w.want("a tombstone beside it", w.resolve(1), contract.Found)
		w.store.putRecord(t, 2, of("plane-1", 2, 5))
		w.store.putRecord(t, 2, of("plane-2", 2, 5))
		w.want("two hold it", w.resolve(2), contract.Unknown) // as the control plane says
		w.store.set(contract.RedisRecordKey("plane-2", hashOf(2)), contract.MarshalTombstone(10))
		w.advance(contract.DefaultNegativeTTL)
		w.want("one gave way", w.resolve(2), contract.Found)
		w.store.set(contract.RedisRecordKey("plane-1", hashOf(3)), contract.MarshalTombstone(7))
		asked := w.control.asked.Load()
		w.want("revoked", w.resolve(3), contract.Unknown)
		if w.control.asked.Load() == asked {
			t.Error("nobody was asked")
		}
	})
}

// TestMemberLeaves: when it is acknowledged that one has left, memory answers for none of its
// credentials and Redis for none any more, also where a look-up was under way. Who comes is
// accepted at once, although it was remembered as unknown.
func TestMemberLeaves(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		l := w.group("plane-1", "plane-2")
		w.store.putRecord(t, 1, of("plane-1", 1, 5))
		w.store.putRecord(t, 2, of("plane-2", 2, 5))
		w.store.putRecord(t, 3, of("plane-3", 3, 5))
		w.want("of one", w.resolve(1), contract.Found)
		w.want("of the other", w.resolve(2), contract.Found)
		w.want("of a stranger", w.resolve(3), contract.Unknown)
		w.store.putMembers(testEpoch, "plane-1", "plane-3")
		w.store.putClock(1)
		l.json(contract.FrameScopes, groupOf("plane-1", "plane-3"))
		l.invalidate(1)
		l.expectAck(1)
		w.want("who left, in memory", w.lookup(2), contract.Miss)
		w.want("who left", w.resolve(2), contract.Unknown)
		w.want("who stays", w.resolve(1), contract.Found)
		w.want("who came", w.resolve(3), contract.Found)
	})
}

// TestMemberLeavesDuringALookUp holds a look-up that has read the record of a member, and one
// whose question is answered with it, while that member leaves.
func TestMemberLeavesDuringALookUp(t *testing.T) {
	for _, from := range []string{"redis", "the control plane"} {
		t.Run(from, func(t *testing.T) {
			inWorld(t, worldConfig{}, func(w *world) {
				l := w.group("plane-1", "plane-2")
				left := false
				leave := func() (now bool) {
					if now = !left; now {
						left = true
						l.json(contract.FrameScopes, groupOf("plane-1"))
						l.invalidate(1)
					}
					return now
				}
				if from == "redis" {
					// Redis goes on saying that it is a member, as one does that is read by
					// halves, and its clock is no reason to look again.
					w.store.putClock(9)
					w.store.putRecord(t, 1, of("plane-2", 1, 5))
					w.store.reading = func(key string) {
						if key == contract.RedisCredentialKey("plane-2", "credential-1") && leave() {
							l.expectAck(1)
						}
					}
				} else {
					w.control.introspect = func(*contract.Introspect) *contract.Result {
						leave()
						return &contract.Result{Answer: contract.Found, Revision: 5, Record: of("plane-2", 1, 5)}
					}
				}
				if got := w.resolve(1); got == contract.Found || !left {
					t.Errorf("answer %d", got)
				}
				if got := w.lookup(1); got == contract.Found {
					t.Error("it stays in memory")
				}
			})
		})
	}
}

// TestMembersWithoutTheControlPlane: a filter that is out of reach takes from Redis who has
// left, never who has come, and without members of its epoch it believes none.
func TestMembersWithoutTheControlPlane(t *testing.T) {
	inWorld(t, worldConfig{}, func(w *world) {
		l := w.group("plane-1", "plane-2")
		for token, plane := range []string{1: "plane-1", 2: "plane-2", 3: "plane-3"} {
			if plane != "" {
				w.store.putRecord(t, token, of(plane, token, 5))
			}
		}
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(contract.Lease)
		for name, tc := range map[string]struct {
			epoch   contract.Epoch
			members []string
			found   []int
		}{
			"as told":             {testEpoch, []string{"plane-1", "plane-2"}, []int{1, 2}},
			"one left":            {testEpoch, []string{"plane-1"}, []int{1}},
			"one came":            {testEpoch, []string{"plane-1", "plane-2", "plane-3"}, []int{1, 2}},
			"all left":            {testEpoch, nil, nil},
			"of a former epoch":   {testEpoch - 1, []string{"plane-1", "plane-2"}, nil},
			"another one instead": {testEpoch, []string{"plane-3"}, nil},
		} {
			w.store.putMembers(tc.epoch, tc.members...)
			for token := 1; token <= 3; token++ {
				want := contract.Unavailable
				if slices.Contains(tc.found, token) {
					want = contract.Found
				}
				w.want(name, w.resolve(token), want)
			}
		}
		w.store.set(contract.RedisMembersKey("group-1"), nil)
		w.want("none at all", w.resolve(1), contract.Unavailable)
	})
}

// TestScopesAreKept: a filter that starts without the control plane accepts whose credentials
// it was told of last, and none if that was said by one that does not tell.
func TestScopesAreKept(t *testing.T) {
	for name, told := range map[string]*contract.Scopes{"its own": testScopes, "another": {Of: testPlane, Members: []string{"plane-2"}}, "untold": nil} {
		t.Run(name, func(t *testing.T) {
			d := newDirectory(t)
			r := d.leased()
			r.Scopes = told
			d.write(r)
			d.control.down.Store(true)
			c := d.open()
			want := contract.Unavailable
			if told.Equal(testScopes) {
				want = contract.Found
			}
			if got := ask(t, c, 1); got != want {
				t.Errorf("answer %d, want %d", got, want)
			}
		})
	}
	d := newDirectory(t)
	d.control.auto = true
	d.open()
	l := d.control.accept()
	l.welcome()
	l.json(contract.FrameScopes, groupOf("plane-1", "plane-2"))
	l.invalidate(1)
	l.expectAck(1)
	soon(t, "the members are on disk", func() bool {
		r := d.file()
		return r != nil && r.Scopes.Equal(groupOf("plane-1", "plane-2")) && sameTrust(r.Trust, testTrust)
	})
}

package tokencache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
)

var _ engine.Tokens = (*Cache)(nil)

// fakeClock is set by tests; its wall clock starts at unix second 1e9.
type fakeClock struct{ mono, step atomic.Int64 }

func (c *fakeClock) Now() Instant {
	mono := c.mono.Load()
	return Instant{Wall: 1e18 + mono + c.step.Load(), Mono: time.Duration(mono)}
}

func (c *fakeClock) add(d time.Duration) { c.mono.Add(int64(d)) }

func hashOf(i int) contract.Hash {
	return contract.HashToken(binary.BigEndian.AppendUint64(nil, uint64(i)))
}

// testRecord returns a record whose packed form is of a usual size.
func testRecord(token int, revision uint64) *contract.Record {
	return &contract.Record{
		Version: contract.RecordVersion, Revision: revision, Plane: testPlane,
		Service:    "0f1c4b52-7a75-4a3f-8f0e-6d7c1c1f1a11",
		Credential: contract.Credential{ID: fmt.Sprintf("credential-%d", token%7), ClientID: fmt.Sprintf("client-%d", token)},
		Consumer:   &contract.Consumer{ID: fmt.Sprintf("consumer-%d", token%3), Username: "alice"},
		Scope:      "read write",
	}
}

func mustAdmit(t testing.TB, tb *table, token int, r *contract.Record) {
	t.Helper()
	h := hashOf(token)
	if !tb.admit(tb.generation.Load(), &h, r, r.Until, r.Pack(nil), true) {
		t.Fatalf("record of token %d at revision %d was refused", token, r.Revision)
	}
}

func peek(tb *table, token int) contract.Answer {
	h, buf := hashOf(token), [contract.MaxPacked]byte{}
	_, a := tb.peek(&h, buf[:], tb.clock.Now())
	return a
}

func TestTableReturnsThePackedRecord(t *testing.T) {
	tb := newTable(1<<20, &fakeClock{})
	for i := range 100 {
		mustAdmit(t, tb, i, testRecord(i, 5))
	}
	buf := make([]byte, contract.MaxPacked)
	for i := range 100 {
		h := hashOf(i)
		n, a := tb.lookup(&h, buf, Instant{})
		if a != contract.Found || !bytes.Equal(buf[:n], testRecord(i, 5).Pack(nil)) {
			t.Fatalf("token %d: answer %d, %q", i, a, buf[:n])
		}
	}
	if got := peek(tb, 1000); got != contract.Miss {
		t.Errorf("absent token: answer %d", got)
	}
	h := hashOf(1)
	if n, a := tb.lookup(&h, buf[:10], Instant{}); n != 0 || a != contract.Miss {
		t.Errorf("a buffer that is too small must miss, got %d %d", n, a)
	}
}

// The first refused millisecond is Record.Expires itself, whether the estimate
// of the wall clock decides or the clock.
func TestTableExpiryIsExact(t *testing.T) {
	clock := &fakeClock{}
	tb := newTable(1<<20, clock)
	now := clock.Now().millis()
	for i, in := range []int64{1, 500, 9_999, 10_001, 60_000} {
		r := testRecord(i, 1)
		r.Expires = now + in
		clock.mono.Store(0)
		mustAdmit(t, tb, i, r)
		clock.mono.Store((in - 1) * 1e6)
		if got := peek(tb, i); got != contract.Found {
			t.Errorf("%d ms: a millisecond before the end: %d", in, got)
		}
		clock.mono.Store(in*1e6 - 1)
		if got := peek(tb, i); got != contract.Found {
			t.Errorf("%d ms: a nanosecond before the end: %d", in, got)
		}
		clock.mono.Store(in * 1e6)
		if got := peek(tb, i); got != contract.Expired {
			t.Errorf("%d ms: at the end: %d", in, got)
		}
	}
}

func TestTableInvalidation(t *testing.T) {
	id := func(s contract.Subject, id string, rev uint64) contract.Invalidation {
		return contract.Invalidation{Subject: s, Plane: testPlane, ID: id, Revision: rev}
	}
	for name, tc := range map[string]struct {
		it   contract.Invalidation
		want contract.Answer
	}{
		"token":               {contract.Invalidation{Subject: contract.SubjectToken, Token: hashOf(1), Revision: 11}, contract.Miss},
		"token, older":        {contract.Invalidation{Subject: contract.SubjectToken, Token: hashOf(1), Revision: 10}, contract.Found},
		"another token":       {contract.Invalidation{Subject: contract.SubjectToken, Token: hashOf(2), Revision: 11}, contract.Found},
		"credential":          {id(contract.SubjectCredential, "credential-1", 11), contract.Miss},
		"credential, older":   {id(contract.SubjectCredential, "credential-1", 10), contract.Found},
		"another credential":  {id(contract.SubjectCredential, "credential-2", 11), contract.Found},
		"consumer":            {id(contract.SubjectConsumer, "consumer-1", 11), contract.Miss},
		"consumer, older":     {id(contract.SubjectConsumer, "consumer-1", 10), contract.Found},
		"consumer id as cred": {id(contract.SubjectCredential, "consumer-1", 11), contract.Found},
	} {
		t.Run(name, func(t *testing.T) {
			tb := newTable(64<<20, &fakeClock{})
			mustAdmit(t, tb, 1, testRecord(1, 10))
			tb.invalidate(&tc.it)
			if got := peek(tb, 1); got != tc.want {
				t.Fatalf("answer %d, want %d", got, tc.want)
			}
			// The same record may not come back, a newer one may.
			h, r := hashOf(1), testRecord(1, 10)
			if got := tb.admit(tb.generation.Load(), &h, r, r.Until, r.Pack(nil), true); got != (tc.want == contract.Found) {
				t.Errorf("late fill admitted: %v", got)
			}
			mustAdmit(t, tb, 1, testRecord(1, 11))
			if got := peek(tb, 1); got != contract.Found {
				t.Errorf("recreated token: answer %d", got)
			}
		})
	}
}

func TestTableNegatives(t *testing.T) {
	clock := &fakeClock{}
	tb := newTable(1<<20, clock)
	h := hashOf(1)
	tb.remember(0, &h, contract.Unknown, 10, time.Second)
	if got := peek(tb, 1); got != contract.Unknown {
		t.Fatalf("remembered as unknown: %d", got)
	}
	clock.add(time.Second)
	if got := peek(tb, 1); got != contract.Miss {
		t.Errorf("after its time: %d", got)
	}
	clock.mono.Store(0)
	tb.remember(0, &h, contract.Unknown, 10, time.Second)
	created := contract.Invalidation{Subject: contract.SubjectToken, Token: h, Revision: 11}
	tb.invalidate(&created)
	if got := peek(tb, 1); got != contract.Miss {
		t.Errorf("after the token was created: %d", got)
	}
	tb.remember(0, &h, contract.Unknown, 10, time.Second) // an answer that was overtaken
	if got := peek(tb, 1); got != contract.Miss {
		t.Errorf("an older unknown was remembered: %d", got)
	}
	other := hashOf(2)
	tb.remember(0, &other, contract.Unknown, 11, time.Second)
	raise(&tb.floors.global, 12)
	if got := peek(tb, 2); got != contract.Miss {
		t.Errorf("below the global floor: %d", got)
	}
}

// Random tokens must not cost a good one its place, and memory stays bounded.
func TestTableBounds(t *testing.T) {
	const limit = 4 << 20
	tb := newTable(limit, &fakeClock{})
	for i := range 1000 {
		mustAdmit(t, tb, i, testRecord(i, 1))
	}
	for i := range 200_000 {
		h := hashOf(1_000_000 + i)
		tb.remember(0, &h, contract.Unknown, 1, time.Hour)
	}
	for i := range 1000 {
		if got := peek(tb, i); got != contract.Found {
			t.Fatalf("token %d was lost to unknown tokens: %d", i, got)
		}
	}
	for i := range 60_000 {
		mustAdmit(t, tb, i, testRecord(i, 1))
	}
	bytes, kept, evicted := int(tb.floors.bytes()), 0, uint64(0)
	for i := range tb.shards {
		s := &tb.shards[i]
		bytes += 8*len(s.slots) + len(s.ring) + len(s.negatives)/negativeWays*negativeSetBytes
		kept += s.used
		evicted += s.evictions.Load()
	}
	if bytes > limit {
		t.Errorf("the table holds %d bytes, more than %d", bytes, limit)
	}
	if kept+int(evicted) != 60_000 || kept < 5_000 {
		t.Errorf("%d kept, %d evicted of 60,000", kept, evicted)
	}
}

// A token in use survives a flood of tokens that are seen once.
func TestTableKeepsWhatIsUsed(t *testing.T) {
	tb := newTable(4<<20, &fakeClock{})
	mustAdmit(t, tb, 0, testRecord(0, 1))
	for i := 1; i < 100_000; i++ {
		mustAdmit(t, tb, i, testRecord(i, 1))
		if got := peek(tb, 0); got != contract.Found {
			t.Fatalf("the used token was lost after %d others", i)
		}
	}
	if got := peek(tb, 1); got != contract.Miss {
		t.Errorf("a token seen once outlived the flood: %d", got)
	}
}

// The oracle keeps no structure at all: what was put, and every invalidation.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := &fakeClock{}
		tb := newTable(1<<20, clock)
		// One tiny shard, so that evictions and wrap-arounds happen all the time.
		for i := range tb.shards {
			tb.shards[i].setLimit(minRing)
		}
		newest := map[int]uint64{}                          // revision of the newest record put
		tokens, creds := map[int]uint64{}, map[int]uint64{} // floors
		consumers, global := map[int]uint64{}, uint64(0)
		unknownAt := map[int]uint64{}
		floor := func(i int) uint64 { return max(tokens[i], creds[i%7], consumers[i%3], global) }
		revision := uint64(1)
		const universe = 400
		byShard := sameShard(universe)
		buf := make([]byte, contract.MaxPacked)
		steps := rapid.IntRange(50, 400).Draw(t, "steps")
		for range steps {
			i := rapid.IntRange(0, universe-1).Draw(t, "token")
			h := byShard[i]
			switch op := rapid.IntRange(0, 9).Draw(t, "op"); op {
			case 0, 1, 2: // a fill, possibly with an old record
				rev := revision - min(revision, rapid.Uint64Range(0, 6).Draw(t, "age"))
				r := testRecord(i, rev)
				r.UserID = string(bytes.Repeat([]byte{'u'}, rapid.IntRange(0, 600).Draw(t, "length")))
				if tb.admit(tb.generation.Load(), &h, r, r.Until, r.Pack(nil), true) {
					if rev < floor(i) {
						t.Fatalf("admitted revision %d below floor %d", rev, floor(i))
					}
					newest[i] = max(newest[i], rev)
				}
			case 3:
				revision++
				tokens[i] = revision
				tb.invalidate(&contract.Invalidation{Subject: contract.SubjectToken, Token: h, Revision: revision})
			case 4:
				revision++
				creds[i%7] = revision
				tb.invalidate(&contract.Invalidation{Subject: contract.SubjectCredential, Plane: testPlane, ID: fmt.Sprintf("credential-%d", i%7), Revision: revision})
			case 5:
				revision++
				consumers[i%3] = revision
				tb.invalidate(&contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: fmt.Sprintf("consumer-%d", i%3), Revision: revision})
			case 6:
				if rapid.IntRange(0, 9).Draw(t, "rare") == 0 {
					revision++
					global = revision
					raise(&tb.floors.global, revision)
				}
			case 7:
				rev := revision - min(revision, rapid.Uint64Range(0, 6).Draw(t, "age"))
				tb.remember(0, &h, contract.Unknown, rev, clock.Now().Mono+time.Second)
				unknownAt[i] = max(unknownAt[i], rev)
			default:
				n, a := tb.peek(&h, buf, clock.Now())
				switch a {
				case contract.Found:
					if newest[i] < floor(i) {
						t.Fatalf("token %d found, newest record %d, floor %d", i, newest[i], floor(i))
					}
					spans, ok := contract.Unpacked(buf[:n])
					id := spans[contract.FieldClientID]
					if want := fmt.Sprintf("client-%d", i); !ok || string(buf[id.Off:id.Off+id.Len]) != want {
						t.Fatalf("token %d returned another record", i)
					}
				case contract.Unknown:
					if unknownAt[i] < max(tokens[i], global) {
						t.Fatalf("token %d unknown at %d, created at %d", i, unknownAt[i], tokens[i])
					}
				case contract.Miss, contract.Unavailable:
				}
			}
			checkShard(t, &tb.shards[byShard[0][0]])
		}
	})
}

// sameShard returns n hashes of one shard.
func sameShard(n int) []contract.Hash {
	out := make([]contract.Hash, n)
	for i := range out {
		out[i] = hashOf(i)
		out[i][0] = 7
	}
	return out
}

// checkShard holds the index and the ring against each other.
func checkShard(t *rapid.T, s *shard) {
	occupied := 0
	for i, v := range s.slots {
		if v == 0 {
			continue
		}
		occupied++
		p := position(v)
		hash := contract.Hash(s.ring[p+offHash : p+headerSize])
		if slot, pos := s.find(&hash); slot != i || pos != p {
			t.Fatalf("slot %d leads to a record that slot %d answers for", i, slot)
		}
	}
	if occupied != s.used {
		t.Fatalf("%d slots are occupied, %d counted", occupied, s.used)
	}
	if s.full < 0 || s.full > len(s.ring) || len(s.ring) > s.maxRing {
		t.Fatalf("ring of %d bytes (at most %d) counts %d", len(s.ring), s.maxRing, s.full)
	}
}

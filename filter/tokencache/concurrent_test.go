package tokencache

import (
	"encoding/binary"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestTableConcurrently runs readers, fills with old and new records, evictions, and
// revocations of tokens, credentials and consumers at once. Once an invalidation has
// returned, no look-up that starts later may find a record below it. Look-ups must also find
// something.
func TestTableConcurrently(t *testing.T) {
	const tokens, owners, rounds = 64, 4, 3000
	tb := newTable(1<<20, &fakeClock{})
	for i := range tb.shards {
		tb.shards[i].setLimit(minRing)
	}
	hashes := sameShard(tokens)
	credential := func(k int) string { return "credential-" + strconv.Itoa(k%owners) }
	consumer := func(k int) string { return "consumer-" + strconv.Itoa(k/owners%owners) }
	var revision atomic.Uint64
	revision.Store(1)
	// Floors whose invalidation has returned, by subject.
	var ofToken [tokens]atomic.Uint64
	var ofCredential, ofConsumer [owners]atomic.Uint64
	floor := func(k int) uint64 {
		return max(ofToken[k].Load(), ofCredential[k%owners].Load(), ofConsumer[k/owners%owners].Load())
	}
	var hits, admitted atomic.Int64
	var invalidated [3]atomic.Int64
	admit := func(k int, at uint64) {
		r := testRecord(k, at)
		r.Credential.ID, r.Consumer.ID = credential(k), consumer(k)
		r.UserID = string(binary.BigEndian.AppendUint64(nil, at))
		if tb.admit(0, &hashes[k], r, 0, r.Pack(nil), true) {
			admitted.Add(1)
		}
	}
	var readers, writers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			buf := make([]byte, contract.MaxPacked)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := i % tokens
				below := floor(k)
				n, a := tb.lookup(&hashes[k], buf, Instant{})
				if a != contract.Found {
					continue
				}
				hits.Add(1)
				spans, ok := contract.Unpacked(buf[:n])
				id := spans[contract.FieldUserID]
				if !ok || id.Len != 8 {
					t.Error("a torn record")
					return
				}
				if got := binary.BigEndian.Uint64(buf[id.Off:]); got < below {
					t.Errorf("found revision %d below the floor %d", got, below)
					return
				}
			}
		})
	}
	invalidate := func(i, k int) {
		at := revision.Add(1)
		inv, done := contract.Invalidation{Subject: contract.SubjectToken, Token: hashes[k]}, &ofToken[k]
		switch i % 16 {
		case 7:
			inv, done = contract.Invalidation{Subject: contract.SubjectCredential, Plane: testPlane, ID: credential(k)}, &ofCredential[k%owners]
		case 15:
			inv, done = contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: consumer(k)}, &ofConsumer[k/owners%owners]
		}
		inv.Revision = at
		tb.invalidate(&inv)
		raise(done, at)
		invalidated[inv.Subject-1].Add(1)
	}
	for w := range 2 {
		writers.Go(func() {
			for i := range rounds {
				k := (i*7 + w) % tokens
				if i%4 == 3 {
					invalidate(i, k)
					continue
				}
				admit(k, revision.Load()-uint64(i%2))
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if h, a := hits.Load(), admitted.Load(); h < rounds || a < rounds {
		t.Errorf("%d hits of %d admitted records: the test says little", h, a)
	}
	for subject := range invalidated {
		if invalidated[subject].Load() == 0 {
			t.Errorf("nothing of subject %d was invalidated", subject+1)
		}
	}
}

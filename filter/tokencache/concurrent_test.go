package tokencache

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// Readers, fills with old and new records, evictions and revocations at once:
// once an invalidation has returned, no look-up that starts later finds a
// record below it.
func TestTableConcurrently(t *testing.T) {
	const tokens, rounds = 64, 3000
	tb := newTable(1<<20, &fakeClock{})
	for i := range tb.shards {
		tb.shards[i].setLimit(minRing)
	}
	hashes := sameShard(tokens)
	var revision atomic.Uint64
	revision.Store(1)
	var applied [tokens]atomic.Uint64 // floors whose invalidation has returned
	var readers, writers sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		readers.Add(1)
		go func() {
			defer readers.Done()
			buf := make([]byte, contract.MaxPacked)
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				k := i % tokens
				floor := applied[k].Load()
				n, a := tb.lookup(&hashes[k], buf, 0)
				if a != contract.Found {
					continue
				}
				spans, ok := contract.Unpacked(buf[:n])
				id := spans[contract.FieldUserID]
				if !ok || id.Len != 8 {
					t.Error("a torn record")
					return
				}
				if got := binary.BigEndian.Uint64(buf[id.Off:]); got < floor {
					t.Errorf("found revision %d below the floor %d", got, floor)
					return
				}
			}
		}()
	}
	for w := range 2 {
		writers.Add(1)
		go func() {
			defer writers.Done()
			for i := range rounds {
				k := (i*7 + w) % tokens
				at := revision.Load()
				if i%3 == 0 {
					at = revision.Add(1)
					tb.invalidate(&contract.Invalidation{Subject: contract.SubjectToken, Token: hashes[k], Revision: at})
					raise(&applied[k], at)
					continue
				}
				r := testRecord(k, at-uint64(i%2))
				r.UserID = string(binary.BigEndian.AppendUint64(nil, r.Revision))
				tb.admit(&hashes[k], r, r.Pack(nil), true)
			}
		}()
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

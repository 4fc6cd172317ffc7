package tokencache

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// leasedCache is a cache without authorities whose lease does not end.
func leasedCache(maxBytes int64) *Cache {
	clock := systemClock{base: time.Now()}
	c := &Cache{clock: clock, table: newTable(maxBytes, clock)}
	c.lease.Store(&lease{end: 1 << 62, apart: clock.Now().apart()})
	c.standing.Store(&standing{trust: testTrust, scopes: testScopes})
	return c
}

func fill(b testing.TB, c *Cache, n int) {
	expires := time.Now().Add(time.Hour).UnixMilli()
	for i := range n {
		r := testRecord(i, 1)
		r.Expires = expires
		mustAdmit(b, c.table, i, r)
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	c := leasedCache(4 << 20)
	fill(t, c, 10)
	unknown, soon := hashOf(100), hashOf(200)
	c.table.remember(0, &unknown, contract.Unknown, 1, time.Hour)
	r := testRecord(200, 1)
	r.Expires = time.Now().Add(5 * time.Second).UnixMilli() // the wall clock decides
	mustAdmit(t, c.table, 200, r)
	buf := make([]byte, contract.MaxPacked)
	for name, tc := range map[string]struct {
		hash contract.Hash
		want contract.Answer
	}{
		"hit": {hashOf(1), contract.Found}, "hit near its end": {soon, contract.Found},
		"negative": {unknown, contract.Unknown}, "miss": {hashOf(300), contract.Miss},
	} {
		got := contract.Unavailable
		if n := testing.AllocsPerRun(1000, func() { _, got = c.Lookup(tc.hash, buf) }); n != 0 || got != tc.want {
			t.Errorf("%s: %v allocations, answer %d", name, n, got)
		}
	}
	c.lease.Store(nil)
	if n := testing.AllocsPerRun(1000, func() { c.Lookup(soon, buf) }); n != 0 {
		t.Errorf("without a lease: %v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{10_000, 1_000_000} {
		c := leasedCache(512 << 20)
		fill(b, c, n)
		for _, tc := range []struct {
			name   string
			offset int
			want   contract.Answer
		}{{"hit", 0, contract.Found}, {"miss", 1 << 40, contract.Miss}} {
			hashes := make([]contract.Hash, min(n, 1<<16))
			for i := range hashes {
				hashes[i] = hashOf((i*7919)%n + tc.offset)
			}
			b.Run(fmt.Sprintf("%s/%d", tc.name, n), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					buf := make([]byte, contract.MaxPacked)
					for i := 0; pb.Next(); i++ {
						if _, a := c.Lookup(hashes[i%len(hashes)], buf); a != tc.want {
							b.Errorf("answer %d", a)
							return
						}
					}
				})
			})
		}
	}
}

// BenchmarkInvalidateConsumer is O(1), however many tokens the consumer has.
func BenchmarkInvalidateConsumer(b *testing.B) {
	c := leasedCache(64 << 20)
	fill(b, c, 100_000)
	it := contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: "consumer-1"}
	b.ReportAllocs()
	for b.Loop() {
		it.Revision++
		c.table.invalidate(&it)
	}
}

// BenchmarkGarbageCollection is one collection with a million tokens in L1.
func BenchmarkGarbageCollection(b *testing.B) {
	for _, n := range []int{0, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := leasedCache(512 << 20)
			fill(b, c, n)
			runtime.GC()
			for b.Loop() {
				runtime.GC()
			}
			runtime.KeepAlive(c)
		})
	}
}

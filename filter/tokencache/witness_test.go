package tokencache

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// holds is what readers of a page ask; see holds in filter/dynamicmodule/repeat.c.
func (p *Proof) holds(now Instant) bool {
	if p.Page == nil {
		return false
	}
	apart := time.Duration(p.Page.Apart.Load())
	if int64(now.Mono) >= p.Page.LeaseEnd.Load() || now.apart()-apart > contract.ClockTolerance || apart-now.apart() > contract.ClockTolerance {
		return false
	}
	if p.End != 0 && now.millis() >= p.End {
		return false
	}
	for i := range p.Slots {
		if p.Page.Slots[p.Slots[i]].Load() != p.Counts[i] {
			return false
		}
	}
	return p.Page.Generation.Load() == p.Generation
}

// witnessed is a cache with a page and a lease.
func witnessed(t *testing.T) *Cache {
	t.Helper()
	c := leasedCache(4 << 20)
	c.witness = newWitness(c.clock)
	c.table.witness = c.witness
	t.Cleanup(c.witness.close)
	fill(t, c, 10)
	c.setLease(newLease(c.clock.Now()))
	return c
}

// system is the clock that pages tell the time by.
func (c *Cache) system() Instant {
	now := c.clock.Now()
	now.Mono += c.witness.ahead
	return now
}

// TestWhatEndsAProof: a proof holds for its token, until something happens to it.
func TestWhatEndsAProof(t *testing.T) {
	r := testRecord(1, 1)
	for name, happens := range map[string]func(c *Cache){
		"its token is revoked": func(c *Cache) {
			c.table.invalidate(&contract.Invalidation{Subject: contract.SubjectToken, Token: hashOf(1), Revision: 9})
		},
		"its credential is revoked": func(c *Cache) {
			c.table.invalidate(&contract.Invalidation{Subject: contract.SubjectCredential, Plane: testPlane, ID: r.Credential.ID, Revision: 9})
		},
		"its consumer is revoked": func(c *Cache) {
			c.table.invalidate(&contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: r.Consumer.ID, Revision: 9})
		},
		"the memory begins anew":       func(c *Cache) { c.table.restart() },
		"other scopes count":           func(c *Cache) { c.rescope(testScopes) },
		"the memory gets other bounds": func(c *Cache) { c.table.resize(1 << 20) },
		"the lease is given up":        func(c *Cache) { c.setLease(nil) },
		"the cache is closed":          func(c *Cache) { c.setLease(nil); c.witness.outdated() },
	} {
		t.Run(name, func(t *testing.T) {
			c := witnessed(t)
			p, ok := c.Prove(hashOf(1))
			other, ok2 := c.Prove(hashOf(2))
			if !ok || !ok2 || !p.holds(c.system()) || !other.holds(c.system()) {
				t.Fatal("nothing is proven")
			}
			c.table.invalidate(&contract.Invalidation{Subject: contract.SubjectToken, Token: hashOf(3), Revision: 9})
			c.table.invalidate(&contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: "another", Revision: 9})
			if !p.holds(c.system()) {
				t.Error("it ends with another token")
			}
			happens(c)
			if p.holds(c.system()) {
				t.Error("it goes on")
			}
		})
	}
	t.Run("time", func(t *testing.T) {
		c := witnessed(t)
		p, _ := c.Prove(hashOf(1))
		for name, later := range map[string]func(*Instant){
			"the end of the token": func(i *Instant) {
				i.Wall = p.End * int64(time.Millisecond)
				i.Mono += time.Duration(i.Wall - c.clock.Now().Wall)
			},
			"the end of the lease": func(i *Instant) { i.Mono += leaseSpan; i.Wall += int64(leaseSpan) },
			"a sleep of the host":  func(i *Instant) { i.Wall += int64(time.Second) },
			"a clock that steps":   func(i *Instant) { i.Wall -= int64(time.Second) },
		} {
			now := c.system()
			if later(&now); p.holds(now) {
				t.Errorf("it survives %s", name)
			}
		}
	})
}

// TestNothingIsProvenWithoutARecord: unknown, revoked and expired tokens, and any token
// without a lease.
func TestNothingIsProvenWithoutARecord(t *testing.T) {
	c := witnessed(t)
	c.table.invalidate(&contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: testRecord(1, 1).Consumer.ID, Revision: 9})
	r := testRecord(20, 1)
	r.Expires = time.Now().Add(-time.Second).UnixMilli()
	mustAdmit(t, c.table, 20, r)
	for name, i := range map[string]int{"unknown": 99, "revoked": 1, "expired": 20} {
		if _, ok := c.Prove(hashOf(i)); ok {
			t.Errorf("%s: proven", name)
		}
	}
	if _, ok := c.Prove(hashOf(2)); !ok {
		t.Error("a good one is not proven")
	}
	c.setLease(nil)
	if _, ok := c.Prove(hashOf(2)); ok {
		t.Error("proven without a lease")
	}
}

// TestProofsAreNotCounted: what proves a verdict finds what a look-up finds, and leaves the
// counters to the request that was decided.
func TestProofsAreNotCounted(t *testing.T) {
	c := witnessed(t)
	var buf, again [contract.MaxPacked]byte
	for range 3 {
		n, answer := c.Lookup(hashOf(1), buf[:])
		if _, ok := c.Prove(hashOf(1)); !ok {
			t.Fatal("nothing is proven")
		}
		m, same := c.Peek(hashOf(1), again[:])
		if answer != contract.Found || same != answer || !bytes.Equal(buf[:n], again[:m]) {
			t.Errorf("%d: % x, then %d: % x", answer, buf[:n], same, again[:m])
		}
	}
	c.Peek(hashOf(99), again[:])
	c.setLease(nil)
	if _, answer := c.Peek(hashOf(1), again[:]); answer != contract.Miss {
		t.Errorf("without a lease: %d", answer)
	}
	hits, misses, bypassed := uint64(0), uint64(0), c.counters.bypassed.Load()
	for i := range c.table.shards {
		hits += c.table.shards[i].hits.Load()
		misses += c.table.shards[i].misses.Load()
	}
	if hits != 3 || misses != 0 || bypassed != 0 {
		t.Errorf("three look-ups count as %d hits, %d misses and %d without a lease", hits, misses, bypassed)
	}
}

// TestPagesGoOn: the next cache with a page keeps nothing alive of the one before.
func TestPagesGoOn(t *testing.T) {
	c := witnessed(t)
	p, ok := c.Prove(hashOf(1))
	if !ok {
		t.Fatal("nothing is proven")
	}
	c.setLease(nil)
	c.witness.close()
	for range 3 {
		next := leasedCache(1 << 20)
		next.witness = newWitness(next.clock)
		next.setLease(newLease(next.clock.Now()))
		t.Cleanup(next.witness.close)
		if p.holds(next.system()) {
			t.Error("a proof of a cache that is closed holds")
		}
	}
	c.witness.page = newPage() // what is closed once more is not given to two
}

// TestProofsConcurrently: once an invalidation has returned, no proof holds of a record
// from before it.
func TestProofsConcurrently(t *testing.T) {
	c := witnessed(t)
	var revision, acknowledged atomic.Uint64
	revision.Store(1)
	acknowledged.Store(1)
	hash := hashOf(1)
	var workers sync.WaitGroup
	var held atomic.Int64
	stop := make(chan struct{})
	for range 3 {
		workers.Go(func() {
			var p Proof
			var of uint64
			for {
				select {
				case <-stop:
					return
				default:
				}
				since := acknowledged.Load()
				if p.holds(c.system()) {
					if held.Add(1); of < since {
						t.Errorf("a proof of revision %d holds after %d", of, since)
						return
					}
					continue
				}
				if before, ok := c.Prove(hash); ok {
					if after, ok := c.Prove(hash); ok && before == after {
						p, of = after, after.Revision
					}
				}
			}
		})
	}
	for i := range 3000 {
		at := revision.Add(1)
		it := contract.Invalidation{Subject: contract.SubjectToken, Token: hash, Revision: at}
		switch r := testRecord(1, at); i % 3 {
		case 1:
			it = contract.Invalidation{Subject: contract.SubjectCredential, Plane: testPlane, ID: r.Credential.ID, Revision: at}
		case 2:
			it = contract.Invalidation{Subject: contract.SubjectConsumer, Plane: testPlane, ID: r.Consumer.ID, Revision: at}
		}
		c.table.invalidate(&it)
		acknowledged.Store(at)
		r := testRecord(1, at)
		c.table.admit(c.table.generation.Load(), &hash, r, 0, r.Pack(nil), true)
	}
	defer workers.Wait()
	defer close(stop)
	soon(t, "a proof holds", func() bool { return held.Load() > 0 || t.Failed() })
}

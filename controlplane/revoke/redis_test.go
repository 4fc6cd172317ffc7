package revoke

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

func client(t *testing.T, addr string) redis.UniversalClient {
	t.Helper()
	c, err := Open(contract.RedisSettings{URL: "redis://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// until waits for a state that another goroutine brings about.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(inTime)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("not in time: %s", what)
		}
	}
}

func entryOf(t *testing.T, c redis.UniversalClient, token string) contract.Entry {
	t.Helper()
	data, err := c.Get(context.Background(), contract.RedisRecordKey(scope, contract.HashToken([]byte(token)))).Bytes()
	if err != nil {
		return contract.Entry{}
	}
	e, err := contract.ParseEntry(data)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Redis dies while a filter is linked: the revocation is confirmed once the filter does
// without Redis. While the filter is out of reach, the revocation is not confirmed until
// the filter is back.
func TestDeadRedis(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	w := newWorld(t, client(t, m.Addr()))
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	first, second := w.mint("a", false), w.mint("b", false)
	f, wel := w.connect("i")
	f.lease()
	if wel.Trust.Epoch == 0 {
		t.Fatalf("%+v", wel)
	}
	m.Close()
	done := async(func() error { return w.delete(first) })
	f.ack(f.invalidated().To)
	change := f.trusted()
	if change.Trust.Epoch != 0 {
		t.Fatalf("%+v", change)
	}
	f.ack(change.At)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f.conn.Close()
	until(t, "unlinked", func() bool { return w.r.Stats().Links == 0 })
	if err := w.delete(second); err != nil {
		t.Fatalf("a filter that reads no Redis need not be reached: %v", err)
	}
	if err := m.Restart(); err != nil {
		t.Fatal(err)
	}
	until(t, "trusted again", func() bool { s := w.r.Stats(); return s.RedisUp && s.Trusted })
}

func TestRealRedisRestartsEmptyAndStops(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := client(t, s.Address())
	w := newWorld(t, c)
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	gone, second := w.mint("a", false), w.mint("b", false)
	if err := w.delete(gone); err != nil {
		t.Fatal(err)
	}
	trust := w.trust()
	s.Restart(t)
	until(t, "another epoch, of another server", func() bool {
		now := w.trust()
		return w.r.Stats().RedisUp && now.Epoch != 0 && now.Epoch != trust.Epoch && len(now.Servers) == 1 && now.Servers[0] != trust.Servers[0]
	})
	if e := entryOf(t, c, "a"); e.Revoked == 0 {
		t.Error("the tombstone was not replayed")
	}
	if d := c.PTTL(context.Background(), contract.RedisRecordKey(scope, contract.HashToken([]byte("a")))).Val(); d < time.Hour {
		t.Errorf("tombstone lives %v", d)
	}
	s.Freeze(t)
	if err := w.delete(second); err != nil { // no filter is known, so none can read it
		t.Error(err)
	}
	s.Thaw(t)
	until(t, "redis up again", func() bool { return w.r.Stats().RedisUp })
	if e := entryOf(t, c, "b"); e.Revoked == 0 {
		t.Error("the missed tombstone was not replayed")
	}
}

// Another database of the same server counts as another server: a filter that is away still
// reads the former database, which is no longer written to.
func TestAnotherDatabaseIsAnotherServer(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Address()
	w := newWorld(t, client(t, addr+"/0"))
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	name := w.mint("a", false)
	f, _ := w.connect("i")
	f.conn.Close()
	until(t, "unlinked", func() bool { return w.r.Stats().Links == 0 })
	w.close(w.r)
	w.open(client(t, addr+"/1"))
	w.begun(time.Now().Add(-contract.Lease))
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	unavailable(t, w.delete(name))
}

// The next write notices that Redis was emptied just before it. Otherwise the records in
// use would not be written again.
func TestEmptiedRedisIsNoticedByTheNextWrite(t *testing.T) {
	t.Parallel()
	c := client(t, redistest.Start(t).Address())
	w := newWorld(t, c)
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	name, was := w.mint("a", false), w.trust()
	w.r.turn.Lock() // both happen in the same moment
	done := async(func() error { return w.delete(name) })
	if err := c.FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	w.r.turn.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	until(t, "another epoch", func() bool {
		now := w.trust()
		return w.r.Stats().RedisUp && now.Epoch != 0 && now.Epoch != was.Epoch
	})
	if e := entryOf(t, c, "a"); e.Revoked == 0 {
		t.Error("the tombstone is not there")
	}
}

// TestRefillNeverBlocks: Refill returns even if writing is blocked for longer than the test
// lasts and the queue is full. What waits then is bounded.
func TestRefillNeverBlocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, client(t, miniredis.RunT(t).Addr()))
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	w.r.turn.Lock()
	const more = 100
	done := async(func() error {
		for i := range refillQueue + refillBatch + maxOwed + more {
			w.r.Refill(scope, contract.HashToken([]byte(fmt.Sprint(i))))
			w.r.Refill(scope, contract.HashToken([]byte(fmt.Sprint(i)))) // again
		}
		return nil
	})
	var returned atomic.Bool
	go func() { <-done; returned.Store(true) }()
	until(t, "refills returned", returned.Load)
	w.r.keeper.mu.Lock()
	if owed := len(w.r.keeper.owed); owed > maxOwed || owed < maxOwed-contract.MaxInUse {
		t.Errorf("%d refills are owed", owed)
	}
	w.r.keeper.mu.Unlock()
	w.r.turn.Unlock()
	if s := w.r.Stats(); s.RefillsDropped < more {
		t.Errorf("%d refills dropped", s.RefillsDropped)
	}
}

func TestSameClockKeepsEpoch(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	w := newWorld(t, client(t, m.Addr()))
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	if err := w.delete(w.mint("a", false)); err != nil {
		t.Fatal(err)
	}
	was := w.trust()
	w.close(w.r)
	w.open(client(t, m.Addr()))
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	if got := w.trust(); got.Epoch != was.Epoch {
		t.Errorf("epoch %d became %d", was.Epoch, got.Epoch)
	}
}

// trust returns what filters are told now.
func (w *world) trust() contract.Trust {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	return w.r.trust
}

// A batch of many revocations is no failure of a Redis that carries out each part of it in
// time: it stays in order and is believed. One that takes too long for the whole batch is
// done without, so that connected filters hear of the revocations.
func TestBatchOfManyIsNoFailureOfRedis(t *testing.T) {
	for name, tc := range map[string]struct {
		pause time.Duration
		fails bool
	}{"each part is in time": {redisTimeout * 3 / 5, false}, "the whole takes too long": {redisTimeout * 9 / 10, true}} {
		t.Run(name, func(t *testing.T) {
			virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
				const many = 5 * pipelineSize
				names := make([]string, many)
				w.must(func(tx store.Tx) error {
					for i := range names {
						names[i] = fmt.Sprint("app", i)
						if _, err := tx.Create(&model.Resource{Kind: gateway.Applications, Scope: scope, Name: names[i], Spec: &gateway.Application{
							Consumer: w.owner, ClientID: names[i], ClientSecret: names[i]}}); err != nil {
							return err
						}
					}
					return nil
				})
				w.settles(t)
				before := w.trust()
				redis.mu.Lock()
				redis.pause = tc.pause
				redis.mu.Unlock()
				err := w.write(func(tx store.Tx) error {
					for _, name := range names {
						if err := tx.Delete(gateway.Applications, scope, name, 0); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil { // no filter is known
					t.Error(err)
				}
				redis.mu.Lock()
				redis.pause = 0
				redis.mu.Unlock()
				if failed := w.trust().Epoch != before.Epoch; failed != tc.fails {
					t.Errorf("believed before: %+v, and then %+v", before, w.trust())
				}
				w.settles(t)
				for _, name := range names {
					if f := redis.floor(t, contract.RedisCredentialKey(scope, name)); f != int(w.store.Revision()) {
						t.Fatalf("the floor of %s is %d at revision %d", name, f, w.store.Revision())
					}
				}
			})
		})
	}
}

package revoke

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
)

// A filter is remembered for as long as it may believe Redis, counted from its last link
// and not from when that was last stored. Control planes that end one after another, each
// before it stores which filters are linked, do not make a filter look older.
func TestFilterIsRememberedFromItsLastLink(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		token := w.mint("a", false)
		f, _ := w.pipe("node", contract.Hello{Instance: "i"})
		f.cut()
		w.settles(t)
		time.Sleep(contract.RememberFilter/2 - time.Hour)
		w.crash()
		w.open(nil)
		f, _ = w.pipe("node", contract.Hello{Instance: "i"})
		f.ack(f.trusted().At)
		for range (rememberEvery - time.Minute) / time.Second {
			f.lease()
			time.Sleep(time.Second)
		}
		w.crash()
		redis.be(gone)
		w.open(nil)
		time.Sleep(contract.TrustFor - time.Minute)
		_, err := took(t, async(func() error { return w.delete(token) }))
		says(t, err, "1 of 1 gateways")
	})
}

// A floor lives as long as the records that it guards, even if an older entry of the log
// writes it again. Without their floor the records are not believed.
func TestReplayedFloorOutlivesItsRecords(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		w.must(w.touch(gateway.Applications, w.app))
		time.Sleep(contract.RecordLife - time.Hour)
		w.mint("a", false)
		record := contract.RedisRecordKey(scope, contract.HashToken([]byte("a")))
		w.r.keeper.fail()
		w.settles(t)
		redis.mu.Lock()
		defer redis.mu.Unlock()
		until, floor := redis.expiries[record], redis.expiries[contract.RedisCredentialKey(scope, w.app)]
		if until == 0 || floor < until {
			t.Errorf("the floor goes %v before the record", time.Duration(until-floor)*time.Millisecond)
		}
	})
}

// Entries that leave a full log before they were written to Redis do not count as written,
// whenever that happens.
func TestLogLosesWhatWasNotWritten(t *testing.T) {
	virtually(t, nil, func(t *testing.T, w *world, redis *scripted) {
		name := w.mint("a", false)
		w.settles(t)
		was := w.trust()
		redis.be(gone)
		if err := w.delete(name); err != nil {
			t.Fatal(err)
		}
		redis.be(fine)
		k := w.r.keeper
		if err := k.decide(context.Background(), k.stored.Servers); err != nil {
			t.Fatal(err)
		}
		w.r.mu.Lock()
		h := w.r.history
		h.entries, h.lost, h.dropped = nil, h.at, h.at
		w.r.mu.Unlock()
		// The keeper tries again.
		if err := k.restore(context.Background()); k.isReady() || !errors.Is(err, errLost) {
			t.Errorf("Redis is in order, or another thing is wrong with it: %v", err)
		}
		w.settles(t)
		if now := w.trust(); now.Epoch == was.Epoch && redis.entry(t, "a").Revoked == 0 {
			t.Error("filters believe a Redis that lacks a revocation")
		}
	})
}

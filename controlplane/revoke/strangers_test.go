package revoke

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/revoke/embedded"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/tokencache"
	"github.com/meshgate/meshgate/xds/alarm"
)

// busySource takes a while to find that a token is unknown. That keeps all turns for questions
// taken, and not the machine: what the filter waits for has a time that tests cannot change.
type busySource struct{ Source }

// Record implements [Source].
func (b busySource) Record(ctx context.Context, scope string, hash contract.Hash) (*contract.Record, contract.Answer, uint64, error) {
	rec, answer, revision, err := b.Source.Record(ctx, scope, hash)
	if rec == nil && err == nil {
		err = alarm.Rest(ctx, 200*time.Millisecond)
	}
	return rec, answer, revision, err
}

// Strangers send random tokens from one address to a real filter with its real control
// plane and the real embedded cache. All valid tokens of another client that the filter
// does not hold yet are found, those in the cache are found there, and no answer fails.
func TestStrangersStarveNobody(t *testing.T) {
	e, err := embedded.Start(embedded.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	c, err := Open(contract.RedisSettings{URL: e.URL()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	w := &world{t: t, tracker: e, nodeRedis: e.NodeURL(), checks: func(Node) bool { return true }}
	w.tweak = func(o *Options) { o.Source = busySource{o.Source} }
	w.patience = time.Minute // so that a busy machine does not look like a cache that does not answer
	w.init(c)
	until(t, "redis up", func() bool { return w.r.Stats().RedisUp })
	const good = 100
	for i := range good {
		w.mint(fmt.Sprint("good-", i), false)
	}
	for i := range good / 2 { // the others are not in the cache, and the control plane is asked
		token := fmt.Sprint("good-", i)
		w.r.Refill(scope, contract.HashToken([]byte(token)))
		until(t, "record of "+token, func() bool { return entryOf(t, c, token).Record != nil })
	}
	filter := w.realFilter()
	ask := func(from tokencache.Asker, token string) contract.Answer {
		answer := make(chan contract.Answer, 1)
		filter.ResolveFor(from, contract.HashToken([]byte(token)), "plugin", func(a contract.Answer, _ []byte) { answer <- a })
		return <-answer
	}
	stop := make(chan struct{})
	var crowd sync.WaitGroup
	var sent, accepted atomic.Int64
	for n := range 128 {
		crowd.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if ask(tokencache.Asker{Address: 1, Connection: uint64(n)}, rand.Text()) == contract.Found {
					accepted.Add(1)
				}
				sent.Add(1)
			}
		})
	}
	until(t, "a crowd", func() bool { return sent.Load() > 128 })
	for i := range good {
		if a := ask(tokencache.Asker{Address: 2}, fmt.Sprint("good-", i)); a != contract.Found {
			t.Errorf("good token %d: answer %d", i, a)
		}
	}
	close(stop)
	crowd.Wait()
	s := filter.Stats()
	t.Logf("%d random tokens, %d hits of Redis, %d errors of Redis, %d introspections, %d rejected", sent.Load(), s.L2Hits, s.L2Errors, s.Introspections, s.Rejected)
	if s.L2Hits < good/2 || s.L2Skipped != 0 || s.L2Errors != 0 {
		t.Errorf("of %d tokens that Redis has %d were found there; it failed %d times and was left alone %d times", good/2, s.L2Hits, s.L2Errors, s.L2Skipped)
	}
	if accepted.Load() != 0 {
		t.Errorf("%d random tokens accepted", accepted.Load())
	}
	until(t, "the embedded cache answers the filter", func() bool {
		ask(tokencache.Asker{}, rand.Text())
		return !filter.Stats().BreakerOpen
	})
}

package tokencache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

// TestFailuresTogetherAreOne: overlapping look-ups that fail count as one failure. The
// breaker opens after three failures in a row.
func TestFailuresTogetherAreOne(t *testing.T) {
	inWorld(t, worldConfig{static: true}, func(w *world) {
		w.store.fail = errors.New("i/o timeout")
		w.store.reading = func(string) { time.Sleep(50 * time.Millisecond) }
		for round := 1; round <= breakerFailures; round++ {
			for i := range maxLookups {
				w.cache.Resolve(hashOf(round*1000+i), testPlugin, func(contract.Answer, []byte) {})
			}
			w.advance(60 * time.Millisecond)
			synctest.Wait()
			if open := w.cache.Stats().BreakerOpen; open != (round == breakerFailures) {
				t.Errorf("after %d rounds: open %v", round, open)
			}
		}
	})
}

// TestProbesAreWaitedFor: when a control plane goes away while Redis, which is well again, is still
// left alone, no look-up is refused because another one finds that out. If Redis is silent, they
// are refused together.
func TestProbesAreWaitedFor(t *testing.T) {
	for name, cluster := range map[string]bool{"one server": false, "a server of a cluster": true} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, worldConfig{static: true, cluster: cluster}, func(w *world) {
				const tokens = 8
				for i := range tokens {
					w.store.putRecord(t, i, testRecord(i, 5))
				}
				all := func() (answers []contract.Answer) {
					got := make(chan contract.Answer, tokens)
					for i := range tokens {
						w.cache.Resolve(hashOf(i), testPlugin, func(a contract.Answer, _ []byte) { got <- a })
					}
					for range tokens {
						answers = append(answers, <-got)
					}
					return answers
				}
				w.store.fail = errUnreachable
				for range breakerFailures {
					w.want("silence", w.resolve(1), contract.Unavailable)
				}
				w.store.reading = func(string) { time.Sleep(10 * time.Millisecond) }
				w.advance(breakerProbe)
				before, began := w.cache.Stats(), time.Now()
				for _, a := range all() {
					w.want("silence for all", a, contract.Unavailable)
				}
				if took, tried := time.Since(began), w.cache.Stats().L2Errors-before.L2Errors; took != 10*time.Millisecond || tried != 1 {
					t.Errorf("%d probes of a silent server, in %v", tried, took)
				}
				w.store.fail = nil
				w.advance(breakerProbe)
				for _, a := range all() {
					w.want("it is well again", a, contract.Found)
				}
			})
		})
	}
}

// logbook collects log messages.
type logbook struct {
	mu   sync.Mutex
	said []string
}

func (m *logbook) add(message string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, message)
}

// count returns how many messages begin like this.
func (m *logbook) count(beginning string) (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range m.said {
		if strings.HasPrefix(message, beginning) {
			n++
		}
	}
	return n
}

// TestStrangersAreNotSilent: a server that answers but is not vouched for is left alone like
// a silent one, but it is not logged as silent. Because it answers, there is no grace, even
// while it is not asked.
func TestStrangersAreNotSilent(t *testing.T) {
	for name, cluster := range map[string]bool{"one server": false, "a server of a cluster": true} {
		t.Run(name, func(t *testing.T) { testStrangers(t, cluster) })
	}
}

func testStrangers(t *testing.T, cluster bool) {
	const silent, strange, read = "redis does not answer", "redis answers, and is not read", "redis is read again"
	var log logbook
	inWorld(t, worldConfig{cluster: cluster, cache: contract.CacheSettings{Grace: 10_000}, logged: log.add}, func(w *world) {
		w.control.introspect = func(*contract.Introspect) *contract.Result { return found(1, 5) }
		l := w.live()
		w.want("look-up", w.resolve(1), contract.Found)
		w.control.down.Store(true)
		_ = l.conn.Close()
		w.advance(contract.Lease)
		logged := func(when string, silences, strangers, reads int) {
			t.Helper()
			if a, b, c := log.count(silent), log.count(strange), log.count(read); a != silences || b != strangers || c != reads {
				t.Errorf("%s: logged %d silences, %d strangers, %d that it is read again", when, a, b, c)
			}
		}
		before := w.cache.Stats()
		w.store.fail = fmt.Errorf("read redis: %w", redisconn.ErrNotVouched)
		for range breakerFailures + 1 {
			w.want("a stranger", w.resolve(1), contract.Unavailable)
		}
		s := w.cache.Stats()
		if !s.BreakerOpen || s.L2Untrusted-before.L2Untrusted != breakerFailures || s.L2Skipped-before.L2Skipped != 1 || s.L2Errors != before.L2Errors || s.StaleServed != 0 {
			t.Errorf("%+v", s)
		}
		logged("a stranger", 0, 1, 0)

		w.store.fail = errUnreachable
		w.advance(breakerProbe)
		w.want("silence", w.resolve(1), contract.Found)
		w.want("silence that is known", w.resolve(1), contract.Found)
		logged("left alone already", 0, 1, 0)

		w.store.fail = nil
		w.advance(breakerProbe)
		w.want("it answers without a record", w.resolve(1), contract.Unavailable)
		logged("read again", 0, 1, 1)

		w.store.fail = errUnreachable
		for range breakerFailures {
			w.want("silence", w.resolve(1), contract.Found)
		}
		logged("silence", 1, 1, 1)
		w.store.fail = redisconn.ErrNotVouched
		for range 2 {
			w.advance(breakerProbe)
			w.want("a stranger after it", w.resolve(1), contract.Unavailable)
		}
		logged("a stranger after silence", 1, 2, 1)
	})
}

// TestLookUpsThatSayNothing: a look-up that panicked or whose caller has gone says nothing
// about a server of a cluster. Its probe passes to another look-up.
func TestLookUpsThatSayNothing(t *testing.T) {
	inWorld(t, worldConfig{static: true, cluster: true}, func(w *world) {
		w.store.putRecord(t, 1, testRecord(1, 5))
		w.store.fail = errUnreachable
		for range breakerFailures {
			w.want("silence", w.resolve(1), contract.Unavailable)
		}
		w.store.reading = func(string) { panic("store") }
		for range 2 * maxProbes {
			w.advance(breakerProbe)
			w.want("panic", w.resolve(1), contract.Unavailable)
		}
		nodes := w.cache.config.Load().l2.nodes
		if nodes.probes != 0 || !nodes.isOpen() {
			t.Errorf("%d probes are open, and the server is left alone: %t", nodes.probes, nodes.isOpen())
		}
		w.store.reading, w.store.fail = nil, nil
		w.advance(breakerProbe)
		w.want("it answers", w.resolve(1), contract.Found)

		ctx, gone := context.WithCancel(w.t.Context())
		w.store.reading = func(string) { gone() }
		w.store.fail = errUnreachable
		for range breakerFailures {
			if _, outcome := w.cache.readL2(ctx, w.cache.config.Load(), &standing{}, hashOf(1), unhurried{w.cache}); outcome != l2Failed {
				t.Errorf("a look-up that nobody waits for came to %d", outcome)
			}
		}
		if nodes.isOpen() {
			t.Error("a server is left alone for look-ups that were given up")
		}
	})
}

// TestProbesAreWaitedForInTheLastLease: a lease, or grace after it, answers only for tokens that L1
// has. Look-ups of others wait for the probe as without a lease.
func TestProbesAreWaitedForInTheLastLease(t *testing.T) {
	inWorld(t, worldConfig{cache: contract.CacheSettings{Grace: 10_000}}, func(w *world) {
		const tokens = 8
		for i := range tokens {
			w.store.putRecord(t, i, testRecord(i, 5))
		}
		w.store.putClock(0)
		l := w.live()
		w.control.introspect = func(*contract.Introspect) *contract.Result { return &contract.Result{Answer: contract.Unavailable} }
		w.store.fail = errUnreachable
		for range breakerFailures {
			w.want("silence", w.resolve(1), contract.Unavailable)
		}
		w.store.fail = nil
		w.store.reading = func(string) { time.Sleep(10 * time.Millisecond) }
		w.advance(breakerProbe)
		w.control.down.Store(true)
		_ = l.conn.Close()
		synctest.Wait()
		if s := w.cache.Stats(); !s.Leased || s.Linked || !s.BreakerOpen {
			t.Fatalf("%+v", s)
		}
		got := make(chan contract.Answer, tokens)
		for i := range tokens {
			w.cache.Resolve(hashOf(i), testPlugin, func(a contract.Answer, _ []byte) { got <- a })
		}
		for range tokens {
			w.want("it is well again", <-got, contract.Found)
		}
	})
}

// TestProbesEndWithTheirOwner: a look-up that was allowed before the breaker opened says nothing
// about the probe of another one, whether its time is over or it fails late. What it hears does.
func TestProbesEndWithTheirOwner(t *testing.T) {
	clock := &fakeClock{}
	b := &breaker{clock: clock}
	before, _ := b.allow()
	for range breakerFailures {
		p, _ := b.allow()
		b.report(p, false)
	}
	clock.add(breakerProbe)
	own, ok := b.allow()
	if !ok || own.probe == nil {
		t.Fatal("no probe")
	}
	b.cancel(before)
	b.report(before, false)
	if _, another := b.allow(); another || b.underWay() != own.probe {
		t.Fatal("another look-up has ended the probe")
	}
	b.cancel(own)
	if b.underWay() != nil {
		t.Error("its owner has not ended the probe")
	}
	next, _ := b.allow()
	b.report(before, true)
	if b.isOpen() || b.underWay() != nil {
		t.Error("nobody heard what an older look-up was answered")
	}
	b.cancel(next)
	b.report(next, false)
	if b.isOpen() {
		t.Error("one failure opens it")
	}
}

package tokencache

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/e2e/few"
	"github.com/meshgate/meshgate/filter/contract"
)

// step is one event of a random order: which of ops happens, and to which.
type step struct{ Op, Arg int }

// event is one of any order.
type event struct {
	what func(*model, int)
	arg  int
}

// ops are what may happen. Several of an event make it more frequent.
var ops = []func(*model, int){
	(*model).checkOne, (*model).checkOne, (*model).checkOne, (*model).checkAll, (*model).checkAll,
	(*model).revokeToken, (*model).revokeToken, (*model).revokeToken, (*model).revokeOwner,
	(*model).issue, (*model).issue, (*model).issue,
	(*model).cutLink, (*model).muteLink, (*model).toggleControl,
	(*model).restartControl, (*model).restoreStore, (*model).dropEntries, (*model).saveAll,
	(*model).toggleWritable, (*model).toggleReadable, (*model).rollBack, (*model).flush, (*model).evict,
	(*model).newEpoch, (*model).toggleNames,
	(*model).pass, (*model).pass, (*model).pass, (*model).stepWall,
	(*model).holdReads, (*model).holdAnswers, (*model).restartFilter, (*model).toggleMember, (*model).toggleMember,
	(*model).toggleShared, (*model).toggleShared, (*model).seed, (*model).seed,
}

func (m *model) checkOne(i int) { m.check(i % modelTokens) }
func (m *model) checkAll(int) {
	for i := range modelTokens {
		m.check(i)
	}
}
func (m *model) revokeToken(i int) { m.revoke([]int{i % modelTokens}, modelGone(i%modelTokens, 0)) }
func (m *model) revokeOwner(i int) {
	o := owners(i % modelTokens)[i%2]
	var about []int
	for k := range modelTokens {
		if owners(k)[i%2] == o {
			about = append(about, k)
		}
	}
	m.revoke(about, o)
}

// issue makes a token anew: who remembers it as unknown must hear of it, and no
// record from before is good.
func (m *model) issue(i int) {
	i %= modelTokens
	m.store.revision++
	m.store.valid[i], m.store.tokens[i] = true, m.store.revision
	m.take(sharesValue, i, true)
	m.publish(&publication{of: version{m.lineage, m.store.revision}}, []contract.Invalidation{modelGone(i, m.store.revision)})
	if m.inOrder {
		m.refill(i)
	}
}
func (m *model) cutLink(int) { m.cut() }
func (m *model) muteLink(int) {
	if m.link != nil {
		m.link.mute.Store(true)
	}
}
func (m *model) toggleControl(int) {
	m.w.control.down.Store(!m.w.control.down.Load())
	m.cut()
}

// restartControl starts another release of the control plane, or the same one.
func (m *model) restartControl(i int) {
	m.older = i%3 == 0
	m.begin()
}
func (m *model) restoreStore(int) {
	m.lineage++
	m.store = m.saved.store.clone()
	m.members.left, m.members.of, m.sharing = false, version{}, [len(modelPairs)]modelSharing{}
	m.clock = nil // the store knows that Redis is not its own
	m.begin()
}
func (m *model) dropEntries(int)    { m.kept = m.head() }
func (m *model) saveAll(int)        { m.save() }
func (m *model) toggleWritable(int) { m.writable = !m.writable }
func (m *model) toggleReadable(int) { m.readable = !m.readable }

// rollBack is a Redis that comes back with what it had once, or another one.
func (m *model) rollBack(int) {
	m.server++
	clear(m.redis)
	for k, v := range m.saved.redis {
		m.redis[k] = v
	}
	m.keep(false)
}
func (m *model) flush(int) {
	clear(m.redis)
	m.keep(false)
}
func (m *model) evict(i int) {
	for k := range m.redis {
		if i--; i%4 == 0 {
			delete(m.redis, k)
		}
	}
}
func (m *model) newEpoch(int) {
	if m.inOrder {
		m.inOrder = false
		m.keep(true)
	}
}
func (m *model) toggleNames(int) {
	m.nameless = !m.nameless
	m.newEpoch(0)
}

// pass lets time pass: from a moment to beyond a lease.
func (m *model) pass(i int) {
	d := []time.Duration{10 * time.Millisecond, 200 * time.Millisecond, time.Second, 4 * time.Second}[i%4]
	m.mu.Unlock()
	m.w.advance(d)
	m.mu.Lock()
	m.keep(false) // the control plane looks each second
}
func (m *model) stepWall(i int) {
	m.w.clock.step.Add(int64([]time.Duration{time.Second, -time.Second, 23 * time.Hour, -50 * time.Millisecond}[i%4]))
}

// holdReads keeps what is read in Redis from its readers until the next time.
func (m *model) holdReads(int) {
	if m.gate != nil {
		close(m.gate)
		m.gate = nil
		return
	}
	m.gate = make(chan struct{})
}

// holdAnswers does the same to introspections.
func (m *model) holdAnswers(int) {
	m.holding = !m.holding
	answers := m.answers
	m.answers = nil
	for _, answer := range answers {
		answer()
	}
}

// restartFilter ends the filter, in good order or not, and starts another one,
// which recalls what the first was told unless that said goodbye.
func (m *model) restartFilter(i int) {
	crash := i%2 == 0
	was := m.w.control.down.Swap(true)
	if m.gate != nil {
		m.holdReads(0)
	}
	if crash {
		m.cut()
	}
	m.mu.Unlock()
	synctest.Wait()
	last := m.w.cache.lastLease.Load()
	linked := m.w.cache.Stats().Linked
	stood := m.w.cache.standing.Load()
	m.w.cache.Close()
	m.mu.Lock()
	m.drain()
	m.cut()
	m.open()
	if !linked && last != nil {
		cp := m.w.settings.ControlPlane
		r := &rememberedTrust{Address: cp.Address, Node: cp.Node, Trust: stood.trust, Scopes: stood.scopes, Leased: last.millis()}
		c := m.w.cache
		c.configuring.Lock()
		trust, scopes := c.recalled(r)
		c.rescope(scopes)
		c.entrust(trust)
		c.configuring.Unlock()
	}
	m.w.control.down.Store(was)
}

// settle lets everything happen that needs no time.
func (m *model) settle() {
	for {
		m.mu.Unlock()
		synctest.Wait()
		m.mu.Lock()
		m.drain()
		select {
		case l := <-m.w.control.links:
			m.welcome(l)
			continue
		default:
		}
		m.judge()
		return
	}
}

// repeated is how often proofs were good in all orders.
var repeated atomic.Int64

// run is one order of events; it returns what went wrong, and what was found.
func run(t *testing.T, w *world, order []event) (faults []string, found modelFound) {
	synctest.Test(t, func(t *testing.T) {
		w.t, w.control.t = t, t
		w.control.links = make(chan *fakeLink, 64)
		w.clock = &bubbleClock{base: time.Now()}
		m := newModel(w)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.open()
		m.settle()
		for n, e := range order {
			e.what(m, e.arg)
			m.settle()
			for i, fault := range m.faults {
				m.faults[i] = fmt.Sprintf("after step %d: %s", n, fault)
			}
			if len(m.faults) > 0 {
				break
			}
		}
		w.control.down.Store(true)
		if m.gate != nil {
			m.holdReads(0)
		}
		m.cut()
		m.mu.Unlock()
		w.cache.Close()
		synctest.Wait()
		m.mu.Lock()
		for len(w.control.links) > 0 {
			_ = (<-w.control.links).raw.Close()
		}
		faults, found = m.faults, m.found
		repeated.Add(int64(m.repeated))
	})
	return faults, found
}

// modelWorlds returns what makes worlds for orders, which share their files.
func modelWorlds(t *testing.T) func() *world {
	t.Helper()
	dir := t.TempDir()
	cert, ca := testCertificate(t, dir)
	token := "secret"
	writeFile(t, filepath.Join(dir, "token"), []byte(token))
	return func() *world {
		w := &world{control: &fakeControl{cert: cert}, settings: &contract.Settings{
			Redis: &contract.RedisSettings{URL: "redis://redis"}, RecordKeys: testKeys(testKey),
			Cache:        contract.CacheSettings{MaxBytes: 1 << 16},
			ControlPlane: &contract.ControlPlaneSettings{Address: "localhost:5678", CAFile: ca, TokenFile: filepath.Join(dir, "token"), Node: "cp/default/1"},
		}}
		w.control.token.Store(&token)
		return w
	}
}

// Whatever happens in whatever order, to the links, the control plane, its store,
// Redis, the filter and the members of its group: no look-up finds a token whose
// revocation, or the leaving of whose holder, was confirmed before it began, or of which
// another member was confirmed to have had the same first.
func TestNothingRevokedIsFound(t *testing.T) {
	// An order in virtual time keeps one processor busy, and no more: shares of them are
	// played at the same time.
	const shares = 2
	newWorld := modelWorlds(t)
	orders := 2000
	if testing.Short() {
		orders = 200
	}
	few.Runs(t, orders/shares)
	var found atomic.Int64
	play := func(t *testing.T, rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.IntRange(0, len(ops)-1).Draw(rt, "op"), rapid.IntRange(0, 11).Draw(rt, "arg")}
		}), 10, 40).Draw(rt, "order")
		var order []event
		for _, s := range steps {
			order = append(order, event{ops[s.Op], s.Arg})
		}
		faults, n := run(t, newWorld(), order)
		found.Add(int64(n.all()))
		if len(faults) > 0 {
			rt.Fatal(strings.Join(faults, "\n"))
		}
	}
	t.Run("shares", func(t *testing.T) {
		for i := range shares {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(rt *rapid.T) { play(t, rt) })
			})
		}
	})
	if n := found.Load(); n < int64(orders) {
		t.Errorf("found %d times in %d orders: the test says little", n, orders)
	}
	if n := repeated.Load(); n < int64(orders)/10 {
		t.Errorf("proofs held %d times in %d orders: the test says little", n, orders)
	}
}

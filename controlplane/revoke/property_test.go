package revoke

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// ordersPerCheck is how many orders each example of rapid stands for, in each of the
// shares. Shares run in parallel, because an order in virtual time uses only one processor.
const (
	ordersPerCheck = 10
	shares         = 2
)

// event is one step of an order. A, B and D choose its subject and its duration.
type event struct{ Kind, A, B, D int }

// tried counts what the orders have tried, so that a test that tries nothing fails.
type tried struct{ accepted, refused, confirmed, refusals, orders atomic.Int64 }

// TestNoOldStateIsAccepted: whatever the order of commits, publications, cut links, lost
// acknowledgements, lease ends, failures of Redis and restarts, a filter accepts a token
// only if it was not revoked successfully before the check began.
func TestNoOldStateIsAccepted(t *testing.T) {
	var n tried
	events := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		return event{rapid.IntRange(0, len(happenings)-1).Draw(t, "kind"), rapid.IntRange(0, 5).Draw(t, "a"),
			rapid.IntRange(0, 5).Draw(t, "b"), rapid.IntRange(0, 40).Draw(t, "d")}
	}), 5, 60)
	t.Run("shares", func(t *testing.T) {
		for i := range shares {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(rt *rapid.T) {
					for range ordersPerCheck {
						if failure := inOrder(t, events.Draw(rt, "events"), &n); failure != "" {
							rt.Fatal(failure)
						}
					}
				})
			})
		}
	})
	t.Logf("%d orders: %d checks accepted, %d refused, %d revocations confirmed, %d not",
		n.orders.Load(), n.accepted.Load(), n.refused.Load(), n.confirmed.Load(), n.refusals.Load())
	if n.accepted.Load() == 0 || n.confirmed.Load() == 0 || n.refusals.Load() == 0 {
		t.Error("it says nothing")
	}
}

// play is one order in progress.
type play struct {
	*world
	redis   *scripted
	filters []*modelFilter
	dumps   []map[string][]byte
	calls   sync.WaitGroup
	n       *tried
	links   sync.WaitGroup
	serial  int

	mu sync.Mutex
	// committed is the revision of the newest revocation of each token. sure is the
	// revision of the newest successful one.
	committed, sure map[string]uint64
	failure         string
}

var values = []string{"x", "y", "z"}

// inOrder plays events and returns what went wrong.
func inOrder(t *testing.T, events []event, n *tried) (failure string) {
	n.orders.Add(1)
	synctest.Test(t, func(t *testing.T) {
		redis := newScripted("run-0")
		p := &play{
			world: &world{t: t, virtual: true, remote: redis}, redis: redis, n: n,
			committed: map[string]uint64{}, sure: map[string]uint64{},
		}
		p.init(nil)
		p.source.owner = p.owner
		for i := range 3 {
			m := newModelFilter(fmt.Sprint("node", i), redis)
			m.instance = fmt.Sprintf("%026d.0", i)
			p.filters = append(p.filters, m)
			p.link(m)
		}
		synctest.Wait()
		for _, v := range values {
			p.issue(v)
		}
		for i, e := range events {
			happenings[e.Kind].do(p, e)
			synctest.Wait()
			p.checkAll(e.D%3 == 0)
			if p.failure != "" {
				failure = fmt.Sprintf("%s\nafter %s", p.failure, recounted(events[:i+1]))
				break
			}
		}
		p.end()
	})
	return failure
}

func recounted(events []event) (s string) {
	for _, e := range events {
		s += fmt.Sprintf("\n  %s %d %d %d", happenings[e.Kind].name, e.A, e.B, e.D)
	}
	return s
}

// end lets everything in progress end.
func (p *play) end() {
	p.redis.be(fine)
	for _, m := range p.filters {
		m.stop(false)
		p.cutLink(m)
	}
	p.calls.Wait()
	p.close(p.r)
	p.links.Wait()
}

func (p *play) link(m *modelFilter) {
	p.cutLink(m)
	near, far := net.Pipe()
	r := p.r
	p.links.Go(func() {
		defer far.Close()
		_ = r.newLink(Node{ID: m.node, ControlPlane: scope}, far, bufio.NewReader(far)).serve()
	})
	p.links.Go(func() { m.follow(near) })
}

func (p *play) cutLink(m *modelFilter) {
	m.mu.Lock()
	conn := m.conn
	m.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
	synctest.Wait()
}

// issue creates a token with a given value, unless it exists.
func (p *play) issue(value string) {
	publish, abandon := p.r.Begin()
	c, err := p.commit(func(tx store.Tx) error {
		res, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: uuid.NewSHA1(uuid.Nil, []byte(value)).String(), Spec: &gateway.Token{
			Credential: p.app, AccessToken: value, TokenType: "bearer", ExpiresIn: 7200}})
		if err == nil {
			tx.Announce(res.Key(), store.Created)
		}
		return err
	})
	if err != nil {
		abandon()
		return
	}
	p.calls.Go(func() {
		if err := publish(context.Background(), c); err != nil {
			p.fail("a creation was answered %v", err)
		}
	})
}

// revoke removes the tokens with some values, or finds that they are gone.
func (p *play) revoke(how func(store.Tx) error, of []string, publishLate time.Duration) {
	publish, abandon := p.r.Begin()
	c, err := p.commit(how)
	switch {
	case fault.Is(err, fault.NotFound):
		abandon()
	case err != nil:
		abandon()
		p.fail("commit: %v", err)
		return
	default:
		p.mu.Lock()
		for _, v := range of {
			p.committed[v] = c.Revision
		}
		p.mu.Unlock()
	}
	p.mu.Lock()
	promised := map[string]uint64{}
	for _, v := range of {
		promised[v] = p.committed[v]
	}
	p.mu.Unlock()
	r := p.r
	p.calls.Go(func() {
		begun := time.Now()
		if err == nil {
			time.Sleep(publishLate)
			begun = time.Now()
			err = publish(context.Background(), c)
		} else {
			err = r.Settle(context.Background())
		}
		if d := time.Since(begun); d > patience {
			p.fail("a caller waited for %v", d)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil {
			p.n.refusals.Add(1)
			return
		}
		p.n.confirmed.Add(1)
		for v, revision := range promised {
			p.sure[v] = max(p.sure[v], revision)
		}
	})
}

func (p *play) fail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == "" {
		p.failure = fmt.Sprintf(format, args...)
	}
}

// checkAll asks every filter about every token.
func (p *play) checkAll(introspect bool) {
	for _, m := range p.filters {
		for _, v := range values {
			p.mu.Lock()
			sure := p.sure[v]
			p.mu.Unlock()
			r := m.check(contract.HashToken([]byte(v)), introspect)
			if r == nil {
				p.n.refused.Add(1)
				continue
			}
			p.n.accepted.Add(1)
			if r.Revision < sure {
				p.fail("%s accepts %s by a record of revision %d, epoch %d; it was revoked at %d with success", m.node, v, r.Revision, r.Epoch, sure)
			}
		}
	}
}

// happenings are the possible steps of an order.
var happenings = []struct {
	name string
	do   func(p *play, e event)
}{
	{"issue", func(p *play, e event) { p.issue(values[e.A%len(values)]) }},
	{"revoke", func(p *play, e event) { p.revokeOne(e, 0) }},
	{"revoke, publish late", func(p *play, e event) { p.revokeOne(e, time.Duration(e.D)*20*time.Millisecond) }},
	{"touch the consumer", func(p *play, e event) { p.revoke(p.touch(gateway.Consumers, p.owner), values, 0) }},
	{"touch the application", func(p *play, e event) { p.revoke(p.touch(gateway.Applications, p.app), values, 0) }},
	{"time passes", func(_ *play, e event) { time.Sleep(time.Duration(e.D) * 10 * time.Millisecond) }},
	{"much time passes", func(_ *play, e event) { time.Sleep(time.Duration(e.D) * 200 * time.Millisecond) }},
	{"a link is cut", func(p *play, e event) { p.cutLink(p.filters[e.A%3]) }},
	{"a link is resumed", func(p *play, e event) { p.filters[e.A%3].stop(false); p.link(p.filters[e.A%3]) }},
	{"a link is resumed", func(p *play, e event) { p.filters[e.A%3].stop(false); p.link(p.filters[e.A%3]) }},
	{"a network stops", func(p *play, e event) { p.filters[e.A%3].stop(true) }},
	{"a network goes on", func(p *play, e event) { p.filters[e.A%3].stop(false) }},
	{"acknowledgements are lost", func(p *play, e event) { p.filters[e.A%3].mute(true) }},
	{"acknowledgements arrive", func(p *play, e event) { p.filters[e.A%3].mute(false) }},
	{"a disk stalls", func(p *play, e event) { p.filters[e.A%3].stall(true) }},
	{"a disk goes on", func(p *play, e event) { p.filters[e.A%3].stall(false) }},
	{"a filter is restarted", func(p *play, e event) { p.restartFilter(p.filters[e.A%3], e.B%2 == 0) }},
	{"a filter is succeeded", func(p *play, e event) { p.succeed(p.filters[e.A%3], e.B%2 == 0) }},
	{"redis is fine", func(p *play, _ event) { p.redis.be(fine) }},
	{"redis is fine", func(p *play, _ event) { p.redis.be(fine); p.redis.thaw() }},
	{"redis is bad", func(p *play, e event) { p.redis.be([]mood{gone, full, frozen}[e.A%3]) }},
	{"redis does what was late", func(p *play, _ event) { p.redis.thaw() }},
	{"redis is emptied", func(p *play, _ event) { p.redis.restore(map[string][]byte{}) }},
	{"redis drops a key", func(p *play, e event) { p.redis.evict(e.A*7 + e.D) }},
	{"redis is dumped", func(p *play, _ event) { p.dumps = append(p.dumps, p.redis.snapshot()) }},
	{"redis restarts with a dump", func(p *play, e event) { p.restartRedis(e) }},
	{"the control plane is killed", func(p *play, e event) { p.restartControlPlane(p.crash) }},
	{"the control plane is restarted", func(p *play, e event) { p.restartControlPlane(func() { p.close(p.r) }) }},
}

func (p *play) revokeOne(e event, late time.Duration) {
	v := values[e.A%len(values)]
	p.revoke(p.remove(uuid.NewSHA1(uuid.Nil, []byte(v)).String()), []string{v}, late)
}

func (m *modelFilter) mute(silent bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.silent = silent
}

// restartFilter starts another process with the same disk. If told is set, an agent has
// seen the former process end and reports it to the control plane once the trust on its
// disk is gone.
func (p *play) restartFilter(m *modelFilter, told bool) {
	if ended := p.nextProcess(m, told); told {
		_ = p.r.Ended(Node{ID: m.node}, contract.Ended{Processes: []string{ended}, Gone: true})
	}
}

// succeed starts another process that inherits what the former one believed, and names it
// to the control plane, which may not know it yet.
func (p *play) succeed(m *modelFilter, linked bool) {
	ended := p.nextProcess(m, false)
	if linked {
		p.link(m)
	}
	_ = p.r.Ended(Node{ID: m.node}, contract.Ended{Processes: []string{ended}, Successor: m.instance[:26]})
}

// nextProcess replaces a process that was killed, and returns the name of the killed
// process.
func (p *play) nextProcess(m *modelFilter, clean bool) (ended string) {
	p.cutLink(m)
	m.mu.Lock()
	p.serial++
	ended = m.instance[:26]
	m.instance = fmt.Sprintf("%026d.0", 100+p.serial)
	if clean {
		m.disk = contract.Trust{}
	}
	m.reset()
	m.silent, m.stopped = false, false
	m.mu.Unlock()
	return ended
}

func (p *play) restartRedis(e event) {
	p.redis.mu.Lock()
	p.serial++
	if e.B%2 == 0 { // the former server still runs, and some filters reach it
		p.redis.formers[p.redis.id] = p.redis.values
	}
	p.redis.id, p.redis.late = fmt.Sprint("run-", p.serial), nil
	p.redis.values = map[string][]byte{}
	if len(p.dumps) > 0 {
		p.redis.values = maps.Clone(p.dumps[e.A%len(p.dumps)])
	}
	p.redis.mu.Unlock()
}

// restartControlPlane ends the control plane in some way. Callers of the ended one get no
// answer.
func (p *play) restartControlPlane(end func()) {
	end()
	for _, m := range p.filters {
		p.cutLink(m)
	}
	p.calls.Wait()
	p.open(nil)
	for _, m := range p.filters {
		if !m.stoppedNow() {
			p.link(m)
		}
	}
}

func (m *modelFilter) stoppedNow() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stopped
}

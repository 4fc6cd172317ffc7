package freshness

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/steady/steadytest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/filter/contract"
)

const (
	hosts = 3
	// patience is how long a caller of the control plane waits at most.
	patience = 4 * time.Second
)

// values are those of tokens. The first two belong to one application.
var values = []string{"x", "y", "z"}

func name(kind, of string) string { return uuid.NewSHA1(uuid.Nil, []byte(kind+of)).String() }

// app is the application of a token, owner the consumer of an application.
func app(value string) string {
	if value == "z" {
		return name("app", "1")
	}
	return name("app", "0")
}

func owner(value string) string { return name("owner", app(value)) }

// under lists the tokens that belong to what one of them belongs to.
func under(of func(string) string, value string) (all []string) {
	for _, v := range values {
		if of(v) == of(value) {
			all = append(all, v)
		}
	}
	return all
}

// defects are what a test can plant. The property must find each of them.
type defects struct {
	mangle func(contract.FrameType, []byte) []byte
	// forgets makes Redis confirm what it does not keep, keepsName makes one that
	// has gone back say that it is the same, slowClock halves a filter's clocks.
	// atItsWord makes the control plane forget by the wall clock.
	forgets                         func(value string) bool
	keepsName, slowClock, atItsWord bool
}

// tried counts what orders have tried, so that a test that tries nothing fails.
type tried struct {
	orders, accepted, unknown, unclear  atomic.Int64
	confirmed, refused, settled, killed atomic.Int64
	restarted, planes, servers          atomic.Int64
	needed                              atomic.Int64 // checks that had to accept
}

func (n *tried) String() string {
	return fmt.Sprintf("%d orders: checks %d accepted, %d unknown, %d undecided; revocations %d confirmed (%d of them by Settle), %d not; "+
		"%d kills between commit and publication, %d filters restarted, %d control planes, %d servers of Redis", n.orders.Load(), n.accepted.Load(), n.unknown.Load(), n.unclear.Load(),
		n.confirmed.Load(), n.settled.Load(), n.refused.Load(), n.killed.Load(), n.restarted.Load(), n.planes.Load(), n.servers.Load())
}

// play is one order on the way.
type play struct {
	*site
	seeded   defects
	failover bool
	n        *tried
	clock    *steadytest.Hand
	store    store.Store
	planning time.Duration // how long a control plane needs to plan its nodes
	redis    *redises
	route    *route // of the control plane
	hosts    []*host
	dumps    []map[string]held
	serial   int
	work     sync.WaitGroup // of the network
	calls    sync.WaitGroup // of clients and of those who ask

	mu    sync.Mutex
	plane *plane // nil while there is none
	// committed is the revision of the newest revocation of a token, sure that of
	// the newest that was answered with success.
	committed, sure map[string]uint64
	failure         string
}

// begin starts everything.
func begin(s *site, n *tried, seeded defects, failover bool) *play {
	p := &play{
		site: &site{dir: s.dir, cert: s.cert, ca: s.ca, token: s.token}, seeded: seeded, failover: failover, n: n, clock: &steadytest.Hand{AtItsWord: seeded.atItsWord}, redis: &redises{},
		committed: map[string]uint64{}, sure: map[string]uint64{},
	}
	n.orders.Add(1)
	p.clock.Begin()
	p.store = memstore.Open(memstore.Options{Now: p.clock.Now, Past: p.clock.Past})
	p.redis.current = p.newServer(nil)
	p.route = &route{redis: p.redis}
	p.openPlane()
	for i := range hosts {
		p.hosts = append(p.hosts, p.newHost(i))
	}
	synctest.Wait()
	for _, v := range values {
		p.issue(v)
	}
	synctest.Wait()
	p.checkAll()
	return p
}

func (p *play) newServer(data map[string]held) *server {
	p.n.servers.Add(1)
	p.serial++
	s := newServer(fmt.Sprint("run-", p.serial), data)
	if s.data == nil {
		s.data = map[string]held{}
	}
	s.forgets = p.seeded.forgets
	return s
}

func (p *play) openPlane() {
	p.n.planes.Add(1)
	cp, err := openPlane(p.store, p.clock, p.route, p.planning)
	if err != nil {
		p.fail("the control plane does not start: %v", err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plane = cp
}

// withdraw takes the control plane away from whoever connects; nil if there is none.
func (p *play) withdraw() *plane {
	p.mu.Lock()
	defer p.mu.Unlock()
	cp := p.plane
	p.plane = nil
	return cp
}

func (p *play) fail(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure == "" {
		p.failure = fmt.Sprintf(format, args...)
	}
}

func (p *play) failed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// end lets everything that is under way come to its end.
func (p *play) end(t *testing.T) {
	for _, h := range p.hosts {
		h.thaw()
	}
	if cp := p.withdraw(); cp != nil {
		cp.kill()
	}
	p.calls.Wait()
	for _, h := range p.hosts {
		h.links.cut()
		h.redis.refuse(true)
		h.cache.Close()
	}
	p.redis.end()
	p.work.Wait()
	if err := p.store.Close(); err != nil {
		t.Error(err)
	}
}

// commit is a write up to its publication.
func (p *play) commit(cp *plane, how func(store.Tx) error) (store.Commit, error) {
	return cp.Update(context.Background(), model.Config, func(tx store.Tx) error {
		if err := how(tx); err != nil {
			return err
		}
		return cp.r.Stage(tx)
	})
}

// present creates what is not there.
func present(tx store.Tx, kind *model.Kind, name string, spec any) error {
	_, err := tx.Get(kind, scope, name)
	if fault.Is(err, fault.NotFound) {
		_, err = tx.Create(&model.Resource{Kind: kind, Scope: scope, Name: name, Spec: spec})
	}
	return err
}

// issue creates a token with a given value, unless there is one.
func (p *play) issue(v string) {
	cp := p.plane
	if cp == nil {
		return
	}
	publish, abandon := cp.r.Begin()
	c, err := p.commit(cp, func(tx store.Tx) error {
		if err := present(tx, gateway.Consumers, owner(v), &gateway.Consumer{Username: owner(v)}); err != nil {
			return err
		}
		if err := present(tx, gateway.Applications, app(v), &gateway.Application{Consumer: owner(v), ClientID: app(v), ClientSecret: app(v)}); err != nil {
			return err
		}
		res, err := tx.Create(&model.Resource{Kind: gateway.Tokens, Scope: scope, Name: name("token", v), Spec: &gateway.Token{
			Credential: app(v), AccessToken: v, TokenType: gateway.TokenBearer, ExpiresIn: 7200,
		}})
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
		if err := publish(context.Background(), c); err != nil && !cp.dead.Load() {
			p.fail("a creation was answered %v", err)
		}
	})
}

func remove(kind *model.Kind, name string) func(store.Tx) error {
	return func(tx store.Tx) error { return tx.Delete(kind, scope, name, 0) }
}

// touch changes something, which voids what was known of it.
func touch(kind *model.Kind, name string) func(store.Tx) error {
	return func(tx store.Tx) error {
		old, err := tx.Get(kind, scope, name)
		if err == nil {
			_, err = tx.Update(old, 0)
		}
		return err
	}
}

// revoke takes tokens back, or finds that they are gone. The publication begins
// later, or never if the control plane is killed before.
func (p *play) revoke(of []string, later time.Duration, how func(store.Tx) error) {
	cp := p.plane
	if cp == nil {
		return
	}
	publish, abandon := cp.r.Begin()
	c, err := p.commit(cp, how)
	gone := fault.Is(err, fault.NotFound)
	if err != nil {
		abandon()
		if !gone {
			p.fail("commit: %v", err)
			return
		}
	}
	p.mu.Lock()
	promised := map[string]uint64{}
	for _, v := range of {
		if !gone {
			p.committed[v] = max(p.committed[v], c.Revision)
		}
		promised[v] = p.committed[v]
	}
	p.mu.Unlock()
	p.calls.Go(func() {
		if later > 0 {
			time.Sleep(later)
		}
		begun := time.Now()
		var err error
		if gone {
			err = cp.r.Settle(context.Background())
		} else {
			err = publish(context.Background(), c)
		}
		if d := time.Since(begun); d > patience {
			p.fail("a caller waited for %v", d)
		}
		p.answered(cp, promised, gone, err)
	})
}

// answered notes what a revocation was answered with. Nobody hears the answers of a
// process that was killed.
func (p *play) answered(cp *plane, promised map[string]uint64, settled bool, err error) {
	if err != nil || cp.dead.Load() {
		p.n.refused.Add(1)
		return
	}
	p.n.confirmed.Add(1)
	if settled {
		p.n.settled.Add(1)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for v, revision := range promised {
		p.sure[v] = max(p.sure[v], revision)
	}
}

// check asks a filter about a token. What it accepts must not be older than the last
// revocation that was answered with success before.
func (p *play) check(h *host, v string, then func(contract.Answer)) {
	if h.frozen {
		return
	}
	p.mu.Lock()
	since := p.sure[v]
	p.mu.Unlock()
	p.calls.Add(1)
	h.ask(v, func(a contract.Answer, packed []byte) {
		defer p.calls.Done()
		switch a {
		case contract.Found:
			p.n.accepted.Add(1)
			if at := revisionOf(packed); at < since {
				p.fail("%s accepts %s as it was at revision %d; the revocation of revision %d had been answered with success", h.node, v, at, since)
			}
		case contract.Unknown, contract.Expired, contract.Revoked:
			p.n.unknown.Add(1)
		case contract.Miss, contract.Unavailable:
			p.n.unclear.Add(1)
		}
		if then != nil {
			then(a)
		}
	})
}

// revisionOf is when the state was read by which a token is accepted; see [plane.Record].
func revisionOf(packed []byte) uint64 {
	spans, _ := contract.Unpacked(packed)
	at := spans[contract.FieldUserID]
	n, err := strconv.ParseUint(string(packed[at.Off:at.Off+at.Len]), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// checkAll asks every filter about every token, and those once more that could not
// say at once: connections may have broken since they were used last.
func (p *play) checkAll() {
	var mu sync.Mutex
	var again []func()
	for _, h := range p.hosts {
		for _, v := range values {
			p.check(h, v, func(a contract.Answer) {
				mu.Lock()
				defer mu.Unlock()
				if a == contract.Unavailable {
					again = append(again, func() { p.check(h, v, nil) })
				}
			})
		}
	}
	synctest.Wait()
	mu.Lock()
	once := again
	mu.Unlock()
	for _, ask := range once {
		ask()
	}
	synctest.Wait()
}

// mend puts everything in order and has every token used everywhere.
func (p *play) mend() {
	for _, h := range p.hosts {
		h.thaw()
		h.unlink(false)
		h.redis.refuse(false)
	}
	p.redis.alone()
	p.mendRedis()
	p.startPlane()
	time.Sleep(10 * time.Second)
	for _, v := range values {
		p.issue(v)
	}
	time.Sleep(5 * time.Second)
	p.checkAll()
	time.Sleep(5 * time.Second)
}

// need asks about every token everywhere, and wants each accepted.
func (p *play) need(when string) {
	synctest.Wait()
	for _, h := range p.hosts {
		for _, v := range values {
			p.n.needed.Add(1)
			p.check(h, v, func(a contract.Answer) {
				if a != contract.Found {
					p.fail("%s %s refuses %s: answer %d; %+v", when, h.node, v, a, h.cache.Stats())
				}
			})
		}
	}
	synctest.Wait()
}

// mendAndLeave mends everything and takes the control plane away.
func (p *play) mendAndLeave() {
	p.mend()
	p.need("with everything mended")
	p.stopPlane()
	p.need("right after the control plane has gone")
	time.Sleep(contract.Lease)
	p.need("after a lease")
	for _, h := range p.hosts {
		h.kill()
		h.open()
	}
	p.need("after a restart of the filter")
	time.Sleep(time.Minute)
	p.need("after a minute")
}

package freshness

import (
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/filter/contract"
)

// event is one thing that happens; A, B and D choose to what, how and how long.
type event struct{ Kind, A, B, D int }

func (e event) value() string           { return values[e.A%len(values)] }
func (e event) host(p *play) *host      { return p.hosts[e.A%len(p.hosts)] }
func (e event) odd() bool               { return e.B%2 == 1 }
func (e event) span() time.Duration     { return time.Duration(e.D) * 10 * time.Millisecond }
func (e event) longSpan() time.Duration { return time.Duration(e.D) * 200 * time.Millisecond }

// happening is what an order consists of. A costly one may leave Redis without a
// record that is in use: it drops a key that nobody misses as long as memory answers,
// or a write may come late, which costs an owner that is revoked once more its records.
type happening struct {
	name   string
	costly bool
	do     func(p *play, e event)
}

// nothing is what an order is shortened to, event by event.
const nothing = 0

// happenings are all of them; what stands there twice happens more often.
var happenings = []happening{
	nothing: {"nothing", false, nil},
	{"issue", false, func(p *play, e event) { p.issue(e.value()) }},
	{"issue", false, func(p *play, e event) { p.issue(e.value()) }},
	{"revoke a token", false, func(p *play, e event) { p.revokeToken(e, 0) }},
	{"revoke a token", false, func(p *play, e event) { p.revokeToken(e, 0) }},
	{"revoke a token, publish late", false, func(p *play, e event) { p.revokeToken(e, 2*e.span()) }},
	{"revoke a token twice at once", false, func(p *play, e event) {
		p.calls.Go(func() { p.revokeToken(e, 0) })
		p.calls.Go(func() { p.revokeToken(e, 0) })
	}},
	{"revoke a token, and be killed", false, func(p *play, e event) {
		p.revokeToken(e, time.Millisecond)
		p.n.killed.Add(1)
		p.killPlane()
		if e.odd() {
			p.startPlane()
		}
	}},
	{"touch an application", false, func(p *play, e event) {
		p.revoke(under(app, e.value()), 0, touch(gateway.Applications, app(e.value())))
	}},
	{"touch a consumer", false, func(p *play, e event) {
		p.revoke(under(owner, e.value()), 0, touch(gateway.Consumers, owner(e.value())))
	}},
	{"delete an application", false, func(p *play, e event) {
		p.revoke(under(app, e.value()), 0, remove(gateway.Applications, app(e.value())))
	}},
	{"delete a consumer", false, func(p *play, e event) {
		p.revoke(under(owner, e.value()), 0, remove(gateway.Consumers, owner(e.value())))
	}},

	{"time passes", false, func(_ *play, e event) { time.Sleep(e.span()) }},
	{"time passes", false, func(_ *play, e event) { time.Sleep(e.span()) }},
	{"much time passes", false, func(_ *play, e event) { time.Sleep(e.longSpan()) }},

	{"a link breaks", false, func(p *play, e event) { e.host(p).unlink(false) }},
	{"a link is away", false, func(p *play, e event) { e.host(p).unlink(true) }},
	{"a link may come back", false, func(p *play, e event) { e.host(p).unlink(false) }},
	{"a link holds what it carries", false, func(p *play, e event) {
		h := e.host(p)
		h.up.set(e.B%3 != 1)
		h.down.set(e.B%3 != 2)
	}},
	{"a link goes on", false, func(p *play, e event) { e.host(p).resume() }},
	{"a link goes on", false, func(p *play, e event) { e.host(p).resume() }},
	{"a filter freezes", false, func(p *play, e event) { e.host(p).freeze(e.odd()) }},
	{"a filter thaws", false, func(p *play, e event) { e.host(p).thaw() }},
	{"a filter thaws", false, func(p *play, e event) { e.host(p).thaw() }},
	{"a clock is set", false, func(p *play, e event) { e.host(p).clock.step(e.longSpan() - 4*time.Second) }},
	{"a filter is restarted", false, func(p *play, e event) { p.restartHost(e.host(p), e.B%6) }},

	{"the control plane restarts", false, func(p *play, _ event) { p.stopPlane(); p.startPlane() }},
	{"the control plane stops", false, func(p *play, _ event) { p.stopPlane() }},
	{"the control plane is killed", false, func(p *play, e event) {
		p.killPlane()
		if e.odd() {
			p.startPlane()
		}
	}},
	{"the control plane starts", false, func(p *play, _ event) { p.startPlane() }},
	{"the control plane starts", false, func(p *play, _ event) { p.startPlane() }},

	{"the clock of the control plane is set ahead", false, func(p *play, e event) { p.clock.Set(time.Duration(e.A) * 17 * time.Hour) }},
	{"the clock of the control plane is set back", true, func(p *play, e event) { p.clock.Set(-time.Duration(e.A) * 17 * time.Hour) }},
	{"the clock of the control plane is right", false, func(p *play, _ event) { p.clock.Set(0) }},

	{"redis is fine", false, func(p *play, _ event) { p.mendRedis() }},
	{"redis is fine", false, func(p *play, _ event) { p.mendRedis() }},
	{"redis refuses writes", false, func(p *play, _ event) { p.redis.now().setFull(true) }},
	{"redis freezes", true, func(p *play, _ event) { p.redis.now().asks.set(true) }},
	{"redis falls silent", true, func(p *play, _ event) { p.redis.now().answers.set(true) }},
	{"the control plane does not reach redis", true, func(p *play, _ event) { p.route.refuse(true) }},
	{"a filter does not reach redis", false, func(p *play, e event) { e.host(p).redis.refuse(!e.odd()) }},
	{"redis is emptied", false, func(p *play, _ event) { p.redis.now().become(map[string]held{}) }},
	{"redis drops a key", true, func(p *play, e event) { p.redis.now().evict(e.A*7 + e.D) }},
	{"redis is dumped", false, func(p *play, _ event) { p.dumps = append(p.dumps, p.redis.now().dump()) }},
	{"redis restarts with a dump", false, func(p *play, e event) { p.restartRedis(e) }},
	// Two beginnings of stories, which chance would seldom tell.
	{"a filter misses a revocation", false, func(p *play, e event) {
		p.hosts[e.B%len(p.hosts)].unlink(true)
		p.revokeToken(e, 0)
		time.Sleep(contract.Lease + time.Second)
	}},
	{"redis goes back behind a revocation", false, func(p *play, e event) {
		p.dumps = append([]map[string]held{p.redis.now().dump()}, p.dumps...)
		p.revokeToken(e, 0)
		time.Sleep(contract.Lease + time.Second)
		p.restartRedis(event{})
	}},
	{"another redis", false, func(p *play, e event) { p.replaceRedis(e) }},
}

func (p *play) revokeToken(e event, later time.Duration) {
	p.revoke([]string{e.value()}, later, remove(gateway.Tokens, name("token", e.value())))
}

// resume lets a link carry everything again.
func (h *host) resume() {
	if h.frozen {
		return
	}
	h.up.set(false)
	h.down.set(false)
}

// restartHost ends a filter, in good order or not, and starts another one, which has
// its run directory or has not. The control plane may be told.
func (p *play) restartHost(h *host, how int) {
	p.n.restarted.Add(1)
	last, told, lost := h.process, how%2 == 0, how >= 4
	if how < 2 {
		h.thaw()
		h.cache.Close()
	} else {
		h.kill()
	}
	if lost {
		h.wipe()
	}
	h.open()
	if cp := p.plane; told && cp != nil {
		_ = cp.r.Ended(revoke.Node{ID: h.node}, contract.Ended{Processes: []string{last}, Successor: h.process, Gone: lost})
	}
}

func (p *play) startPlane() {
	if p.plane == nil {
		p.openPlane()
	}
}

func (p *play) stopPlane() {
	if cp := p.withdraw(); cp != nil {
		if err := cp.stop(); err != nil {
			p.fail("the control plane ends with %v", err)
		}
	}
}

func (p *play) killPlane() {
	if cp := p.withdraw(); cp != nil {
		cp.kill()
	}
}

// mendRedis lets Redis do what it was asked, late as it may be.
func (p *play) mendRedis() {
	p.route.refuse(false)
	s := p.redis.now()
	s.setFull(false)
	s.asks.set(false)
	s.answers.set(false)
}

// restartRedis is a Redis that comes back with what it had once, or with nothing.
func (p *play) restartRedis(e event) {
	next := p.newServer(nil)
	if len(p.dumps) > 0 {
		next.become(p.dumps[e.A%len(p.dumps)])
	}
	if p.seeded.keepsName {
		next.id = p.redis.now().id
	}
	p.redis.turn(next, false)
}

// replaceRedis is a failover to another server, which may lack what was written
// last. Where the former may live on, whoever is connected to it stays there.
func (p *play) replaceRedis(e event) {
	last := p.redis.now()
	data := last.dump()
	if e.odd() && len(p.dumps) > 0 {
		data = p.dumps[e.A%len(p.dumps)]
	}
	p.redis.turn(p.newServer(data), p.failover)
	if p.failover && e.B%3 == 0 {
		p.route.mine.cut()
	}
}

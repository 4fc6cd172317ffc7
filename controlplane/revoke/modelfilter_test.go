package revoke

import (
	"bufio"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// modelFilter follows the rules of docs/adr/0003-freshness.md for filters in the simplest
// way. What is on its disk survives its process.
type modelFilter struct {
	node     string
	instance string
	redis    *scripted

	mu      sync.Mutex
	writes  turn // serialises what it sends
	conn    net.Conn
	up      bool // welcomed, and the link has not ended
	stopped bool // the network holds back what it should read
	silent  bool // its acknowledgements are lost
	wake    chan struct{}

	log     contract.LogID
	applied contract.Position
	began   int // how often it started anew
	tokens  map[contract.Hash]uint64
	owners  map[string]uint64
	floor   uint64
	memory  map[contract.Hash]*contract.Record
	lease   time.Time
	renews  map[uint64]time.Time
	number  uint64
	asked   map[uint64]chan *contract.Result

	trust contract.Trust // in force
	disk  contract.Trust // on disk
	seen  time.Time      // when it last had a lease, on disk
	// stalled says that the disk accepts no writes. durable is the position up to which the
	// trusts of this link are on the disk.
	stalled bool
	durable contract.Position
}

func newModelFilter(node string, redis *scripted) *modelFilter {
	m := &modelFilter{node: node, redis: redis, wake: make(chan struct{}), writes: make(turn, 1)}
	m.reset()
	return m
}

// reset makes the state that of a new process.
func (m *modelFilter) reset() {
	m.log, m.applied, m.lease, m.trust = "", 0, time.Time{}, m.disk
	m.forget()
}

// forget makes the filter start anew.
func (m *modelFilter) forget() {
	m.began++
	m.lease, m.floor = time.Time{}, 0
	m.tokens, m.owners, m.memory = map[contract.Hash]uint64{}, map[string]uint64{}, map[contract.Hash]*contract.Record{}
	m.renews, m.asked = map[uint64]time.Time{}, map[uint64]chan *contract.Result{}
}

// stop holds back what the link carries, or releases it.
func (m *modelFilter) stop(held bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = held
	close(m.wake)
	m.wake = make(chan struct{})
}

// passes waits until the network carries what it holds. It returns false if the link is
// over.
func (m *modelFilter) passes(quit <-chan struct{}) bool {
	for {
		m.mu.Lock()
		stopped, wake := m.stopped, m.wake
		m.mu.Unlock()
		if !stopped {
			return true
		}
		select {
		case <-wake:
		case <-quit:
			return false
		}
	}
}

func (m *modelFilter) send(conn net.Conn, t contract.FrameType, body []byte) {
	m.writes.Lock()
	defer m.writes.Unlock()
	_ = contract.WriteFrame(conn, t, body) // the reader notices a link that has ended
}

// follow runs one link, from the hello to its end.
func (m *modelFilter) follow(conn net.Conn) {
	quit := make(chan struct{})
	var work sync.WaitGroup
	defer work.Wait()
	defer close(quit)
	defer conn.Close()
	m.mu.Lock()
	m.conn = conn
	body, _ := contract.EncodeJSON(contract.Hello{Version: contract.LinkVersion, Instance: m.instance, Log: m.log, Applied: m.applied})
	m.mu.Unlock()
	m.send(conn, contract.FrameHello, body)
	in := bufio.NewReader(conn)
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.conn == conn {
			m.up = false
		}
	}()
	for first := true; ; first = false {
		t, body, err := contract.ReadFrame(in)
		if err != nil || !m.passes(quit) {
			return
		}
		if first != (t == contract.FrameWelcome) || !m.apply(conn, t, body) {
			return
		}
		if first {
			work.Go(func() { m.renew(conn, quit) })
		}
	}
}

// renew asks for leases while the network carries frames.
func (m *modelFilter) renew(conn net.Conn, quit <-chan struct{}) {
	t := time.NewTicker(contract.RenewEvery)
	defer t.Stop()
	for {
		if !m.passes(quit) {
			return
		}
		m.mu.Lock()
		m.number++
		m.renews[m.number] = time.Now()
		n := m.number
		m.mu.Unlock()
		m.send(conn, contract.FrameRenew, contract.EncodeNumber(n))
		select {
		case <-t.C:
		case <-quit:
			return
		}
	}
}

// apply handles a frame and reports whether the link continues.
func (m *modelFilter) apply(conn net.Conn, t contract.FrameType, body []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch t {
	case contract.FrameWelcome:
		return m.welcomed(body) && m.ack(conn)
	case contract.FrameInvalidate:
		inv, err := contract.DecodeInvalidate(body)
		if err != nil || inv.From != m.applied {
			return false
		}
		for _, i := range inv.Items {
			if i.Subject == contract.SubjectToken {
				m.tokens[i.Token] = max(m.tokens[i.Token], i.Revision)
			} else {
				m.owners[i.ID] = max(m.owners[i.ID], i.Revision)
			}
		}
		m.applied = inv.To
		m.save()
		return m.ack(conn)
	case contract.FrameTrust:
		var c contract.TrustChange
		if contract.DecodeJSON(body, &c) != nil || c.At != m.applied+1 {
			return false
		}
		m.applied, m.trust = c.At, c.Trust
		m.save()
		return m.ack(conn)
	case contract.FrameGranted:
		n, _ := contract.DecodeNumber(body)
		if sent, ok := m.renews[n]; ok {
			m.lease, m.seen = sent.Add(contract.Lease-contract.LeaseMargin), time.Now()
			delete(m.renews, n)
		}
	case contract.FrameResult:
		res, err := contract.DecodeResult(body)
		if err != nil {
			return false
		}
		if c := m.asked[res.ID]; c != nil {
			c <- res
		}
	}
	return true
}

func (m *modelFilter) welcomed(body []byte) bool {
	var w contract.Welcome
	if contract.DecodeJSON(body, &w) != nil {
		return false
	}
	if w.Log != m.log || w.From != m.applied {
		m.forget()
		m.log, m.applied = w.Log, 0
		if w.From != 0 {
			return false
		}
	}
	m.floor, m.trust, m.up, m.durable = max(m.floor, w.Floor), w.Trust, true, 0
	m.save()
	return true
}

// save writes the current state to the disk, unless the disk stalls. mu is held.
func (m *modelFilter) save() {
	switch {
	case !m.stalled:
		m.disk, m.durable = m.trust, m.applied
	case m.disk.Epoch == m.trust.Epoch && m.durable == m.applied-1:
		m.durable = m.applied // nothing new
	}
}

// stall stops the disk, or lets it take what waits for it.
func (m *modelFilter) stall(stalled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stalled = stalled
	m.save()
	if m.up && !stalled {
		m.ack(m.conn)
	}
}

// ack sends what was applied, unless the acknowledgement is lost.
func (m *modelFilter) ack(conn net.Conn) bool {
	if m.silent {
		return true
	}
	a := contract.Ack{Applied: m.applied, Durable: m.durable}
	m.mu.Unlock()
	defer m.mu.Lock()
	m.send(conn, contract.FrameAck, a.Encode())
	return true
}

// allowed checks rule 6: the floors in memory.
func (m *modelFilter) allowed(hash contract.Hash, r *contract.Record) bool {
	floor := max(m.floor, m.tokens[hash], m.owners[r.Credential.ID])
	if r.Consumer != nil {
		floor = max(floor, m.owners[r.Consumer.ID])
	}
	return r.Revision >= floor && (r.Until == 0 || time.Now().UnixMilli() < r.Until)
}

// check returns the record by which a token is accepted, or nil.
func (m *modelFilter) check(hash contract.Hash, introspect bool) *contract.Record {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Now().Before(m.lease) {
		if r := m.memory[hash]; r != nil && m.allowed(hash, r) {
			return r
		}
	}
	if r := m.fromRedis(hash); r != nil {
		m.memory[hash] = r
		return r
	}
	if !introspect || !m.up || m.stopped {
		return nil
	}
	return m.fromControlPlane(hash)
}

// fromRedis follows rules 1 to 5.
func (m *modelFilter) fromRedis(hash contract.Hash) *contract.Record {
	s := m.redis
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.trust.Epoch == 0 || time.Since(m.seen) > contract.TrustFor {
		return nil
	}
	values := s.trusted(m.trust.Servers)
	clock, err := contract.ParseClock(values[contract.RedisClockKey])
	if err != nil || clock.Epoch != m.trust.Epoch || (clock.Log == m.log && clock.Position < m.applied) {
		return nil
	}
	e, err := contract.ParseEntry(values[contract.RedisRecordKey(scope, hash)])
	if err != nil || e.Record == nil || e.Record.Epoch != m.trust.Epoch {
		return nil
	}
	keys := []string{contract.RedisCredentialKey(scope, e.Record.Credential.ID)}
	if e.Record.Consumer != nil {
		keys = append(keys, contract.RedisConsumerKey(scope, e.Record.Consumer.ID))
	}
	for _, key := range keys {
		floor, err := contract.ParseFloor(values[key])
		if err != nil || floor.Epoch != e.Record.Epoch || floor.Revision > e.Record.Revision {
			return nil
		}
	}
	if !m.allowed(hash, e.Record) {
		return nil
	}
	return e.Record
}

// trusted returns what a filter finds that believes the given servers. mu is held.
func (s *scripted) trusted(servers []string) map[string][]byte {
	if !slices.Contains(servers, s.id) {
		for _, id := range servers {
			return s.formers[id]
		}
		return nil
	}
	if s.mood != fine && s.mood != full && s.mood != waiting {
		return nil
	}
	return s.values
}

// fromControlPlane asks the control plane, and remembers the answer unless it is void by
// the time it arrives.
func (m *modelFilter) fromControlPlane(hash contract.Hash) *contract.Record {
	m.number++
	id, began, conn := m.number, m.began, m.conn
	answer := make(chan *contract.Result, 1)
	m.asked[id] = answer
	m.mu.Unlock()
	m.send(conn, contract.FrameIntrospect, (&contract.Introspect{ID: id, Token: hash, Plugin: "plugin"}).Encode())
	var res *contract.Result
	select {
	case res = <-answer:
	case <-time.After(100 * time.Millisecond):
	}
	m.mu.Lock()
	delete(m.asked, id)
	if res == nil || res.Record == nil || m.began != began || !m.allowed(hash, res.Record) {
		return nil
	}
	m.memory[hash] = res.Record
	return res.Record
}

// evict drops one key of Redis.
func (s *scripted) evict(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if keys := slices.Sorted(maps.Keys(s.values)); len(keys) > 0 {
		delete(s.values, keys[n%len(keys)])
	}
}

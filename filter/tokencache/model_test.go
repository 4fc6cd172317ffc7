package tokencache

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

// modelTokens is how many tokens a model has. Owners are those of testRecord.
const modelTokens = 6

// version orders what a store said: first by how often the store was restored.
type version struct{ lineage, revision uint64 }

func (v version) before(o version) bool {
	return v.lineage < o.lineage || (v.lineage == o.lineage && v.revision < o.revision)
}

// modelStore is the truth.
type modelStore struct {
	revision uint64
	valid    [modelTokens]bool
	// tokens are the revisions of the last revocation or creation of each, which share a
	// row of the store; owners are those of revocations.
	tokens map[int]uint64
	owners map[contract.Invalidation]uint64 // by subject, control plane and id alone
	// apart says that the other control plane is not in the group, since when the last change
	// of that was made, at a time of the wall clock.
	apart   bool
	since   uint64
	sinceAt int64
	// took are the revisions since which each of a pair has what they share; 0 is not.
	took [len(modelPairs)][2]uint64
}

func (s *modelStore) clone() modelStore {
	c := *s
	c.tokens, c.owners = maps.Clone(s.tokens), maps.Clone(s.owners)
	return c
}

// modelEntry is one position of the log.
type modelEntry struct {
	items []contract.Invalidation
	trust *contract.Trust
	// scopes is what the group consists of from here on.
	scopes *contract.Scopes
}

// publication is a revocation whose caller waits, or has got a 503.
type publication struct {
	at      contract.Position
	trust   int // number of trusts that were given or taken up to it
	inRedis bool
	about   []int // tokens
	of      version
	// reshapes says that a member has come or left.
	reshapes bool
}

// told is what a link was told about trust, in force from a position on.
type told struct {
	at    contract.Position
	trust int
}

// model is a control plane, its store and its Redis. It follows
// docs/adr/0003-freshness.md as far as one filter can see.
type model struct {
	w     *world
	mu    sync.Mutex // no time passes while it is held
	store modelStore
	saved struct {
		store modelStore
		redis map[string][]byte
	}
	lineage uint64

	logs    int
	log     contract.LogID
	entries []modelEntry // entries[i] has position i+1
	kept    contract.Position

	redis    map[string][]byte
	server   int // of the Redis that runs
	written  int // the server that the control plane wrote to last
	clock    []byte
	nameless bool
	writable bool // the control plane reaches Redis
	readable bool // the filter does
	inOrder  bool
	epoch    contract.Epoch
	trust    contract.Trust
	trusts   int

	older    bool // its release does not name control planes in invalidations
	link     *fakeLink
	acked    contract.Position
	anyAck   bool
	told     []told
	leaseEnd time.Time
	known    bool
	members  modelMembers
	sharing  [len(modelPairs)]modelSharing

	waiting   []*publication
	confirmed [modelTokens]version
	answers   []func()      // of introspections that are held back
	holding   bool          // answers of introspections
	gate      chan struct{} // reads of Redis wait for it, with what they have read
	faults    []string
	found     modelFound
	// proven holds what was decided last by each token, repeated how often that was good.
	proven   [modelTokens]provenAnswer
	repeated int
}

// provenAnswer is a record that an adapter keeps with its proof.
type provenAnswer struct {
	Proof
	packed []byte
}

func newModel(w *world) *model {
	m := &model{w: w, redis: map[string][]byte{}, writable: true, readable: true}
	m.store = modelStore{revision: 10, tokens: map[int]uint64{}, owners: map[contract.Invalidation]uint64{}}
	m.store.took = [...][2]uint64{sharesOwner: {1, 0}, sharesValue: {1, 2}}
	for i := range m.store.valid {
		m.store.valid[i] = true
	}
	w.control.auto = true
	w.control.introspect = m.introspect
	m.begin()
	m.save()
	return m
}

// Redis as the filter sees it.

type modelClient struct {
	m       *model
	servers []string
}

func (c *modelClient) read(keys ...string) (values [][]byte, err error) {
	c.m.mu.Lock()
	gate := c.m.gate
	if !c.m.readable || (len(c.servers) > 0 && !slices.Contains(c.servers, fmt.Sprint(c.m.server))) {
		err = redisconn.ErrNotVouched
	}
	for _, key := range keys {
		values = append(values, c.m.redis[key])
	}
	c.m.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return values, err
}

func (c *modelClient) record(_ context.Context, of *contract.Scopes, h contract.Hash, _ bool) (stored, error) {
	keys := []string{contract.RedisClockKey, contract.RedisMembersKey(of.Of)}
	for _, plane := range of.Members {
		keys = append(keys, contract.RedisRecordKey(plane, h))
	}
	v, err := c.read(keys...)
	return stored{clock: v[0], members: v[1], entries: v[2:]}, err
}

func (c *modelClient) floors(_ context.Context, r *contract.Record, _ bool) (a, b []byte, err error) {
	v, err := c.read(contract.RedisCredentialKey(r.Plane, r.Credential.ID), contract.RedisConsumerKey(r.Plane, r.Consumer.ID))
	return v[0], v[1], err
}

func (c *modelClient) byNodes() bool { return false }

func (c *modelClient) close() error { return nil }

// Records and Redis as the control plane sees it.

func (m *model) record(i int) *contract.Record {
	r := testRecord(i, m.store.revision)
	r.Plane, r.Own = planeOf(i), m.isOwn(i)
	r.UserID = fmt.Sprintf("%d:%d:%d", i, m.lineage, m.store.revision)
	r.Until = m.w.clock.Now().millis() + contract.RecordLife.Milliseconds()
	return r
}

func owners(i int) [2]contract.Invalidation {
	r := testRecord(i, 0)
	return [2]contract.Invalidation{
		{Subject: contract.SubjectCredential, Plane: planeOf(i), ID: r.Credential.ID},
		{Subject: contract.SubjectConsumer, Plane: planeOf(i), ID: r.Consumer.ID},
	}
}

// writeFloor writes that of an owner.
func (m *model) writeFloor(o contract.Invalidation) {
	key := contract.RedisCredentialKey(o.Plane, o.ID)
	if o.Subject == contract.SubjectConsumer {
		key = contract.RedisConsumerKey(o.Plane, o.ID)
	}
	m.redis[key] = contract.Floor{Revision: m.store.owners[o], Epoch: m.epoch}.Marshal()
}

// wire is how items are told: an older control plane does not say whose owners it means.
func (m *model) wire(items []contract.Invalidation) []contract.Invalidation {
	if items = slices.Clone(items); m.older {
		for i := range items {
			items[i].Plane = ""
		}
	}
	return items
}

// refill writes the record of a token, or its tombstone.
func (m *model) refill(i int) {
	key := contract.RedisRecordKey(planeOf(i), modelHash(i))
	if !m.store.valid[i] {
		m.redis[key] = contract.MarshalTombstone(max(m.store.tokens[i], 1))
		return
	}
	r := m.record(i)
	r.Epoch = m.epoch
	data, err := r.Sign(modelHash(i), testKey)
	if err != nil {
		panic(err)
	}
	for _, o := range owners(i) {
		m.writeFloor(o)
	}
	m.redis[key] = data
	m.writeMembers()
}

// writeClock says that Redis holds the log up to a position.
func (m *model) writeClock(at contract.Position) {
	m.clock = contract.Clock{Epoch: m.epoch, Log: m.log, Position: at, Revision: m.store.revision}.Marshal()
	m.redis[contract.RedisClockKey] = m.clock
}

// keep puts Redis in order, and gives trust again. always draws another epoch. Redis in
// order holds what the log says of every token in it, so a token that was created again
// gets its record. A replay of those alone that are gone leaves the record of before the
// revocation, under an epoch that still counts.
func (m *model) keep(always bool) {
	if !m.writable || (m.inOrder && m.written == m.server && bytes.Equal(m.redis[contract.RedisClockKey], m.clock)) {
		return
	}
	if always || m.epoch == 0 || m.written != m.server || !bytes.Equal(m.redis[contract.RedisClockKey], m.clock) {
		m.epoch++
	}
	for i := range m.store.tokens {
		m.refill(i)
	}
	for o := range m.store.owners {
		m.writeFloor(o)
	}
	m.writeMembers()
	m.inOrder, m.written = true, m.server
	next := contract.Trust{Epoch: m.epoch}
	if !m.nameless {
		next.Servers = []string{fmt.Sprint(m.server)}
	}
	at := m.head()
	if !sameTrust(next, m.trust) {
		at++ // the position of the trust that follows
	}
	m.writeClock(at)
	for _, p := range m.waiting {
		p.inRedis = true
	}
	m.giveTrust(next)
}

func (m *model) giveTrust(t contract.Trust) {
	if sameTrust(t, m.trust) {
		return
	}
	m.trust = t
	m.trusts++
	m.append(modelEntry{trust: &t})
}

// The log and the link.

func (m *model) head() contract.Position { return contract.Position(len(m.entries)) }

func (m *model) append(e modelEntry) {
	m.entries = append(m.entries, e)
	m.reshape(e)
	if m.link == nil || m.link.mute.Load() {
		return
	}
	at := m.head()
	if e.scopes != nil {
		m.link.json(contract.FrameScopes, e.scopes)
	}
	if e.trust != nil {
		m.told = append(m.told, told{at, m.trusts})
		m.link.trust(at, *e.trust)
		return
	}
	m.link.invalidate(at, m.wire(e.items)...)
}

// begin is the start of a process of the control plane: its log begins with all
// revocations.
func (m *model) begin() {
	m.cut()
	m.logs++
	m.log = contract.LogID(fmt.Sprint("log-", m.logs))
	m.entries, m.kept, m.waiting, m.trust, m.inOrder = nil, 0, nil, contract.Trust{}, false
	m.trusts++
	m.leaseEnd = time.Now().Add(contract.Lease)
	var items []contract.Invalidation
	for i, at := range m.store.tokens {
		items = append(items, modelGone(i, at))
	}
	for o, at := range m.store.owners {
		o.Revision = at
		items = append(items, o)
	}
	m.append(modelEntry{items: items})
	m.keep(false)
}

func (m *model) cut() {
	if m.link != nil {
		m.leaseEnd = latest(m.leaseEnd, m.lease())
		_ = m.link.raw.Close()
		m.link = nil
	}
}

func (m *model) lease() time.Time {
	return time.Unix(0, m.link.renewed.Load()).Add(contract.Lease)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// welcome takes a new link.
func (m *model) welcome(l *fakeLink) {
	m.cut()
	m.known, m.link, m.acked, m.anyAck = true, l, 0, false
	from := l.hello.Applied
	if l.hello.Log != m.log || from < m.kept || from > m.head() {
		from = 0
	}
	if m.members.welcome(m.scopes(), m.head()) {
		from = 0
	}
	m.told = []told{{from, m.trusts}}
	l.json(contract.FrameWelcome, contract.Welcome{Scopes: m.scopes(), Log: m.log, From: from, Trust: m.trust})
	var items []contract.Invalidation
	for _, e := range m.entries[from:] {
		items = append(items, e.items...)
	}
	l.send(contract.FrameInvalidate, (&contract.Invalidate{From: from, To: m.head(), Items: m.wire(items)}).Encode())
}

// drain takes what the filter has sent.
func (m *model) drain() {
	for m.link != nil {
		select {
		case f, ok := <-m.link.frames:
			if !ok {
				m.cut()
				return
			}
			switch f.kind {
			case contract.FrameAck:
				a, err := contract.DecodeAck(f.body)
				if err != nil {
					m.faults = append(m.faults, err.Error())
				}
				m.acked, m.anyAck = a.Applied, true
				m.members.ack(a.Applied)
			case contract.FrameBye:
				m.known = false
			case contract.FrameInUse:
				m.refillInUse(f.body)
			}
		default:
			return
		}
	}
}

func (m *model) refillInUse(body []byte) {
	b, err := contract.DecodeInUse(body)
	if err != nil {
		m.faults = append(m.faults, err.Error())
		return
	}
	for i := range modelTokens {
		if m.inOrder && m.writable && m.holds(i) && !m.isOwn(i) && slices.Contains(b.Tokens, modelHash(i)) {
			m.refill(i)
		}
	}
	if !m.link.mute.Load() {
		m.link.send(contract.FrameRefilled, contract.EncodeNumber(b.Number))
	}
}

func (m *model) introspect(q *contract.Introspect) *contract.Result {
	m.mu.Lock()
	defer m.mu.Unlock()
	res := &contract.Result{ID: q.ID, Answer: contract.Unknown, Revision: m.store.revision}
	for i := range modelTokens {
		switch {
		case q.Token != modelHash(i) || !m.store.valid[i] || !m.holds(i) || m.isSecond(sharesValue, i):
		case m.isSecond(sharesOwner, i):
			res.Answer = contract.Unavailable
		default:
			res.Answer, res.Record = contract.Found, m.record(i)
			if m.inOrder && m.writable {
				m.refill(i)
			}
		}
	}
	if !m.holding {
		return res
	}
	if l := m.link; l != nil {
		m.answers = append(m.answers, func() { l.result(res) })
	}
	return nil
}

// Revoking.

// revoke takes tokens back, all of an owner or one alone, and publishes it.
func (m *model) revoke(about []int, items ...contract.Invalidation) {
	m.store.revision++
	for i := range items {
		it := items[i]
		items[i].Revision = m.store.revision
		if it.Subject != contract.SubjectToken {
			m.store.owners[it] = m.store.revision
		}
	}
	for _, i := range about {
		m.take(sharesValue, i, false)
		m.store.valid[i] = false
		m.store.tokens[i] = m.store.revision
	}
	m.publish(&publication{about: about, of: version{m.lineage, m.store.revision}}, items)
}

func (m *model) publish(p *publication, items []contract.Invalidation) {
	if m.inOrder && (!m.writable || m.written != m.server) {
		m.inOrder = false
	}
	p.inRedis = m.inOrder
	if p.inRedis {
		for _, i := range p.about {
			m.refill(i)
		}
		for _, it := range items {
			if it.Revision = 0; it.Subject != contract.SubjectToken {
				m.writeFloor(it)
			}
		}
		m.writeMembers()
		m.writeClock(m.head() + 1)
	}
	e := modelEntry{items: items}
	if p.reshapes {
		e.scopes = m.scopes()
	}
	m.append(e)
	p.at = m.head()
	if !p.inRedis {
		m.giveTrust(contract.Trust{})
	}
	p.trust = m.trusts
	m.waiting = append(m.waiting, p)
}

// judge says which publications are confirmed.
func (m *model) judge() {
	m.waiting = slices.DeleteFunc(m.waiting, func(p *publication) bool {
		acked := m.link != nil && m.anyAck && m.acked >= p.at
		trust := 0
		for _, t := range m.told {
			if m.link != nil && m.anyAck && t.at <= m.acked {
				trust = t.trust
			}
		}
		leased := time.Now().Before(m.leaseEnd) || (m.link != nil && time.Now().Before(m.lease()))
		if (!acked && leased) || (m.known && !p.inRedis && trust < p.trust) {
			return false
		}
		for _, i := range p.about {
			if m.confirmed[i].before(p.of) {
				m.confirmed[i] = p.of
			}
		}
		if p.reshapes && p.of == m.members.of {
			m.members.left = m.store.apart
		}
		for what := range m.sharing {
			if s := &m.sharing[what]; p.of == s.of {
				s.confirmed = true
			}
		}
		return true
	})
}

// open starts a filter on the model.
func (m *model) open() {
	var err error
	m.w.cache, err = Open(Options{
		Settings: m.w.settings, Logger: slog.New(slog.DiscardHandler), DialLink: m.w.control.dial, Clock: m.w.clock,
		openStore: func(_ *contract.RedisSettings, servers []string) (store, error) {
			return &modelClient{m, servers}, nil
		},
	})
	if err != nil {
		panic(err)
	}
}

func (m *model) save() {
	m.saved.store, m.saved.redis = m.store.clone(), maps.Clone(m.redis)
}

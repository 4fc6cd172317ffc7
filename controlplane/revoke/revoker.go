package revoke

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/places"
)

// Node is the node that opened a link.
type Node struct {
	ID string
	// ControlPlane is the scope whose tokens the node may ask about.
	ControlPlane string
	// Until is when the token of the node expires, zero if never.
	Until time.Time
	// token is the token that the link came with; see Recheck.
	token string
	// Owner is the owner that the token was issued for.
	Owner places.Owner
}

// Authenticator proves which node opens a link; see package identity.
type Authenticator interface {
	// Authenticate checks that a token is valid for a node. An empty node id stands for the
	// node of the token.
	Authenticate(ctx context.Context, node, token string) (Node, error)
}

// Source is the authority on tokens; see package oauth.
type Source interface {
	// Record returns the record of a token, nil for an unknown or ended one, and
	// Found, Unknown or Expired, with the revision of the state that was read. The record
	// says which control plane holds the token; scope may consist of several.
	Record(ctx context.Context, scope string, token contract.Hash) (rec *contract.Record, answer contract.Answer, revision uint64, err error)
}

// Tracker is a Redis that is part of this process. It is written without a connection.
type Tracker interface {
	// Put writes a key, and returns false if there is no room for it. The value is not
	// changed afterwards. expires is in milliseconds of Unix time, 0 for never. guard marks
	// keys that are evicted last.
	Put(key string, value []byte, expires int64, guard bool) bool
	// Value returns the value of a key, nil if there is none. It must not be changed.
	Value(key string) []byte
}

// Options of a Revoker.
type Options struct {
	Store store.Store
	// Subjects says what each kind revokes.
	Subjects map[*model.Kind]Subject
	Source   Source
	// Made, if set, returns what Source would return of a token, from its row. The row is the
	// one in the state of the reader. The result is nil for a token that has ended.
	Made func(r store.Reader, token *model.Resource) (*contract.Record, error)
	Auth Authenticator
	// Resolver says what the scopes of nodes consist of; nil is [scopes.Each].
	Resolver scopes.Resolver
	// ControlPlaneOf returns the scope that Auth finds for a node, which is always the same
	// one. Without it, everybody waits for filters of a predecessor that have not come back.
	ControlPlaneOf func(node string) string
	// Allowed reports whether a node's configuration contains a plugin; nobody
	// may ask about tokens otherwise.
	Allowed func(node Node, plugin string) bool
	// Planned returns when it is known what a node may ask about, or when ctx ends. A
	// welcomed filter starts anew, so its questions must have answers by then. A nil
	// function returns at once.
	Planned func(ctx context.Context, node Node)
	// Redis is nil if there is none. The Revoker does not close it.
	Redis redis.UniversalClient
	// ChecksTokens reports whether a node's configuration has a chain. Only then its filter
	// is told about Redis. If the function is nil, a filter is told after its first allowed
	// question.
	ChecksTokens func(node Node) bool
	// NodeRedis returns the Redis that filters may read, or nil if there is none for them.
	// local says that the filter runs on this host. The settings must not contain a
	// credential that can write. A nil function stands for no Redis.
	NodeRedis func(local bool) *contract.RedisSettings
	// Tracker is set for a Redis that is part of this process and ends with it. Without a
	// Tracker, keys are written with PXAT.
	Tracker Tracker
	// Refused, if set, is called with a filter that cannot be served, and the reason. It
	// must not block.
	Refused func(node Node, reason string)
	// RedisState, if set, is called after each attempt to use Redis with the error, or with
	// nil when Redis is in order. RedisAhead, if set, is called each time Redis is checked,
	// with how far its clock is ahead; see [redisconn.Server].
	RedisState func(error)
	RedisAhead func(time.Duration)
	// Waits, if set, is told which filters revocations wait for in vain, and when that is
	// over. It must not call the Revoker.
	Waits func(Waits)
	// Meter may be nil.
	Meter Meter
	Log   *slog.Logger
	// Now is the wall clock. Clock gives the bounds within which it can be trusted. Without
	// a Clock, Now is trusted as it is. Store must expire its rows by Clock.Earliest, and
	// none of them before [NoteTime] was called.
	Now   func() time.Time
	Clock Clock
	// Places limits the links by owner. MaxNodeLinks limits the links of one node; 0 means
	// 64. Both determine how many filters are remembered; see known.go.
	Places       places.Limits
	MaxNodeLinks int
	// remote replaces Redis in tests. pace replaces the interval between checks of Redis
	// there: a simulated day has many seconds in which nothing happens.
	remote remote
	pace   func() time.Duration
}

// Revoker publishes revocations and tells filters what to believe. Close must be called.
type Revoker struct {
	o       Options
	log     *slog.Logger
	started time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	owned   sync.WaitGroup
	calls   calls
	signer  signer
	keeper  *keeper       // nil without Redis
	arrived chan struct{} // wakes the keeper when a filter was welcomed
	// turn is held for every write to Redis while it is in order, and while Redis becomes
	// so. Lock it before mu.
	turn turn
	work chan struct{} // wakes the publisher

	seen chan struct{} // wakes remember
	// before is what was persisted about Redis when this process started.
	before Epoch
	// alone says that no filter was known at the start, and that the store knows all
	// filters. So none can hold a lease from a predecessor of this process.
	alone bool
	// former says that filters may have been told to believe a Redis, while this process
	// uses none.
	former bool
	// last is what the predecessor stored about the time. gap is how much time has passed
	// since according to the wall clock, 0 if that is little.
	last Times
	gap  time.Duration
	// hidden says that revocations may have been forgotten too early: there is a gap, or an
	// earlier gap was not mended. timed says that the time was stored since, so the next
	// process sees no gap.
	hidden bool
	timed  atomic.Bool

	mu      sync.Mutex
	closing bool
	history *history
	links   map[*link]struct{}
	// joining holds links that have a place and are not welcomed yet.
	joining map[*link]struct{}
	// places counts the links in both maps. ofNode has these links by node.
	places *places.Places
	ofNode map[string]map[*link]struct{}
	// lost holds the ends of the leases of links that broke while their filter could
	// answer.
	lost  []leaseLost
	known map[string]*known // by name of their row; see known.go
	// knownOf counts the processes in known by node.
	knownOf map[string]int
	tally   tally // of known
	// audiences are the filters in known, by the name of their scope; see audience.go.
	// unsure is the position up to which a predecessor may have told filters of any scope
	// what this process does not know.
	// doubted is the position that the unsure of some is set to, 0 if there is none.
	audiences       map[string]*audience
	unsure, doubted contract.Position
	// written is what this process has stored about known filters. A time of 0 stands for a
	// row that may exist. next is the next write of them, nil if nobody waits for it.
	written map[string]int64
	next    *knownWrite
	// noteAt is the latest time that the store may hold as that of this process or the one
	// before, in milliseconds; 0 if it holds none.
	noteAt int64
	// readers are the scopes of which filters were linked, over all processes, or are about to
	// be; true says that it is in the store. reshapedAt is the newest revision, of those that
	// are published, at which one came to consist of others.
	readers    map[string]bool
	reshapedAt map[string]uint64
	// writes have begun and have no position yet; queue waits for the publisher;
	// rounds wait for filters; latest are the positions of the newest revocations.
	writes map[*pending]struct{}
	queue  []*publication
	rounds []*round
	latest latest
	// unconfirmed holds positions that some filter may not know when it reads Redis, by
	// what they are about; pending is how many. settled is closed and replaced when one of
	// them is confirmed.
	unconfirmed map[string]*outstanding
	pending     int
	settled     chan struct{}
	// trust is in force since position trustAt. Redis holds everything up to redisAt.
	trust            contract.Trust
	trustAt, redisAt contract.Position
	// serversAt is the position from which on filters are told to believe the servers that
	// are written to now. It is 0 once all filters have confirmed that, so that no filter
	// can reach other servers with an old state.
	serversAt contract.Position
	// strangers says that filters that are not remembered may read Redis as it was before
	// this process; see [Epoch.Forgotten].
	strangers bool
	stats     Stats
	waits     waits
}

// Stats is a snapshot for metrics.
type Stats struct {
	Links, LiveLeases, KnownFilters int
	// Revocations counts published commits that revoke. Unconfirmed counts those of them
	// that were answered 503.
	Revocations, Unconfirmed uint64
	// Pending counts the revocations that are unconfirmed now.
	Pending int
	// Trusted says whether filters are told to believe Redis. RedisUp says whether Redis is
	// in order and written to. RefillsDropped counts records that could not be made, or
	// were given up because too many were waiting.
	Trusted, RedisUp bool
	RefillsDropped   uint64
}

// New reads what was persisted and starts the goroutines of the Revoker. When it returns,
// everything that a predecessor left is in the log.
func New(ctx context.Context, o Options) (*Revoker, error) {
	if o.Store == nil || o.Source == nil || o.Auth == nil || o.Allowed == nil || o.Log == nil {
		return nil, errors.New("revoke: store, source, authenticator, permission and log are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Clock == nil {
		o.Clock = taken{o.Now}
	}
	if o.pace == nil {
		o.pace = func() time.Duration { return watchEvery }
	}
	if o.Meter == nil {
		o.Meter = unmetered{}
	}
	o.Resolver = scopes.OrEach(o.Resolver)
	o.MaxNodeLinks = cmp.Or(o.MaxNodeLinks, 64)
	r := &Revoker{
		arrived: make(chan struct{}, 1),
		o:       o, log: o.Log, started: time.Now(), seen: make(chan struct{}, 1), work: make(chan struct{}, 1), turn: make(turn, 1),
		links: map[*link]struct{}{}, joining: map[*link]struct{}{}, places: places.New(o.Places), ofNode: map[string]map[*link]struct{}{},
		known: map[string]*known{}, knownOf: map[string]int{}, written: map[string]int64{},
		readers: map[string]bool{}, reshapedAt: map[string]uint64{}, latest: latest{in: map[string]contract.Position{}},
		tally: tally{}, audiences: map[string]*audience{}, unconfirmed: map[string]*outstanding{}, writes: map[*pending]struct{}{}, settled: make(chan struct{}),
	}
	r.calls.stop = make(chan struct{})
	r.waits.changed = make(chan struct{}, 1)
	if o.Redis != nil {
		o.remote = &reached{o.Redis, o.Tracker}
	}
	if o.remote != nil {
		r.keeper = newKeeper(r, o.remote)
	}
	if err := o.Store.View(ctx, r.load); err != nil {
		return nil, fmt.Errorf("read revocations: %w", err)
	}
	if err := r.leaveRedis(ctx); err != nil {
		return nil, err
	}
	r.signer.store, r.signer.now = o.Store, o.Clock.Earliest
	if _, err := r.signer.renew(ctx); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.owned.Go(r.remember)
	r.owned.Go(r.renewKeys)
	r.owned.Go(r.publisher)
	r.owned.Go(r.tellWaits)
	if r.keeper != nil {
		r.owned.Go(r.keeper.run)
		r.owned.Go(r.keeper.refiller)
		r.owned.Go(r.keeper.refillInUse)
		r.owned.Go(r.keeper.payOwed)
	}
	return r, nil
}

// load starts the log with what the store remembers. This includes what a predecessor has
// committed but not published.
func (r *Revoker) load(tx store.Reader) error {
	var err error
	if r.last, r.gap, err = resumeTime(tx, r.o.Clock); err != nil {
		return err
	}
	r.hidden = r.gap > 0 || r.last.Unmended
	r.noteAt = r.last.Earliest
	entries, err := r.loadEntries(tx)
	if err != nil {
		return err
	}
	if r.before, err = storedEpoch(tx); err != nil {
		return err
	}
	if r.hidden || r.before.Forgotten || !r.before.Told {
		r.unsure = r.history.at
	}
	if err := r.loadFilters(tx); err != nil {
		return err
	}
	r.forgetOld()
	r.loadAudiences(tx, entries)
	r.doubted = r.history.at
	r.alone = len(r.known) == 0 && !r.before.Forgotten
	r.recall()
	if len(entries) > 0 || r.hidden || r.before.Forgotten || !r.before.Told { // this may hide revocations that a predecessor has not confirmed
		r.latest.all = r.history.at
		r.pend(r.history.at, matter{all: true})
	}
	if r.keeper != nil {
		r.keeper.load()
	}
	return nil
}

// loadEntries starts the log with the tombstones of the store.
func (r *Revoker) loadEntries(tx store.Reader) (entries []entry, err error) {
	rows, err := store.ListAll(tx, tombstones, store.Query{})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b *model.Resource) int { return cmp.Compare(a.Revision, b.Revision) })
	now := r.o.Clock.Earliest()
	entries = make([]entry, 0, len(rows))
	for _, row := range rows {
		e, ok := r.entryOf(row)
		if e.expires == 0 { // a row of an older release, which never expires
			e.expires = row.Modified.Add(contract.RecordLife + expiryMargin).UnixMilli()
		}
		if ok && e.live(now) {
			entries = append(entries, e)
		}
	}
	r.history = newHistory(now, entries)
	return entries, nil
}

// loadFilters reads which filters a predecessor knew, and of which scopes.
func (r *Revoker) loadFilters(tx store.Reader) error {
	rows, err := store.ListAll(tx, filters, store.Query{})
	if err != nil {
		return err
	}
	for _, row := range rows {
		seen, written := seenIn(row)
		// The unmeasured time may not have passed for the filter, so the gap is added.
		r.enter(row.Name, &known{seen: time.UnixMilli(seen).Add(r.gap), welcomed: true, of: r.audienceOf(row.Name)})
		r.written[row.Name] = written
	}
	rows, err = store.ListAll(tx, readers, store.Query{})
	for _, row := range rows {
		r.readers[row.Name] = true // the name says all
	}
	return err
}

// endTime is how long the end of a Revoker may take although its context has ended, because
// callers waited that long. It is plenty for a disk that works.
const endTime = time.Second

var errEndSlow = errors.New("the store takes too long, so this is no end in good order")

// Close lets waiting publications finish within ctx, ends all links, and returns when every
// goroutine has ended. A store that stalls is not waited for longer than ctx, or [endTime].
// Goroutines that it holds up are left behind then, and the end is not stored: the next
// process starts as after one that was killed.
func (r *Revoker) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	r.calls.wait(ctx)
	r.mu.Lock()
	for l := range r.links {
		l.end()
	}
	r.mu.Unlock()
	r.cancel()
	close(r.calls.stop)
	last, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	late, cancel := context.WithTimeout(last, endTime)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		r.calls.running.Wait()
		r.owned.Wait()
		ended <- r.handOver(last)
	}()
	for _, bound := range []context.Context{late, ctx} {
		select {
		case err := <-ended:
			return errors.Join(ctx.Err(), err)
		case <-bound.Done():
		}
	}
	r.log.Warn("the end is not waited for: the store takes too long, and the next start is as after a kill")
	return errors.Join(ctx.Err(), errEndSlow)
}

// Stats returns the current values.
func (r *Revoker) Stats() Stats {
	up, dropped := r.keeper.state()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	now := time.Now()
	s.Links, s.KnownFilters, s.Pending = len(r.links), len(r.known), r.unsettled()
	for l := range r.links {
		if l.lease.After(now) {
			s.LiveLeases++
		}
	}
	s.Trusted, s.RedisUp, s.RefillsDropped = r.trust.Epoch != 0, up, dropped
	return s
}

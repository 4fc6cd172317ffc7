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

// Node is who opened a link.
type Node struct {
	ID string
	// ControlPlane is the scope whose tokens the node may ask about.
	ControlPlane string
	// Until is when the token of the node ends, zero if never.
	Until time.Time
	// token is what the link came with; see Recheck.
	token string
	// Owner is who the token was issued for.
	Owner places.Owner
}

// Authenticator proves who opens a link; see identity.
type Authenticator interface {
	// Authenticate checks that a token is good for a node; an empty node id is
	// that of the token.
	Authenticate(ctx context.Context, node, token string) (Node, error)
}

// Source is the truth about tokens; see oauth.
type Source interface {
	// Record returns the record of a token, nil for an unknown or ended one, and
	// Found, Unknown or Expired, with the revision of the state that was read. The record
	// says which control plane holds the token; scope may consist of several.
	Record(ctx context.Context, scope string, token contract.Hash) (rec *contract.Record, answer contract.Answer, revision uint64, err error)
}

// Tracker is told what is written to a Redis that does not expire keys itself.
type Tracker interface {
	// Track hears of a key before it is written. expires is in milliseconds of
	// Unix time, 0 for never; guard marks what must not be dropped lightly.
	Track(key string, expires int64, guard bool)
}

// Options of a Revoker.
type Options struct {
	Store store.Store
	// Subjects says which kinds revoke what.
	Subjects map[*model.Kind]Subject
	Source   Source
	Auth     Authenticator
	// Resolver says what the scopes of nodes consist of; nil is [scopes.Each].
	Resolver scopes.Resolver
	// Allowed reports whether a node's configuration contains a plugin; nobody
	// may ask about tokens otherwise.
	Allowed func(node Node, plugin string) bool
	// Planned returns when it is known what a node may ask about, or when ctx ends. A
	// filter that is welcomed starts anew, so its questions must have answers then. A
	// nil function knows at once.
	Planned func(ctx context.Context, node Node)
	// Redis is nil where there is none. The Revoker does not close it.
	Redis redis.UniversalClient
	// ChecksTokens reports whether a node's configuration has a chain: only then
	// its filter is told of Redis. With a nil function it is told after the first
	// question that it may ask.
	ChecksTokens func(node Node) bool
	// NodeRedis returns the Redis that filters may read, nil if there is none for
	// them; local says that the filter runs on this host. It must not contain a
	// credential that writes. A nil function has none for anybody.
	NodeRedis func(local bool) *contract.RedisSettings
	// Tracker is set for a Redis that is part of this process and ends with it;
	// without it keys get PXAT.
	Tracker Tracker
	// Refused, if set, hears of a filter that cannot be talked to, and why. It must not
	// block.
	Refused func(node Node, reason string)
	// RedisState, if set, hears what is the matter with Redis after each attempt to use
	// it, and nil when it is in order. RedisAhead hears, each time Redis is looked at, by
	// how much its clock is ahead, see [redisconn.Server].
	RedisState func(error)
	RedisAhead func(time.Duration)
	// Waits, if set, hears whom revocations wait for in vain, and when that is over. It must
	// not call the Revoker.
	Waits func(Waits)
	// Meter may be nil.
	Meter Meter
	Log   *slog.Logger
	// Now is the wall clock, Clock within what bounds it can be believed. Without a Clock
	// it is taken at its word. Store must end its rows by Clock.Earliest, and none before
	// [NoteTime].
	Now   func() time.Time
	Clock Clock
	// Places is how many links there are at once, and whose, MaxNodeLinks bounds those of
	// one node; 0 means 64. How many filters are remembered follows from them; see known.go.
	Places       places.Limits
	MaxNodeLinks int
	// remote takes the place of Redis, in tests, and pace says how long it is not looked at
	// there: a day has many seconds in which nothing happens.
	remote remote
	pace   func() time.Duration
}

// Revoker revokes. Close must be called.
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
	// turn is held by whoever writes to Redis while it is in order, and by whoever
	// makes it so. It comes before mu.
	turn turn
	work chan struct{} // wakes the publisher

	seen chan struct{} // wakes the owner of the known filters
	// persist is held while known filters are written, so that one that was
	// just introduced is not forgotten by an older picture. It guards written,
	// what this process has in the store of them; 0 stands for one that may be there.
	persist sync.Mutex
	written map[string]int64
	// before is what was persisted about Redis when this process began.
	before Epoch
	// alone says that no filter was known at the start, of a store that knows them all,
	// so that none can hold a lease from a predecessor of this process.
	alone bool
	// former says that filters may have been told to believe a Redis that this process
	// does not use, because it uses none.
	former bool
	// last is what the predecessor knew of the time. gap is how much has passed since by
	// the clock alone, 0 if that is little.
	last Times
	gap  time.Duration
	// hidden says that revocations may have been forgotten too early: there is a gap, or
	// one before was not mended. timed says that the time was noted since, so that the next
	// process sees none.
	hidden bool
	timed  atomic.Bool

	mu      sync.Mutex
	closing bool
	history *history
	links   map[*link]struct{}
	// joining holds links that have a place and are not welcomed yet.
	joining map[*link]struct{}
	// places are those of both. ofNode has them by node.
	places *places.Places
	ofNode map[string]map[*link]struct{}
	// lost holds lease ends of links that broke while their filter could answer.
	lost  []time.Time
	known map[string]*known // by name of their row; see known.go
	// knownOf counts the processes among them by node.
	knownOf map[string]int
	tally   tally // of known
	// readers are the scopes of which filters were linked, over all processes, or are about to
	// be; true says that it is in the store. reshapedAt is the newest revision, of those that
	// are published, at which one came to consist of others.
	readers    map[string]bool
	reshapedAt map[string]uint64
	// writes have begun and have no position yet; queue waits for the publisher;
	// rounds wait for filters; revokedAt is the position of the newest revocation.
	writes    map[*pending]struct{}
	queue     []*publication
	rounds    []*round
	revokedAt contract.Position
	// unconfirmed are the positions that some filter may not know of when it reads
	// Redis. settled is closed, and replaced, when one of them is confirmed.
	unconfirmed []contract.Position
	settled     chan struct{}
	// trust is in force since trustAt. Redis holds everything up to redisAt.
	trust            contract.Trust
	trustAt, redisAt contract.Position
	// serversAt is the position from which on filters are told to believe the servers
	// that are written to now; 0 if all have confirmed that, and nobody may reach
	// others that hold an old state.
	serversAt contract.Position
	// strangers says that filters which nobody remembers may read Redis as it was before
	// this process; see [Epoch.Forgotten].
	strangers bool
	stats     Stats
	waits     waits
}

// Stats is a snapshot for metrics.
type Stats struct {
	Links, LiveLeases, KnownFilters int
	// Revocations counts published commits; Unconfirmed those answered 503.
	Revocations, Unconfirmed uint64
	// Pending counts the revocations that are unconfirmed now.
	Pending int
	// Trusted says whether filters are told to believe Redis, RedisUp whether it is
	// in order and written to. RefillsDropped counts records that could not be made, or
	// were given up because too many waited for it.
	Trusted, RedisUp bool
	RefillsDropped   uint64
}

// New reads what was persisted and starts the owner of Redis. Nothing is served
// before what a predecessor has left is in the log.
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
		readers: map[string]bool{}, reshapedAt: map[string]uint64{},
		tally: tally{}, writes: map[*pending]struct{}{}, settled: make(chan struct{}),
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

// load begins the log with what the store remembers. What a predecessor has
// committed and not published is among it.
func (r *Revoker) load(tx store.Reader) error {
	var err error
	if r.last, r.gap, err = resumeTime(tx, r.o.Clock); err != nil {
		return err
	}
	r.hidden = r.gap > 0 || r.last.Unmended
	rows, err := tx.List(tombstones, store.Query{})
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b *model.Resource) int { return cmp.Compare(a.Revision, b.Revision) })
	entries, now := make([]entry, 0, len(rows)), r.o.Clock.Earliest()
	for _, row := range rows {
		e, ok := row.Spec.(*Tombstone).entry(row.Revision)
		if e.expires == 0 { // of an older release, and for ever
			e.expires = row.Modified.Add(contract.RecordLife + expiryMargin).UnixMilli()
		}
		if ok && e.live(now) {
			entries = append(entries, e)
		}
	}
	r.history = newHistory(now, entries)
	filterRows, err := tx.List(filters, store.Query{})
	if err != nil {
		return err
	}
	for _, row := range filterRows {
		f := row.Spec.(*Filter)
		// What nobody has measured may not have passed for the filter.
		r.enter(row.Name, &known{seen: time.UnixMilli(f.Seen).Add(r.gap), welcomed: true})
		r.written[row.Name] = f.Seen
	}
	readerRows, err := tx.List(readers, store.Query{})
	if err != nil {
		return err
	}
	for _, row := range readerRows {
		r.readers[row.Name] = true
	}
	r.forgetOld()
	if r.before, err = storedEpoch(tx); err != nil {
		return err
	}
	r.alone = len(r.known) == 0 && !r.before.Forgotten
	r.recall()
	if len(entries) > 0 || r.hidden || r.before.Forgotten || !r.before.Told { // some may be hidden that a predecessor has not confirmed
		r.revokedAt = r.history.at
		r.pend(r.history.at)
	}
	if r.keeper != nil {
		r.keeper.load()
	}
	return nil
}

// Close lets publications that wait finish within ctx, ends all links, and returns
// when every goroutine has ended.
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
	r.calls.running.Wait()
	r.owned.Wait()
	return errors.Join(ctx.Err(), r.handOver(context.WithoutCancel(ctx)))
}

// Stats returns a snapshot.
func (r *Revoker) Stats() Stats {
	up, dropped := r.keeper.state()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	now := time.Now()
	s.Links, s.KnownFilters, s.Pending = len(r.links), len(r.known), len(r.unconfirmed)
	for l := range r.links {
		if l.lease.After(now) {
			s.LiveLeases++
		}
	}
	s.Trusted, s.RedisUp, s.RefillsDropped = r.trust.Epoch != 0, up, dropped
	return s
}

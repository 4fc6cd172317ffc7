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
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
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
}

// Authenticator proves who opens a link; see identity.
type Authenticator interface {
	// Authenticate checks that a token is good for a node; an empty node id is
	// that of the token.
	Authenticate(ctx context.Context, node, token string) (Node, error)
}

// Source is the truth about tokens; see oauth.
type Source interface {
	// Record returns nil for an unknown or ended token, and in either case the
	// revision of the state that was read.
	Record(ctx context.Context, scope string, token contract.Hash) (rec *contract.Record, revision uint64, err error)
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
	// Allowed reports whether a node's configuration contains a plugin; nobody
	// may ask about tokens otherwise.
	Allowed func(node Node, plugin string) bool
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
	// Tracker is set for the embedded Redis; without it keys get PXAT.
	Tracker Tracker
	Log     *slog.Logger
	// Now is the wall clock, for expiries only.
	Now func() time.Time
	// MaxLinks bounds links, MaxNodeLinks those of one node; 0 means 4096, 64.
	// How many filters are remembered follows from them; see known.go.
	MaxLinks, MaxNodeLinks int
}

// Revoker revokes. Close must be called.
type Revoker struct {
	o       Options
	log     *slog.Logger
	started time.Time
	ctx     context.Context
	cancel  context.CancelFunc
	owned   sync.WaitGroup
	staged  staged
	redis   guard
	signer  signer

	introspections atomic.Uint64
	seen           chan struct{} // wakes the owner of the known filters
	// persist is held while known filters are written, so that one that was
	// just introduced is not forgotten by an older picture. It guards written,
	// what this process has in the store of them.
	persist sync.Mutex
	written map[string]int64
	// alone says that no filter was known at the start, so that none can hold a
	// lease from a predecessor of this process.
	alone bool

	mu      sync.Mutex
	closing bool
	journal journal
	links   map[*link]struct{}
	// joining holds links that have a place and are not welcomed yet.
	joining map[*link]struct{}
	// lost holds lease ends of links that broke while their filter could answer.
	lost  []time.Time
	known map[string]*known // by name of their row; see known.go
	epoch uint64
	stats Stats
}

// Stats is a snapshot for metrics.
type Stats struct {
	Links, LiveLeases, KnownFilters int
	// Revocations counts published commits; Unconfirmed those answered 503.
	Revocations, Unconfirmed uint64
	// Introspections counts the questions of filters, refused ones included.
	Introspections uint64
	// Lag is how long the latest publication took.
	Lag   time.Duration
	Epoch uint64
	// RedisUp says whether Redis is written to; RefillsDropped counts records
	// that were not written because it was slow or away.
	RedisUp        bool
	RefillsDropped uint64
}

// New reads what was persisted and starts the owner of Redis.
func New(ctx context.Context, o Options) (*Revoker, error) {
	if o.Store == nil || o.Source == nil || o.Auth == nil || o.Allowed == nil || o.Log == nil {
		return nil, errors.New("revoke: store, source, authenticator, permission and log are required")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxLinks, o.MaxNodeLinks = cmp.Or(o.MaxLinks, 4096), cmp.Or(o.MaxNodeLinks, 64)
	r := &Revoker{
		o: o, log: o.Log, started: time.Now(), seen: make(chan struct{}, 1),
		links: map[*link]struct{}{}, joining: map[*link]struct{}{}, known: map[string]*known{}, written: map[string]int64{},
	}
	if err := o.Store.View(ctx, r.load); err != nil {
		return nil, fmt.Errorf("read revocations: %w", err)
	}
	r.signer.store, r.signer.now = o.Store, o.Now
	if _, err := r.signer.renew(ctx); err != nil {
		return nil, err
	}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	r.redis.init(r)
	r.owned.Go(r.remember)
	r.owned.Go(r.renewKeys)
	if o.Redis != nil {
		r.owned.Go(r.redis.run)
		for range refillers {
			r.owned.Go(r.redis.refill)
		}
	}
	return r, nil
}

func (r *Revoker) load(tx store.Reader) error {
	rows, err := tx.List(tombstones, store.Query{})
	if err != nil {
		return err
	}
	slices.SortFunc(rows, func(a, b *model.Resource) int { return cmp.Compare(a.Revision, b.Revision) })
	entries := make([]entry, 0, len(rows))
	for _, row := range rows {
		t := row.Spec.(*Tombstone)
		if inv, ok := t.invalidation(row.Revision); ok {
			entries = append(entries, entry{inv: inv, expires: t.Expires})
		}
	}
	r.journal.add(r.o.Now(), entries)
	// What the predecessor published, and in what order, is not known.
	for i := range r.journal.entries {
		r.journal.entries[i].high = r.journal.newest
	}
	if row, err := tx.Get(newest, "", singleton); err == nil {
		r.journal.newest = max(r.journal.newest, row.Revision)
	}
	if row, err := tx.Get(epochs, "", singleton); err == nil {
		r.epoch = row.Spec.(*Epoch).Epoch
	}
	rows, err = tx.List(filters, store.Query{})
	for _, row := range rows {
		f := row.Spec.(*Filter)
		r.known[row.Name] = &known{seen: time.UnixMilli(f.Seen), welcomed: true}
		r.written[row.Name] = f.Seen
	}
	r.alone = len(rows) == 0
	return err
}

// Close ends all links, lets publications that wait finish within ctx, and
// returns when every goroutine has ended.
func (r *Revoker) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	for l := range r.links {
		l.end()
	}
	r.mu.Unlock()
	r.redis.jobs.wait(ctx)
	r.cancel()
	r.redis.jobs.running.Wait()
	r.owned.Wait()
	return ctx.Err()
}

// Stats returns a snapshot.
func (r *Revoker) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	now := time.Now()
	s.Links, s.KnownFilters, s.Epoch = len(r.links), len(r.known), r.epoch
	for l := range r.links {
		if l.lease.After(now) {
			s.LiveLeases++
		}
	}
	s.Introspections = r.introspections.Load()
	s.RedisUp, s.RefillsDropped = r.redis.up.Load(), r.redis.dropped.Load()
	return s
}

package tokencache

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// retireTimeout bounds how long [Cache.Close] waits for the closing of clients of Redis.
const retireTimeout = 5 * time.Second

// Cache is the token cache of one filter process. It is safe for concurrent use
// and shared by all filter configurations with the same settings; whoever
// shares it closes it once.
type Cache struct {
	table *table
	clock Clock
	log   *slog.Logger
	// linkTrouble is what was reported of the link last; it belongs to its goroutine.
	linkTrouble string
	linkFiles   linkFiles
	opts        Options

	// lease lets L1 answer; nil if there is none.
	lease atomic.Pointer[lease]
	// leasing keeps lease and witness the same.
	leasing sync.Mutex
	// lastLease is when the newest lease began, nil if there was none.
	lastLease atomic.Pointer[Instant]
	// witness shows others what makes answers of L1 void; nil if nobody can read it.
	witness *witness
	// standing is never nil; amending is held while it is replaced. believing is held
	// while a message of the control plane changes what is believed, so that look-ups
	// begin before it or after, and not in the middle.
	standing  atomic.Pointer[standing]
	amending  sync.Mutex
	believing sync.RWMutex
	inUse     inUse
	// session is the link that was welcomed, nil while there is none.
	session atomic.Pointer[session]
	// coming is closed unless look-ups wait for a link: during the first attempt, and while
	// the control plane has taken a connection and not said Welcome. Only the link's
	// goroutine replaces and closes it. hastened ends the pause between two attempts.
	coming   atomic.Pointer[chan struct{}]
	hastened chan struct{}

	instance string
	config   atomic.Pointer[config]
	// configuring is held while config changes, and by nobody who waits for a disk.
	// base are the settings as they were read, level2 what the control plane said
	// beyond them, nil if nothing, and lastEpoch the newest epoch that was believed.
	// departed says that the session has said goodbye, or is about to.
	configuring sync.Mutex
	base        *contract.Settings
	level2      *contract.Level2
	departed    bool
	lastEpoch   contract.Epoch
	changed     chan struct{} // the link's goroutine looks at config again
	disk        disk
	flights     flights
	counters    counters

	ctx    context.Context
	cancel context.CancelFunc
	owned  sync.WaitGroup
	// retiring are the clients of Redis that are being closed.
	retiring sync.WaitGroup
	once     sync.Once
	left     sync.Once
}

// config is the settings in force with what was made of them.
type config struct {
	settings    *contract.Settings
	l2          *level2   // nil without Redis
	verifier    *verifier // nil if records need no signature
	negativeTTL time.Duration
	grace       time.Duration
	maxBytes    int64
}

// static says that there is no control plane: no link, no lease, no L1; what
// Redis says is the truth.
func (c *config) static() bool { return c.settings.ControlPlane == nil }

// ownScopes are those of a static configuration that names none.
var ownScopes = []string{""}

// scopes are whose credentials a look-up accepts that began at a standing where it may
// read Redis.
func (c *config) scopes(began *standing) *contract.Scopes {
	switch {
	case !c.static():
		return began.scopes
	case len(c.settings.Scopes) == 0:
		return &contract.Scopes{Members: ownScopes}
	case len(c.settings.Scopes) == 1:
		return &contract.Scopes{Of: c.settings.Scopes[0], Members: c.settings.Scopes}
	}
	return &contract.Scopes{Members: c.settings.Scopes}
}

// Open starts a cache. It fails on settings that cannot be read or used, but
// not because an authority cannot be reached: connections are made as needed.
func Open(opts Options) (*Cache, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	settings := opts.Settings
	var watch *settingsFile
	if opts.Path != "" {
		var err error
		if watch, settings, err = watchSettings(opts.Path); err != nil {
			return nil, err
		}
	}
	c := &Cache{
		clock: opts.Clock, log: opts.Logger, opts: opts,
		instance: newInstance(cmp.Or(opts.Process, os.Getenv(contract.ProcessEnv))),
		changed:  make(chan struct{}, 1), hastened: make(chan struct{}, 1),
	}
	first := make(chan struct{})
	c.coming.Store(&first)
	c.flights.cache = c
	c.inUse.ready = make(chan struct{}, 1)
	c.openDisk()
	c.base, c.level2 = settings, c.recall(settings)
	c.disk.onDisk = c.recallTrust(settings)
	trust, scopes := c.recalled(c.disk.onDisk)
	c.standing.Store(&standing{trust: trust, scopes: scopes})
	inForce := effective(c.base, c.level2)
	err := c.checkRedis(inForce)
	var initial *config
	if err == nil {
		initial, err = c.configure(inForce, trust, nil)
	}
	if err != nil {
		tenants.leave(opts.Dir)
		watch.close()
		return nil, err
	}
	c.config.Store(initial)
	c.witness = newWitness(c.clock)
	c.table = newTable(initial.maxBytes, c.clock)
	c.table.witness = c.witness
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.disk.files != nil {
		c.start("run directory", c.disk.run)
	}
	c.start("link", func() {
		defer close(c.disk.stop) // a goodbye waits for the disk
		c.keepLink()
	})
	if watch != nil {
		c.start("settings", func() { c.followSettings(watch) })
	}
	return c, nil
}

// openDisk prepares the run directory, if there is one.
func (c *Cache) openDisk() {
	d := &c.disk
	d.log, d.moved, d.patience = c.log, c.acknowledge, cmp.Or(c.opts.leaveTimeout, forgetTimeout)
	d.woken, d.stop, d.attempted = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	if c.opts.Dir == "" {
		return
	}
	d.tenancy = tenants.enter(c.opts.Dir)
	d.files = c.opts.openFiles(c.opts.Dir)
}

// acknowledge lets the session say how far the filter is now.
func (c *Cache) acknowledge() {
	if s := c.session.Load(); s != nil {
		s.acknowledge()
	}
}

// start runs fn in a goroutine that Close waits for.
func (c *Cache) start(name string, fn func()) {
	c.owned.Add(1)
	go func() {
		defer c.owned.Done()
		c.opts.Recover(name, fn)
	}()
}

// configure makes a config from settings and trust, and keeps of the last one
// what did not change.
func (c *Cache) configure(s *contract.Settings, trust contract.Trust, last *config) (*config, error) {
	next := &config{
		settings:    s,
		negativeTTL: time.Duration(s.Cache.NegativeTTL) * time.Millisecond,
		grace:       time.Duration(s.Cache.Grace) * time.Millisecond,
		maxBytes:    s.Cache.MaxBytes,
	}
	if next.negativeTTL == 0 {
		next.negativeTTL = contract.DefaultNegativeTTL
	}
	if next.maxBytes == 0 {
		next.maxBytes = contract.DefaultCacheBytes
	}
	switch {
	case s.ControlPlane == nil && len(s.RecordKeys) == 0:
	case last != nil && last.verifier != nil && slices.EqualFunc(last.verifier.keys, s.RecordKeys, sameKey):
		next.verifier = last.verifier
	default:
		next.verifier = &verifier{keys: s.RecordKeys}
	}
	var err error
	if next.l2, err = c.openL2(next, trust, last); err != nil {
		return nil, fmt.Errorf("token cache: redis: %w", err)
	}
	return next, nil
}

// checkRedis refuses settings of a Redis that cannot be used. It may wait for a disk.
func (c *Cache) checkRedis(s *contract.Settings) error {
	if s.Redis == nil {
		return nil
	}
	if err := c.opts.checkStore(s.Redis); err != nil {
		return fmt.Errorf("token cache: redis: %w", err)
	}
	return nil
}

// openL2 makes the second level for a config. A client connects to the servers of
// one trust only: a new one for others leaves no connection behind that leads to
// the former. Before anything is vouched for there is none.
func (c *Cache) openL2(next *config, trust contract.Trust, last *config) (*level2, error) {
	s := next.settings
	if s.Redis == nil {
		return nil, nil
	}
	var old *level2
	if last != nil && last.settings.Redis != nil && *last.settings.Redis == *s.Redis && last.static() == next.static() {
		old = last.l2
	}
	switch {
	case next.static():
		trust.Servers = nil
	case trust.Epoch == 0:
		return old, nil // which nobody reads until there is trust again
	}
	if old != nil && slices.Equal(old.servers, trust.Servers) {
		return old, nil
	}
	st, err := c.opts.openStore(s.Redis, trust.Servers)
	if err != nil {
		return nil, err
	}
	l2 := &level2{store: st, servers: trust.Servers, breaker: breaker{clock: c.clock}}
	if st.byNodes() {
		l2.nodes = newNodes(c.clock, c.opts.RedisTimeout/2)
	}
	return l2, nil
}

func sameKey(a, b contract.RecordKey) bool { return a.ID == b.ID && bytes.Equal(a.Key, b.Key) }

// Lookup asks L1, as [engine.Tokens] describes. It does no I/O, waits for
// nobody but the copying of a record, and does not allocate. Without a live
// lease every answer is Miss.
func (c *Cache) Lookup(hash contract.Hash, dst []byte) (n int, answer contract.Answer) {
	now := c.clock.Now()
	if !c.leased(now) {
		c.counters.bypassed.Add(1)
		return 0, contract.Miss
	}
	return c.table.lookup(&hash, dst, now)
}

// Peek is Lookup for a request that has been counted already: it finds the same and counts
// nothing.
func (c *Cache) Peek(hash contract.Hash, dst []byte) (n int, answer contract.Answer) {
	now := c.clock.Now()
	if !c.leased(now) {
		return 0, contract.Miss
	}
	return c.table.peek(&hash, dst, now)
}

// Close says goodbye to the control plane, answers every waiter and returns
// when no goroutine of the cache is left, but for one that closes a client of Redis and
// that a disk keeps for longer than retireTimeout. Look-ups are Miss and Unavailable
// from then on. It may be called more than once.
func (c *Cache) Close() {
	c.once.Do(func() {
		c.flights.close()
		c.cancel()
	})
	c.owned.Wait()
	c.left.Do(func() {
		tenants.leave(c.opts.Dir)
		c.setLease(nil)
		c.witness.close()
		c.retireRedis(c.config.Load().l2)
	})
	c.waitRetired()
}

// retireRedis closes a client of Redis that nobody reads any more; nil is none. Closing waits for
// dials, and a dial may wait for the disk that has the authorities of Redis. So nobody who
// holds a lock may wait for it.
func (c *Cache) retireRedis(l2 *level2) {
	if l2 == nil {
		return
	}
	c.retiring.Go(func() {
		c.opts.Recover("closing redis", func() { l2.close(c.log) })
	})
}

// waitRetired waits for the clients that are being closed, for retireTimeout at most.
func (c *Cache) waitRetired() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.retiring.Wait()
	}()
	timer := time.NewTimer(retireTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		c.log.Warn("redis connections are not closed yet, and nobody waits for them any more")
	}
}

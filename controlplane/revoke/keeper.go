package revoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/store/recall"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	watchEvery = time.Second
	minBackoff = 100 * time.Millisecond
	maxBackoff = 2 * time.Second
)

var (
	errFell    = errors.New("a write failed")
	errReplica = errors.New("redis is not a primary")
	errClock   = errors.New("its clock is not the one that was written")
	errSetBack = errors.New("the clock was set back")
	errLost    = errors.New("revocations left the log before they were written")
)

// keeper owns what is written to Redis. It connects, puts Redis in order and watches it.
// Redis is in order when it holds every entry of the log and its clock says so. Other
// goroutines write to it only while it is in order.
type keeper struct {
	r      *Revoker
	remote remote
	// first is closed after the first attempt to put Redis in order.
	first  chan struct{}
	once   sync.Once
	fell   chan struct{} // wakes the keeper when a write has failed
	told   chan struct{} // wakes the keeper when every filter has heard of its servers, or may be forgotten
	queue  chan refill
	inUse  chan *inUseBatch
	owing  chan struct{} // wakes payOwed
	owners *recall.Cache // the owners of tokens and their floors

	mu sync.Mutex
	// ready says that Redis is in order. It becomes true only while turn is held. ordered
	// is closed while ready is true.
	ready   bool
	ordered chan struct{}
	// doubt is the reason why the present contents of Redis, or writes still in progress,
	// must not count; it is empty if they may. See late.go.
	doubt string
	// last is the latest end of a record that was written in this epoch, in milliseconds of
	// Unix time.
	last int64
	// unheard says that no filter was told yet of the servers that were persisted last, and
	// that some filters may believe others. Only the keeper's goroutine uses it.
	unheard bool
	// lost is the newest position that had been lost from the log when the keeper decided
	// whether the contents of Redis count. Only the keeper's goroutine uses it.
	lost contract.Position
	// stored is what was persisted. clock holds the clock that Redis holds, and a clock
	// that Redis may hold because its write got no answer.
	stored Epoch
	clock  [2]contract.Clock
	// writes counts writes of the clock.
	writes uint64
	// owed holds tokens whose records could not be written yet. dropped counts records that
	// were given up.
	owed    map[refill]struct{}
	dropped uint64
	// unread are the scopes of which it could not be read what they consist of.
	unread map[string]struct{}
	// ahead is how far the clock of Redis is ahead of the wall clock. lead is how far it is
	// ahead of the earliest time; see redisclock.go.
	ahead atomic.Int64
	lead  time.Duration
	// began is what the clock of each server would have shown at base: the minimum since
	// the server's contents were written. looked is the same from the last look alone.
	// setAhead says that the clock of a server was set ahead since. Only the keeper's
	// goroutine uses them.
	base          time.Time
	began, looked map[string]time.Time
	setAhead      bool
}

func newKeeper(r *Revoker, remote remote) *keeper {
	return &keeper{
		owners: ownersOf(r.o.Store, r.o.Subjects),
		r:      r, remote: remote, base: time.Now(), first: make(chan struct{}), fell: make(chan struct{}, 1),
		told: make(chan struct{}, 1), queue: make(chan refill, refillQueue), inUse: make(chan *inUseBatch),
		ordered: make(chan struct{}), owing: make(chan struct{}, 1), owed: map[refill]struct{}{}, unread: map[string]struct{}{},
	}
}

// isReady reports whether Redis is in order.
func (k *keeper) isReady() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ready
}

// setReady changes ready. mu is held.
func (k *keeper) setReady(ready bool) {
	switch {
	case ready == k.ready:
	case ready:
		close(k.ordered)
	default:
		k.ordered = make(chan struct{})
	}
	k.ready = ready
	k.r.waits.look()
}

// awaitOrder returns when Redis is in order. It returns false if ctx ends first.
func (k *keeper) awaitOrder(ctx context.Context) bool {
	k.mu.Lock()
	ordered := k.ordered
	k.mu.Unlock()
	select {
	case <-ordered:
		return true
	case <-ctx.Done():
		return false
	}
}

// attempted returns after the first attempt to put Redis in order, or when ctx ends.
func (k *keeper) attempted(ctx context.Context) {
	if k == nil {
		return
	}
	select {
	case <-k.first:
	case <-ctx.Done():
	}
}

// state returns values for metrics.
func (k *keeper) state() (up bool, dropped uint64) {
	if k == nil {
		return false, 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.ready, k.dropped
}

// epoch returns the epoch of what is written now.
func (k *keeper) epoch() contract.Epoch {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.stored.Epoch
}

// fail takes Redis out of order and wakes the keeper.
func (k *keeper) fail() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.setReady(false)
	select {
	case k.fell <- struct{}{}:
	default: // it is awake already
	}
}

// allTold reports whether no known filter believes servers other than the persisted ones.
func (k *keeper) allTold() bool {
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	return !k.unheard && k.r.told()
}

// heard wakes the keeper to persist that every filter has heard of its servers.
func (k *keeper) heard() {
	if k == nil {
		return
	}
	select {
	case k.told <- struct{}{}:
	default: // it will look anyway
	}
}

// run keeps Redis in order until the Revoker is closed.
func (k *keeper) run() {
	k.awaitFilters()
	backoff := minBackoff
	for k.r.ctx.Err() == nil {
		inOrder, err := k.session()
		k.mu.Lock()
		k.setReady(false)
		k.mu.Unlock()
		k.once.Do(func() { close(k.first) })
		if k.r.ctx.Err() != nil {
			return
		}
		k.tell(err)
		if inOrder {
			backoff = minBackoff
			continue // Redis was in order a moment ago, so there is no reason to wait
		}
		t := time.NewTimer(backoff)
		backoff = min(2*backoff, maxBackoff)
		select {
		case <-t.C:
		case <-k.r.ctx.Done():
			t.Stop()
		}
	}
}

// awaitFilters returns when the filters that a killed predecessor knew are linked again, or
// can no longer hold a lease from it. After that a new epoch is drawn, which voids what the
// filters read in Redis. A filter that is not linked then would refuse every token until it
// is. Until then nothing is written to Redis and no filter is told to believe it, so Redis
// confirms nothing either.
func (k *keeper) awaitFilters() {
	k.mu.Lock()
	wait := k.doubt != "" && k.stored.Epoch != 0
	k.mu.Unlock()
	if !wait {
		return
	}
	k.once.Do(func() { close(k.first) })
	late := time.NewTimer(time.Until(k.r.started.Add(contract.Lease)))
	defer late.Stop()
	for !k.r.reunited() {
		select {
		case <-k.r.arrived:
		case <-late.C:
			return
		case <-k.r.ctx.Done():
			return
		}
	}
}

// reunited reports whether every known filter is linked.
func (r *Revoker) reunited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	linked := map[*known]bool{}
	for l := range r.links {
		linked[l.known] = true
	}
	for _, k := range r.known {
		if !linked[k] {
			return false
		}
	}
	return true
}

// session puts Redis in order and returns when it no longer is.
func (k *keeper) session() (inOrder bool, err error) {
	ctx := k.r.ctx
	select {
	case <-k.fell: // a failure of the session before
	default:
	}
	k.settleWrites() // before their connections are closed
	servers, err := k.identify(ctx, k.remote.pin, k.greet)
	if err != nil {
		return false, err
	}
	if err := k.decide(ctx, servers); err != nil {
		return false, err
	}
	if err := k.restore(ctx); err != nil {
		return false, fmt.Errorf("put in order: %w", err)
	}
	k.once.Do(func() { close(k.first) })
	k.tell(nil)
	return true, k.watch(ctx, servers)
}

// tell passes on the state of Redis. An attempt is made every few seconds, so the receiver
// has to find out whether the state is news.
func (k *keeper) tell(err error) {
	if k.r.o.RedisState != nil {
		k.r.o.RedisState(err)
	}
}

// compareClocks passes on the largest difference between the wall clock and the clocks of
// the servers.
func (k *keeper) compareClocks(all []redisconn.Server) {
	var most time.Duration
	for i := range all {
		if all[i].Ahead.Abs() > most.Abs() {
			most = all[i].Ahead
		}
	}
	k.ahead.Store(int64(most))
	if k.r.o.RedisAhead != nil {
		k.r.o.RedisAhead(most)
	}
}

// settleWrites returns when all writes that began while Redis was in order have ended.
// Otherwise an old record could be written after the tombstone that replaces it.
func (k *keeper) settleWrites() {
	k.r.turn.Lock()
	defer k.r.turn.Unlock() // no write begins while Redis is not in order
}

// identify returns the ids of the primaries that are written to, or none if the servers do
// not tell. It fails for a replica.
func (k *keeper) identify(ctx context.Context, ask func(context.Context) ([]redisconn.Server, error), greet func([]redisconn.Server)) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	all, err := ask(ctx)
	if err != nil {
		return nil, err
	}
	greet(all)
	k.compareClocks(all)
	k.compareTimes(all)
	var ids []string
	for i := range all {
		if role := all[i].Role; role != "" && role != "master" {
			return nil, errReplica
		}
		if all[i].Identity() == "" {
			return nil, nil
		}
		ids = append(ids, all[i].Identity())
	}
	slices.Sort(ids)
	return ids, nil
}

// greet warns of a server that may evict keys that guard records. The records are then
// looked up at the control plane.
func (k *keeper) greet(all []redisconn.Server) {
	for i := range all {
		if strings.HasPrefix(all[i].Eviction, "allkeys") {
			k.r.log.Warn("redis may drop keys that have no expiry when its memory is full; tokens are then looked up at the control plane", "maxmemory_policy", all[i].Eviction)
		}
	}
}

// decide draws a new epoch if the contents of Redis cannot be trusted, and persists what is
// used from now on.
func (k *keeper) decide(ctx context.Context, servers []string) error {
	read, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	data, err := k.remote.clock(read)
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	k.mu.Lock()
	doubt := k.doubt
	k.mu.Unlock()
	same := slices.Equal(servers, k.stored.Servers)
	if !same { // an embedded server has ended with its control plane, so no filter can reach it
		k.unheard = !k.allTold() || !k.stored.Within
	}
	next := Epoch{Epoch: k.stored.Epoch, Servers: servers, Log: k.r.history.id, Told: k.allTold(), Within: k.r.o.Tracker != nil, Forgotten: k.r.forgets(), Layout: layout}
	why := k.distrust(servers, data)
	if why != "" {
		next.Epoch = drawEpoch()
		k.r.log.Info("a new epoch of redis is drawn: records written before are void", "reason", why)
	}
	if next.Epoch != k.stored.Epoch || next.Log != k.stored.Log || next.Told != k.stored.Told || next.Forgotten != k.stored.Forgotten || !same {
		if err := k.r.persistEpoch(ctx, next); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stored = next
	if why != "" {
		k.last = 0
	}
	if k.setAhead { // keys that are written from now on expire by the clock as it is now
		k.setAhead, k.began = false, k.looked
	}
	if k.clock[0], err = contract.ParseClock(data); err != nil {
		k.clock[0] = contract.Clock{}
	}
	if doubt != "" { // a doubt that arose during this decision still counts
		k.doubt = ""
	}
	return nil
}

// distrust returns the reason why the contents of Redis cannot be trusted, or an empty text
// if they can.
func (k *keeper) distrust(servers []string, data []byte) string {
	k.r.mu.Lock()
	k.lost = k.r.history.lost
	k.r.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	c, err := contract.ParseClock(data)
	switch {
	case k.stored.Epoch == 0:
		return "it is the first"
	case k.doubt != "":
		return k.doubt
	case !slices.Equal(servers, k.stored.Servers):
		return "it is another server"
	case k.outlived():
		return "the clock was set back, and records count for longer than revocations are remembered"
	case k.setAhead:
		return "its clock was set ahead, and records may have been dropped"
	case data == nil:
		return "it is empty"
	case err != nil:
		return "its clock cannot be read"
	case k.clock[0] != (contract.Clock{}) || k.clock[1] != (contract.Clock{}):
		if c != k.clock[0] && c != k.clock[1] {
			return "it has gone back, or somebody else has written"
		}
	case c.Epoch != k.stored.Epoch || c.Log != k.stored.Log:
		return "somebody else has written"
	case c.Revision > k.r.o.Store.Revision():
		return "the store has gone back"
	}
	if c.Log != k.r.history.id {
		c.Position = 0 // the position is from another log
	}
	if k.lost > c.Position {
		return "more was revoked in the meantime than is remembered"
	}
	return ""
}

// restore writes the entries of the log, then the clock, and takes Redis into use.
func (k *keeper) restore(ctx context.Context) error {
	at, err := k.replay(ctx, 0)
	if err != nil {
		return err
	}
	k.r.turn.Lock()
	defer k.r.turn.Unlock()
	if at, err = k.replay(ctx, at); err != nil { // entries that were published in the meantime
		return err
	}
	// The change of trust takes the next position. A filter that has applied it must find a
	// clock that is not behind that position.
	next := contract.Trust{Epoch: k.stored.Epoch, Servers: k.stored.Servers}
	k.r.mu.Lock()
	changed := !sameTrust(k.r.trust, next)
	k.r.mu.Unlock()
	if err := k.writeMembers(ctx); err != nil {
		return err
	}
	clock := at
	if changed {
		clock++
	}
	if err := k.writeClock(ctx, clock); err != nil {
		return err
	}
	k.r.mu.Lock()
	defer k.r.mu.Unlock()
	k.mu.Lock()
	k.setReady(k.doubt == "")
	k.mu.Unlock()
	k.r.redisAt = at
	if k.r.strangers { // a filter that was told of another epoch believes nothing there
		k.r.strangers = false
		k.heard()
	}
	if changed {
		if k.unheard {
			k.unheard, k.r.serversAt = false, k.r.history.at+1
		}
		k.r.announce(next)
	}
	k.r.advance(nil)
	return nil
}

// replay writes the entries of the log after a position, and returns the newest position.
// It fails if the log has lost entries there since decide: Redis would otherwise count as
// holding them.
func (k *keeper) replay(ctx context.Context, from contract.Position) (contract.Position, error) {
	k.r.mu.Lock()
	at, lost := k.r.history.at, k.r.history.lost
	entries := slices.Clone(k.r.history.after(from))
	k.r.mu.Unlock()
	if lost > max(from, k.lost) {
		return 0, errLost
	}
	for part := range slices.Chunk(entries, pipelineSize) {
		if err := k.writeEntries(ctx, part); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// watch checks the servers and the clock until one of them has changed.
func (k *keeper) watch(ctx context.Context, servers []string) error {
	tick := time.NewTicker(k.r.o.pace())
	defer tick.Stop()
	untold := false // the last noteTold failed and is repeated
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-k.fell:
			return errFell
		case <-k.told:
			untold = !k.noteTold(ctx)
			continue
		case <-tick.C:
			tick.Reset(k.r.o.pace())
		}
		if untold {
			untold = !k.noteTold(ctx)
		}
		now, err := k.identify(ctx, k.remote.identify, func([]redisconn.Server) {})
		if err != nil {
			return err
		}
		if !slices.Equal(now, servers) {
			return errors.New("another redis answers")
		}
		if err := k.compare(ctx); err != nil {
			return err
		}
		if k.isOutlived() {
			return errSetBack
		}
		if k.setAhead {
			return errSetAhead
		}
	}
}

// noteTold persists whether every filter has heard of the servers, and whether filters that
// are not remembered may still read Redis. It reports whether this succeeded. Without it
// the next process would wait for filters without need.
func (k *keeper) noteTold(ctx context.Context) bool {
	next := k.stored
	if next.Told, next.Forgotten = k.allTold(), k.r.forgets(); next.Told == k.stored.Told && next.Forgotten == k.stored.Forgotten {
		return true
	}
	if err := k.r.persistEpoch(ctx, next); err != nil {
		if ctx.Err() == nil {
			k.r.log.Error("it could not be noted that all gateways know the servers of redis", "error", err)
		}
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.stored = next
	return true
}

// compare checks the clock in Redis. The result is ignored if the clock was written in the
// meantime. A clock whose write is in progress is accepted as well.
func (k *keeper) compare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	k.mu.Lock()
	writes, want, may := k.writes, k.clock[0], k.clock[1]
	k.mu.Unlock()
	data, err := k.remote.clock(ctx)
	if err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	got, err := contract.ParseClock(data)
	k.mu.Lock()
	defer k.mu.Unlock()
	if known := got == want || (got == may && may != contract.Clock{}); k.writes == writes && (err != nil || !known) {
		return errClock
	}
	return nil
}

// load reads what was persisted about Redis. A predecessor that did not end in good order
// may have left a write in progress.
func (k *keeper) load() {
	k.stored = k.r.before
	switch {
	case !k.stored.Clean:
		k.doubt = "a predecessor may have left a write under way"
	case k.stored.Epoch != 0 && k.stored.Layout != layout:
		k.doubt = "a release has written it that writes otherwise"
	case k.r.hidden:
		k.doubt = "revocations may have been forgotten too early: more time has passed between two processes than anybody has measured"
	}
	k.last = k.r.last.Until
	k.stored.Clean, k.unheard = false, !k.stored.Told
}

package revoke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn"
)

const (
	// redisTimeout bounds one exchange with Redis.
	redisTimeout = 700 * time.Millisecond
	pingEvery    = time.Second
	minBackoff   = 100 * time.Millisecond
	maxBackoff   = 2 * time.Second
	stripes      = 256
	refillers    = 2
	refillQueue  = 1024
	pipelineSize = 500
	// watched is a channel nobody publishes to; the subscription is a
	// connection whose loss is an event.
	watched = contract.RedisClockKey
)

var errDown = errors.New("redis is not in order")

// Open returns a client with the timeouts that this package relies on.
func Open(settings contract.RedisSettings) (redis.UniversalClient, error) {
	return redisconn.Open(redisconn.Options{Settings: settings, Timeout: redisTimeout, DialTimeout: redisTimeout})
}

// guard owns what the control plane writes to Redis. While up is false nothing
// is written but by its own goroutine, which puts Redis in order again.
type guard struct {
	r       *Revoker
	jobs    jobs
	up      atomic.Bool
	dropped atomic.Uint64
	first   chan struct{} // closed after the first attempt to connect
	once    sync.Once
	queue   chan refill

	// gate is held shared by writers and exclusively while order is restored.
	gate    sync.RWMutex
	stripes [stripes]sync.Mutex
	clock   sync.Mutex // serialises writes of the clock

	epoch sync.Mutex // serialises raising
	// written says that the current epoch may stand in Redis; an epoch that
	// does not need not be raised again.
	written bool

	mu     sync.Mutex
	cancel context.CancelFunc // ends the current session
}

type refill struct {
	scope string
	token contract.Hash
}

func (g *guard) init(r *Revoker) {
	g.r, g.first, g.queue, g.written = r, make(chan struct{}), make(chan refill, refillQueue), true
}

// fail takes Redis out of use and makes its owner restore order.
func (g *guard) fail() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.up.Store(false)
	if g.cancel != nil {
		g.cancel()
	}
}

// run connects, restores order and watches, until the Revoker is closed.
func (g *guard) run() {
	backoff, broken := minBackoff, false
	for g.r.ctx.Err() == nil {
		begun := time.Now()
		err := g.session(broken)
		broken = true
		g.fail()
		g.once.Do(func() { close(g.first) })
		if g.r.ctx.Err() != nil {
			return
		}
		g.r.log.Warn("connection to redis ended", "error", err)
		if time.Since(begun) > 2*maxBackoff {
			backoff = minBackoff
		}
		t := time.NewTimer(backoff)
		backoff = min(2*backoff, maxBackoff)
		select {
		case <-t.C:
		case <-g.r.ctx.Done():
			t.Stop()
		}
	}
}

// session is one connection that is watched. broken says that an earlier one
// was lost.
func (g *guard) session(broken bool) error {
	ctx, cancel := context.WithCancel(g.r.ctx)
	defer cancel()
	g.mu.Lock()
	g.cancel = cancel
	g.mu.Unlock()
	sub := g.r.o.Redis.Subscribe(ctx, watched)
	// A read that waits knows no context: closing ends it.
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		if stop() {
			_ = sub.Close()
		}
	}()
	if _, err := sub.ReceiveTimeout(ctx, redisTimeout); err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	id, err := g.identity(ctx)
	if err != nil {
		return err
	}
	if err := g.restore(ctx, broken); err != nil {
		return fmt.Errorf("restore order: %w", err)
	}
	g.once.Do(func() { close(g.first) })
	return g.watch(ctx, sub, id)
}

// watch returns when the connection is lost, silent, or leads elsewhere.
func (g *guard) watch(ctx context.Context, sub *redis.PubSub, id string) error {
	pinged := false
	for {
		_, err := sub.ReceiveTimeout(ctx, pingEvery)
		var timeout interface{ Timeout() bool }
		switch {
		case err == nil:
			pinged = false
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.As(err, &timeout) || !timeout.Timeout():
			return fmt.Errorf("connection lost: %w", err)
		case pinged:
			return errors.New("redis is silent")
		}
		pinged = true
		if err := sub.Ping(ctx); err != nil {
			return fmt.Errorf("ping: %w", err)
		}
		now, err := g.identity(ctx)
		if err != nil {
			return err
		}
		if now != id {
			return errors.New("another redis answers")
		}
	}
}

// identity names the server behind the connection. Servers that do not tell are
// all alike. A replica is refused.
func (g *guard) identity(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	id := ""
	for _, section := range []string{"server", "replication"} {
		info, err := g.r.o.Redis.Info(ctx, section).Result()
		var refused redis.Error
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("identify redis: %w", err)
		}
		for line := range strings.Lines(info) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			switch {
			case name == "run_id", name == "master_replid":
				id += value + " "
			case name == "role" && value != "master":
				return "", fmt.Errorf("redis is a %s", value)
			}
		}
	}
	return id, nil
}

// restore makes the contents of Redis trustworthy and takes it into use.
func (g *guard) restore(ctx context.Context, broken bool) error {
	g.gate.Lock()
	defer g.gate.Unlock()
	same, err := g.sameClock(ctx)
	if err != nil {
		return err
	}
	if broken || !same {
		if err := g.bump(ctx); err != nil {
			return err
		}
		g.r.mu.Lock()
		g.r.broadcast(contract.FrameEpoch, nil, g.r.epoch)
		entries := slices.Clone(g.r.journal.entries)
		g.r.mu.Unlock()
		if err := g.writeTombstones(ctx, entries); err != nil {
			return err
		}
	}
	revision, err := g.writeClock(ctx)
	if err != nil {
		return err
	}
	g.mu.Lock()
	if ctx.Err() == nil {
		g.up.Store(true)
	}
	g.mu.Unlock()
	g.r.mu.Lock()
	behind := g.r.journal.newest > revision
	g.r.mu.Unlock()
	if behind { // published in the meantime, found Redis down and wrote nothing
		_, err = g.writeClock(ctx)
	}
	return err
}

// sameClock reports whether Redis holds the clock that was persisted.
func (g *guard) sameClock(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	data, err := g.r.o.Redis.Get(ctx, contract.RedisClockKey).Bytes()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the clock: %w", err)
	}
	c, err := contract.ParseClock(data)
	if err != nil {
		return false, nil // not ours; it is written anew
	}
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	return c.Epoch == g.r.epoch && c.Epoch != 0 && c.Revision >= g.r.journal.newest && c.Revision <= g.r.o.Store.Revision(), nil
}

// raise voids everything in Redis.
func (g *guard) raise(ctx context.Context) error {
	err := g.bump(ctx)
	g.fail()
	return err
}

// bump raises and persists the epoch, unless the current one was never written.
func (g *guard) bump(ctx context.Context) error {
	g.epoch.Lock()
	defer g.epoch.Unlock()
	if !g.written {
		return nil
	}
	g.r.mu.Lock()
	next := g.r.epoch + 1
	g.r.mu.Unlock()
	_, err := g.r.o.Store.Update(ctx, model.Config, func(tx store.Tx) error {
		stored, err := tx.Get(epochs, "", singleton)
		if err == nil { // an epoch that was used once must never come back
			next = max(next, stored.Spec.(*Epoch).Epoch+1)
		}
		return put(tx, &model.Resource{Kind: epochs, Name: singleton, Spec: &Epoch{Epoch: next}}, err)
	})
	if err != nil {
		return fmt.Errorf("persist the epoch: %w", err)
	}
	g.r.mu.Lock()
	g.r.epoch = next
	g.r.mu.Unlock()
	g.written = false
	level := slog.LevelWarn
	if next == 1 { // a store that has never met a Redis
		level = slog.LevelInfo
	}
	g.r.log.Log(ctx, level, "epoch of redis raised: records written before are void", "epoch", next)
	return nil
}

// revoke writes tombstones and the clock.
func (g *guard) revoke(entries []entry) error {
	if g.r.o.Redis == nil {
		return nil
	}
	select {
	case <-g.first:
	case <-g.r.ctx.Done():
		return g.r.ctx.Err()
	}
	if !g.up.Load() {
		return errDown
	}
	g.gate.RLock()
	defer g.gate.RUnlock()
	if !g.up.Load() {
		return errDown
	}
	unlock := g.lock(entries)
	err := g.writeTombstones(g.r.ctx, entries)
	unlock()
	if err == nil {
		_, err = g.writeClock(g.r.ctx)
	}
	if err != nil {
		g.fail()
	}
	return err
}

// lock takes the locks of all token hashes, in the order of the stripes.
func (g *guard) lock(entries []entry) (unlock func()) {
	var need [stripes]bool
	for i := range entries {
		if entries[i].inv.Subject == contract.SubjectToken {
			need[entries[i].inv.Token[0]] = true
		}
	}
	for i := range need {
		if need[i] {
			g.stripes[i].Lock()
		}
	}
	return func() {
		for i := range need {
			if need[i] {
				g.stripes[i].Unlock()
			}
		}
	}
}

func (g *guard) writeTombstones(ctx context.Context, entries []entry) error {
	now := g.r.o.Now()
	for part := range slices.Chunk(entries, pipelineSize) {
		pipe := g.r.o.Redis.Pipeline()
		for i := range part {
			if e := &part[i]; e.live(now) {
				g.set(ctx, pipe, redisKey(&e.inv), contract.MarshalTombstone(e.inv.Revision), e.expires, true)
			}
		}
		if err := flush(ctx, pipe); err != nil {
			return fmt.Errorf("write tombstones: %w", err)
		}
	}
	return nil
}

// set queues one write with its absolute expiry.
func (g *guard) set(ctx context.Context, pipe redis.Pipeliner, key string, value []byte, expires int64, tombstone bool) {
	a := redis.SetArgs{}
	switch {
	case g.r.o.Tracker != nil:
		g.r.o.Tracker.Track(key, expires, tombstone)
	case expires > 0:
		a.ExpireAt = time.UnixMilli(expires)
	}
	pipe.SetArgs(ctx, key, value, a)
}

func flush(ctx context.Context, pipe redis.Pipeliner) error {
	if pipe.Len() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	_, err := pipe.Exec(ctx)
	return err
}

// writeClock writes epoch and newest revision; they never go back.
func (g *guard) writeClock(ctx context.Context) (revision uint64, err error) {
	g.clock.Lock()
	defer g.clock.Unlock()
	g.epoch.Lock()
	g.r.mu.Lock()
	c := contract.Clock{Epoch: g.r.epoch, Revision: g.r.journal.newest}
	g.r.mu.Unlock()
	g.written = true
	g.epoch.Unlock()
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if err := g.r.o.Redis.Set(ctx, contract.RedisClockKey, c.Marshal(), 0).Err(); err != nil {
		return 0, fmt.Errorf("write the clock: %w", err)
	}
	return c.Revision, nil
}

// RaiseEpoch voids everything in Redis, because something in it was lost or
// dropped that records must be checked against.
func (r *Revoker) RaiseEpoch() { r.redis.fail() }

package telemetry

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Spread tells how far a revision has spread. Its functions return when it has spread that
// far, or with the error of the context, or with an error that says that this cannot be
// determined.
type Spread struct {
	// Published waits until all scopes that the write concerned show the revision.
	Published func(ctx context.Context, revision uint64) error
	// Acknowledged waits until no connected proxy of these scopes lacks it.
	Acknowledged func(ctx context.Context, revision uint64) error
}

// Bounds. A revision that takes longer than spreadTime counts as taking that long, which is
// above all buckets but the last. maxFollowed revisions are followed at the same time,
// because each event examines each of them. maxPending wait for their turn. Further ones are
// not followed, but counted.
const (
	spreadTime  = 90 * time.Second
	maxFollowed = 256
	maxPending  = 4096
)

// Convergence measures how long commits take to reach the change feed, the published
// configuration, and all proxies. Note is called at each commit. Run follows each commit
// separately, because commits concern different scopes and proxies, and one that hangs would
// make later ones look slow.
type Convergence struct {
	feed, published, acknowledged prometheus.Histogram
	skipped                       prometheus.Counter
	wake                          chan struct{}

	mu sync.Mutex
	// newest is the newest noted revision, and told the newest one that the feed has
	// reported.
	newest, told uint64
	pending      []noted // by revision
	unseen       []noted // not reported by the feed yet, by revision
}

type noted struct {
	revision uint64
	at       time.Time
}

// NewConvergence returns a meter that measures nothing until [Convergence.Begin].
func NewConvergence() *Convergence {
	h := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets})
	}
	return &Convergence{
		newest: math.MaxUint64, wake: make(chan struct{}, 1),
		feed:         h("feed_lag_seconds", "From a commit until a follower of the change feed was told.", workBuckets),
		published:    h("publish_duration_seconds", "From a commit until every scope that it concerned was planned and published.", spreadBuckets),
		acknowledged: h("convergence_duration_seconds", "From a commit until every connected proxy that it concerned had acknowledged it.", spreadBuckets),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Name: "convergence_skipped_total", Help: "Commits that were not measured, because too many were on their way or it could not be told.",
		}),
	}
}

// Begin starts measuring the commits after a revision. The commits during the start of a
// process would only show how long its start took.
func (c *Convergence) Begin(after uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newest, c.told = after, after
}

// Note records that a revision was committed. It ignores revisions that are not newer than
// all before: they are already known, or are commits that ended at the same time as a newer
// one, which stands for them.
func (c *Convergence) Note(revision uint64, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if revision <= c.newest {
		return
	}
	c.newest = revision
	if len(c.pending) >= maxPending || len(c.unseen) >= maxPending {
		c.skipped.Inc()
		return
	}
	n := noted{revision, at}
	c.pending = append(c.pending, n)
	if revision > c.told {
		c.unseen = append(c.unseen, n)
	} else {
		c.feed.Observe(0) // the feed was faster than the writer
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Told records that the change feed has reported a revision and all revisions before it.
func (c *Convergence) Told(revision uint64) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = max(c.told, revision)
	n := 0
	for ; n < len(c.unseen) && c.unseen[n].revision <= revision; n++ {
		c.feed.Observe(now.Sub(c.unseen[n].at).Seconds())
	}
	c.unseen = c.unseen[n:]
}

// Run follows the noted revisions until ctx ends, and returns its error.
func (c *Convergence) Run(ctx context.Context, s Spread) error {
	var following sync.WaitGroup
	defer following.Wait()
	turns := make(chan struct{}, maxFollowed)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case turns <- struct{}{}:
		}
		n, err := c.await(ctx)
		if err != nil {
			return err
		}
		following.Go(func() {
			defer func() { <-turns }()
			c.follow(ctx, s, n)
		})
	}
}

// await takes the next noted revision.
func (c *Convergence) await(ctx context.Context) (n noted, err error) {
	for {
		if n, ok := c.next(); ok {
			return n, nil
		}
		select {
		case <-ctx.Done():
			return n, ctx.Err()
		case <-c.wake:
		}
	}
}

func (c *Convergence) next() (n noted, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending) == 0 {
		return n, false
	}
	n, c.pending = c.pending[0], c.pending[1:]
	return n, true
}

// follow measures one revision. A late one counts with the time that it was waited for,
// because waiting longer is not worthwhile.
func (c *Convergence) follow(ctx context.Context, s Spread, n noted) {
	waiting, cancel := context.WithDeadline(ctx, n.at.Add(spreadTime))
	defer cancel()
	for _, stage := range []struct {
		wait func(context.Context, uint64) error
		took prometheus.Histogram
	}{{s.Published, c.published}, {s.Acknowledged, c.acknowledged}} {
		err := stage.wait(waiting, n.revision)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && waiting.Err() == nil:
			c.skipped.Inc()
			return
		}
		stage.took.Observe(time.Since(n.at).Seconds())
	}
}

// Collectors lists the metrics.
func (c *Convergence) Collectors() []prometheus.Collector {
	return []prometheus.Collector{c.feed, c.published, c.acknowledged, c.skipped}
}

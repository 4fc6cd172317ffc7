package assembly

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/steady"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/alarm"
)

// clocks watches the clock of this machine: whether it was set, and how far it is from the
// clock of Redis. Both share one condition, which shows the worse of the two.
type clocks struct {
	board *health.Board
	wall  *steady.Clock

	mu    sync.Mutex
	redis time.Duration // how far the clock of Redis is ahead
}

func newClocks(b *health.Board, wall *steady.Clock) *clocks {
	c := &clocks{board: b, wall: wall}
	b.Probe(conditionClock, func(context.Context) { c.judge() })
	return c
}

// redisAhead implements [revoke.Options.RedisAhead].
func (c *clocks) redisAhead(ahead time.Duration) {
	c.mu.Lock()
	c.redis = ahead
	c.mu.Unlock()
	c.judge()
}

// judge sets the condition of the clocks.
func (c *clocks) judge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch moved := c.wall.Moved(); {
	case moved.Abs() > steady.Apart:
		c.board.Set(conditionClock, wasSet(moved))
	case c.redis.Abs() > contract.ClocksApart:
		c.board.Set(conditionClock, redisDiffers(c.redis, c.wall.Now().UTC()))
	default:
		c.board.Good(conditionClock)
	}
}

// watch looks at the clock until ctx ends. It has to poll, because the system does not report
// that a clock is set.
func (c *clocks) watch(ctx context.Context) error {
	tick := time.NewTicker(alarm.Slice)
	defer tick.Stop()
	for {
		c.judge()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

func wasSet(moved time.Duration) health.Finding {
	reason, way := "set_ahead", "ahead"
	if moved < 0 {
		reason, way = "set_back", "back"
	}
	return health.Finding{State: health.Degraded, Reason: reason, Text: fmt.Sprintf(
		"the clock of this machine was set %s by %s within the last %d hours, or the machine stood still for so long. Revocations hold; what has ended is kept for longer, and records in redis may end early. This is over %[3]d hours after the clock is right. If it is right now, restarting the control plane ends it at once; if it is wrong, set it first (timedatectl, chronyc tracking)",
		way, moved.Abs().Round(time.Second), int(steady.Window.Hours()))}
}

func redisDiffers(ahead time.Duration, here time.Time) health.Finding {
	reason := cmp.Or(map[bool]string{true: "redis_ahead"}[ahead > 0], "redis_behind")
	return health.Finding{State: health.Degraded, Reason: reason, Text: fmt.Sprintf(
		"the clock of this machine says %s, that of redis %s: one of them is wrong. Records in redis may be dropped too late, or end too early, by the difference, and tokens end by the clock of each proxy. Set both by a time server (timedatectl, chronyc tracking)",
		here.Format(time.RFC3339), here.Add(ahead).Format(time.RFC3339))}
}

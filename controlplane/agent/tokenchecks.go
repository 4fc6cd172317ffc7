package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/filter/contract"
)

// tokensEvery bounds how often requests for the conditions make the agent check Redis. Each
// check opens a connection.
const tokensEvery = contract.Lease

// watchTokenChecks checks while the control plane is away, even if nobody requests the
// conditions. Each attempt to reach the control plane triggers it.
func (a *Agent) watchTokenChecks(ctx context.Context) {
	now, lost, last := time.Now(), a.lost.Load(), a.looked.Load()
	if lost != nil && now.Sub(*lost) >= contract.Lease && (last == nil || now.Sub(*last) >= tokensEvery) {
		a.judgeTokenChecks(ctx)
	}
}

// judgeTokenChecks finds out whether the filter of this proxy can decide tokens. It reads
// Redis itself, because a filter reports nothing while there are no requests. The control
// plane replaces a Redis that cannot be read, and Redis replaces a control plane that is
// away.
func (a *Agent) judgeTokenChecks(ctx context.Context) {
	now := time.Now()
	a.looked.Store(&now)
	if !a.checksTokens() {
		a.conditions.Good(conditionRedis)
		a.conditions.Good(conditionTokenChecks)
		return
	}
	where, why := a.redisTrouble(ctx, now)
	if where != "" {
		a.conditions.Set(conditionRedis, health.Finding{State: health.Degraded, Reason: where, Text: why +
			": tokens that are not in memory are looked up at the control plane, and if that goes away, too, token checks stop. Start Redis, or look at the way there from this machine and at redis.nodeURL of the control plane"})
	} else {
		a.conditions.Good(conditionRedis)
	}
	lost := a.lost.Load() // the control plane may have come back while Redis was asked
	if lost == nil || now.Sub(*lost) < contract.Lease || why == "" {
		a.conditions.Good(conditionTokenChecks)
		return
	}
	a.conditions.Set(conditionTokenChecks, health.Finding{State: health.Degraded, Reason: "stopped", Text: fmt.Sprintf(
		"requests that need a token or a key are answered 503, all others go on. There are two causes: the control plane %s is out of reach (the condition control_plane says why), and %s. Either ends it: start the control plane, or put that Redis in order",
		a.Address, why)})
}

// checksTokens reports whether a filter of this proxy was told where tokens are. It is told
// once its node checks tokens.
func (a *Agent) checksTokens() bool {
	_, err := os.Stat(filepath.Join(a.dir.path, contract.Level2File))
	return err == nil
}

// redisTrouble returns why the filter could not decide tokens by Redis alone, "" if it
// could. where is the reason if the filter was given a Redis that cannot be read.
func (a *Agent) redisTrouble(ctx context.Context, now time.Time) (where, why string) {
	var said struct {
		Trust contract.Trust `json:"trust"`
	}
	var told struct {
		Level2 contract.Level2 `json:"level2"`
	}
	switch {
	case !a.dir.recall(contract.Level2File, &told) || told.Level2.Redis == nil:
		return "", "no Redis stands in for the control plane (redis.nodeURL is not set, or the cache is the embedded one of another machine)"
	case !a.dir.recall(contract.TrustFile, &said) || said.Trust.Epoch == 0 || !believes(filepath.Join(a.dir.path, contract.TrustFile), a.dir.controlPlane(), now):
		return "", "nothing says what to believe in Redis (the control plane did not vouch for it, or more than 22 hours ago)"
	}
	ctx, cancel := context.WithTimeout(ctx, a.askTime())
	defer cancel()
	clock, err := a.readClock(ctx, told.Level2.Redis, said.Trust.Servers)
	switch {
	case err != nil:
		if where = health.Unreachable(err); where == "" {
			where = "unreadable"
		}
		return where, fmt.Sprintf("the Redis that stands in for the control plane cannot be read from here (%v; the embedded one ends with its control plane)", err)
	case clock.Epoch != said.Trust.Epoch:
		return "", "the Redis that stands in for the control plane does not hold what the control plane vouched for"
	}
	return "", ""
}

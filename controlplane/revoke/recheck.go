package revoke

import (
	"context"
	"slices"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Pauses between two attempts to judge a token.
const (
	judgeMin = 100 * time.Millisecond
	judgeMax = 5 * time.Second
)

// Recheck authenticates links again with the tokens they came with and ends those
// whose token no longer counts: the links of the named nodes, or all if none is
// named. Where that cannot be told now, it is tried again until it can.
func (r *Revoker) Recheck(ctx context.Context, nodes ...string) {
	r.mu.Lock()
	var links []*link
	for l := range r.links {
		if len(nodes) == 0 || slices.Contains(nodes, l.node.ID) {
			links = append(links, l)
		}
	}
	r.mu.Unlock()
	for _, l := range links {
		r.judge(ctx, l)
	}
}

// judge ends a link whose token no longer counts, soon if that cannot be told now.
func (r *Revoker) judge(ctx context.Context, l *link) {
	if r.judged(ctx, l) || !l.judging.CompareAndSwap(false, true) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, open := r.links[l]; open { // what it still does is waited for
		l.work.Go(func() { r.judgeAgain(l) })
	}
}

// judgeAgain tries until the token is judged or the link has ended.
func (r *Revoker) judgeAgain(l *link) {
	pause := judgeMin
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-t.C:
		}
		// A recheck that comes from here on begins an attempt of its own.
		l.judging.Store(false)
		if r.judged(r.ctx, l) || !l.judging.CompareAndSwap(false, true) {
			return
		}
		pause = min(2*pause, judgeMax)
		t.Reset(pause)
	}
}

// judged ends a link whose token no longer counts. It reports whether that could
// be told: a failure that says nothing of the token ends nobody.
func (r *Revoker) judged(ctx context.Context, l *link) bool {
	if l.node.token == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, questionLimit)
	defer cancel()
	_, err := r.o.Auth.Authenticate(ctx, l.node.ID, l.node.token)
	if err == nil {
		return true
	}
	switch fault.CodeOf(err) {
	case fault.Denied, fault.Forbidden, fault.NotFound:
		r.log.Warn("link revoked", "node", l.node.ID, "error", err)
		l.end()
		return true
	}
	return false
}

package revoke

import (
	"context"
	"errors"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/rejudge"
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
	if r.judged(ctx, l) != nil {
		l.unjudged.Add(l)
	}
}

// judged ends a link whose token no longer counts. The error says that this could
// not be told: such a failure ends nobody.
func (r *Revoker) judged(ctx context.Context, l *link) error {
	if l.node.token == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, questionLimit)
	defer cancel()
	_, err := r.o.Auth.Authenticate(ctx, l.node.ID, l.node.token)
	switch fault.CodeOf(err) {
	case fault.Denied, fault.Forbidden, fault.NotFound:
		if errors.Is(err, rejudge.ErrRenewed) {
			r.log.Info("link ends, its node has a newer token", "node", l.node.ID)
		} else {
			r.log.Warn("link revoked", "node", l.node.ID, "error", err)
		}
		l.end()
		return nil
	}
	return err
}

package revoke

import (
	"context"
	"errors"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/rejudge"
)

// Recheck authenticates links again with the tokens they came with, and ends those whose
// token is no longer valid. It checks the links of the named nodes, or all links if no node
// is named. If a check fails for another reason, it is repeated until it succeeds.
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

// judge ends a link whose token is no longer valid. If this cannot be checked now, it is
// checked again later.
func (r *Revoker) judge(ctx context.Context, l *link) {
	if r.judged(ctx, l) != nil {
		l.unjudged.Add(l)
	}
}

// judged ends a link whose token is no longer valid. An error says that the check itself
// failed; the link then continues.
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

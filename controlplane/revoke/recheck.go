package revoke

import (
	"context"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
)

// Recheck authenticates links again with the tokens they came with and ends those
// whose token no longer counts: the links of the named nodes, or all if none is
// named. A failure that says nothing of the token ends nobody.
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

// judge ends a link whose token no longer counts.
func (r *Revoker) judge(ctx context.Context, l *link) {
	if l.node.token == "" {
		return
	}
	_, err := r.o.Auth.Authenticate(ctx, l.node.ID, l.node.token)
	switch fault.CodeOf(err) {
	case fault.Denied, fault.Forbidden, fault.NotFound:
		r.log.Warn("link revoked", "node", l.node.ID, "error", err)
		l.end()
	}
}

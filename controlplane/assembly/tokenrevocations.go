package assembly

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/identity"
)

// revokeTokens adds to the revoked tokens. Before it returns, it ends the connections that
// were opened with them. The caller may leave meanwhile; that must not keep a stream open. A
// repeated call checks the open connections again.
func (cp *ControlPlane) revokeTokens(ctx context.Context, of identity.TokenKind, meshName string, ids []string) (added int, err error) {
	added, err = identity.RevokeTokens(ctx, cp.gate, of, meshName, ids)
	cp.recheck(context.WithoutCancel(ctx))
	return added, err
}

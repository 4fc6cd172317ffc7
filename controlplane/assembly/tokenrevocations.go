package assembly

import (
	"context"

	"github.com/meshgate/meshgate/controlplane/identity"
)

// revokeTokens adds to the tokens that no longer count, and ends what was opened with
// them before it returns. The caller may be gone meanwhile; that must not keep a stream
// open. Who asks again has what is open looked at again.
func (cp *ControlPlane) revokeTokens(ctx context.Context, meshName string, ids []string) (added int, err error) {
	added, err = identity.RevokeTokens(ctx, cp.gate, meshName, ids)
	cp.recheck(context.WithoutCancel(ctx))
	return added, err
}

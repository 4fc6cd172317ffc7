package revoke

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/rejudge"
)

// renewer reports that the node of the harness's token has a newer token.
type renewer struct {
	fickle
	renewed bool
}

func (f *renewer) Authenticate(ctx context.Context, node, token string) (Node, error) {
	n, err := f.fickle.Authenticate(ctx, node, token)
	if err != nil && f.renewed {
		err = rejudge.Renewed(err)
	}
	return n, err
}

// TestRotationByTheBookIsNoAttack: the link of a node that has renewed its token ends like
// any other, but no warning is logged.
func TestRotationByTheBookIsNoAttack(t *testing.T) {
	for _, renewed := range []bool{true, false} {
		f, log := &renewer{renewed: renewed}, &bytes.Buffer{}
		virtually(t, func(o *Options) { o.Auth, o.Log = f, slog.New(slog.NewTextHandler(log, nil)) }, func(t *testing.T, w *world, _ *scripted) {
			w.pipe("node", contract.Hello{Instance: "i"})
			f.refuse.Store(fault.New(fault.Denied, "the key is gone"))
			w.r.Recheck(t.Context())
			synctest.Wait()
			if n := w.r.Stats().Links; n != 0 {
				t.Error("the link outlives its token")
			}
		})
		if warned := strings.Contains(log.String(), `level=WARN msg="link revoked"`); warned == renewed {
			t.Errorf("renewed %t: %s", renewed, log)
		}
	}
	if err := rejudge.Renewed(fault.New(fault.Denied, "x")); !fault.Is(err, fault.Denied) || !errors.Is(err, rejudge.ErrRenewed) || err.Error() != "x" {
		t.Errorf("%v", err)
	}
}

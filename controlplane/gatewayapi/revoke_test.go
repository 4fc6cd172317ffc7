package gatewayapi_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/store"
)

// revocations deletes tokens without an OAuth server.
type revocations struct {
	store store.Store
	gate  *admit.Gate
	fail  error
}

// Revoke implements gatewayapi.Revocations.
func (r *revocations) Revoke(ctx context.Context, scope string, by oauth.RevokeBy) (n int, c store.Commit, err error) {
	if r.fail != nil {
		return 0, c, r.fail
	}
	c, err = r.gate.Write(ctx, model.Config, func(tx store.Tx) error {
		n = 0
		tokens, err := tx.List(gateway.Tokens, store.Query{Scope: scope})
		for _, t := range tokens {
			spec := t.Spec.(*gateway.Token)
			app, err := tx.Get(gateway.Applications, scope, spec.Credential)
			if err != nil {
				return err
			}
			if by.Credential == app.Name || by.Consumer == app.Spec.(*gateway.Application).Consumer || by.UserID != "" && by.UserID == spec.AuthenticatedUserID {
				if err := tx.Delete(gateway.Tokens, scope, t.Name, 0); err != nil {
					return err
				}
				n++
			}
		}
		return err
	})
	return n, c, err
}

// TestWithoutRevocations: without Revocations the endpoints for bulk revocation do not exist.
func TestWithoutRevocations(t *testing.T) {
	f := setup(t, nil)
	f.do("POST", "/consumers", "username=bob")
	for _, path := range []string{"/oauth2_tokens?authenticated_userid=u", "/consumers/bob/oauth2_tokens", "/oauth2/x/oauth2_tokens"} {
		if w := f.do("DELETE", path, ""); w.Code != 405 {
			t.Errorf("DELETE %s: %d %s", path, w.Code, w.Body)
		}
	}
}

// TestBulkRevocationThatCannotBeClaimed: the answer has the revision of the commit, which
// stands.
func TestBulkRevocationThatCannotBeClaimed(t *testing.T) {
	f := setupWith(t, func(o *gatewayapi.Options) {
		o.Revocations = &revocations{fail: fault.New(fault.Unavailable, "tokens may still be accepted")}
	})
	w := f.do("DELETE", "/oauth2_tokens?authenticated_userid=u", "")
	if diff := cmp.Diff(`{"message":"tokens may still be accepted"}`, w.Body.String()); diff != "" || w.Code != 503 {
		t.Errorf("%d %s", w.Code, diff)
	}
}

// TestBulkRevocationOfWhoIsGone: an owner that was just deleted is reported as missing only
// after gateways know of the deletion, like an owner that is deleted twice.
func TestBulkRevocationOfWhoIsGone(t *testing.T) {
	f := setupWith(t, func(o *gatewayapi.Options) { o.Revocations = &revocations{store: o.Store, gate: o.Gate} })
	for _, path := range []string{"/consumers/bob", "/oauth2/app"} {
		for unconfirmed, want := range map[bool]int{true: 503, false: 404} {
			f.revoker.set(nil)
			if unconfirmed {
				f.revoker.set(fault.New(fault.Unavailable, "tokens may still be accepted"))
			}
			if w := f.do("DELETE", path+"/oauth2_tokens", ""); w.Code != want {
				t.Errorf("%s, unconfirmed %v: %d %s", path, unconfirmed, w.Code, w.Body)
			}
		}
	}
}

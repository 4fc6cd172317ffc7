package revoke

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// TestApplicationsOfOneIDAreRevokedApart: the application that one control plane deletes says
// nothing of the token that another one deletes in the same commit, although theirs has the
// same id.
func TestApplicationsOfOneIDAreRevokedApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, "a", "b")
		own, other := w.hold("a", "own"), w.hold("b", "other")
		f, _ := w.join("group", contract.Hello{Instance: "i"}, contract.AcceptScopes)
		f.lease()
		done := async(func() error {
			return w.write(func(tx store.Tx) error {
				if err := tx.Delete(gateway.Tokens, "b", other, 0); err != nil {
					return err
				}
				if err := tx.Delete(gateway.Tokens, "a", own, 0); err != nil {
					return err
				}
				return tx.Delete(gateway.Applications, "a", w.app, 0)
			})
		})
		m := f.invalidated()
		f.ack(m.To)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		// The token of a goes with its application, without an entry of its own.
		if diff := cmp.Diff(hashes("other"), tokensOf(m)); diff != "" {
			t.Errorf("revoked (-want +got):\n%s", diff)
		}
	})
}

// TestUnreadableOfAnotherScope: what an unreadable token referred to is revoked where that is.
func TestUnreadableOfAnotherScope(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t)
		for _, targets := range [][]model.Key{
			{{Kind: gateway.Applications.Name, Scope: "a", Name: w.app}, {Kind: gateway.Services.Name, Scope: "b", Name: "s"}},
			{{Kind: gateway.Applications.Name, Scope: "b", Name: w.app}, {Kind: gateway.Services.Name, Scope: "a", Name: "s"}},
		} {
			old := &model.Resource{Kind: gateway.Tokens, Scope: "a", Name: "x", Spec: &store.Unread{Targets: targets}}
			rows, err := w.r.unreadTombstones(old)
			if err != nil || !slices.ContainsFunc(rows, func(r *Tombstone) bool { return r.Scope == targets[0].Scope && r.ID == w.app }) || len(rows) != 1 {
				t.Errorf("%v: %+v %v", targets, rows, err)
			}
		}
	})
}

// TestWhoseOwnersAreMeant: a filter is told whose application is meant if it understands that,
// when it happens and when it begins anew.
func TestWhoseOwnersAreMeant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newTenants(t, "a", "b")
		newer, _ := w.join("group", contract.Hello{Instance: "newer"}, contract.AcceptScopes, contract.AcceptPlanes)
		older, _ := w.join("group", contract.Hello{Instance: "older"}, contract.AcceptScopes)
		newer.lease()
		older.lease()
		done := async(func() error {
			return w.write(func(tx store.Tx) error { return tx.Delete(gateway.Applications, "a", w.app, 0) })
		})
		planes := func(m *contract.Invalidate) (out []string) {
			for _, it := range m.Items {
				if it.Subject == contract.SubjectCredential {
					out = append(out, it.Plane)
				}
			}
			return out
		}
		expect := func(when string, m *contract.Invalidate, want ...string) {
			t.Helper()
			if got := planes(m); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		m, bare := newer.invalidated(), older.invalidated()
		expect("told", m, "a")
		expect("told an older one", bare, "")
		newer.ack(m.To)
		older.ack(bare.To)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		for instance, accept := range map[string][]string{"newer": {contract.AcceptScopes, contract.AcceptPlanes}, "older": {contract.AcceptScopes}} {
			want := map[string]string{"newer": "a", "older": ""}[instance]
			anew, _ := w.join("group", contract.Hello{Instance: instance + " anew"}, accept...)
			expect(instance+", anew", anew.first, want)
		}
	})
}

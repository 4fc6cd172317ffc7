package identity

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestRevocationsOfTwoWriters: no id is lost if many callers revoke at the same time, and
// revoking again adds nothing.
func TestRevocationsOfTwoWriters(t *testing.T) {
	for meshName, kind := range map[string]string{"": mesh.GatewayTokenRevocations, "m": mesh.TokenRevocations + "m"} {
		t.Run(kind, func(t *testing.T) {
			tt := newTokenTest(t)
			gate := keyGate(tt.store)
			of := GatewayToken
			if meshName != "" {
				of = DataplaneToken
			}
			var all sync.WaitGroup
			var want []string
			for i := range 20 {
				id := fmt.Sprintf("id-%02d", i)
				want = append(want, id)
				all.Go(func() {
					if added, err := RevokeTokens(t.Context(), gate, of, meshName, []string{id}); added != 1 || err != nil {
						t.Errorf("%s: %d, %v", id, added, err)
					}
				})
			}
			all.Wait()
			if added, err := RevokeTokens(t.Context(), gate, of, meshName, []string{"id-03", "id-20", "id-20"}); added != 1 || err != nil {
				t.Errorf("again: %d, %v", added, err)
			}
			got := revokedIDs(tt.revoked(t, meshName))
			slices.Sort(got)
			if diff := cmp.Diff(append(want, "id-20"), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// revoked returns the stored list.
func (tt *tokenTest) revoked(t *testing.T, meshName string) (data []byte) {
	t.Helper()
	err := tt.store.View(t.Context(), func(r store.Reader) error {
		kind, name := mesh.GlobalSecrets, mesh.GatewayTokenRevocations
		if meshName != "" {
			kind, name = mesh.Secrets, mesh.TokenRevocations+meshName
		}
		res, err := r.Get(kind, meshName, name)
		if err == nil {
			data = res.Spec.(*mesh.Secret).Data
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestRevocation: entries written by hand stay, and the token of an added id does not count.
func TestRevocation(t *testing.T) {
	tt := newTokenTest(t)
	token := tt.issue(DataplaneTokenRequest{Mesh: "m", Name: "web", ValidFor: "1h"})
	c, err := tt.Check(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	tt.secret("m", mesh.TokenRevocations+"m", []byte("a, b\n,"))
	if added, err := RevokeTokens(t.Context(), keyGate(tt.store), DataplaneToken, "m", []string{"b", c.ID}); added != 1 || err != nil {
		t.Fatal(added, err)
	}
	if got := string(tt.revoked(t, "m")); got != "a,b,"+c.ID {
		t.Errorf("listed: %q", got)
	}
	if _, err := tt.Check(t.Context(), token); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "was revoked") {
		t.Error(err)
	}
	for _, ids := range [][]string{nil, {""}, {"a,b"}, {"a b"}, {"a\n"}, {strings.Repeat("a", maxRevokedID+1)}, make([]string, maxRevokedIDs+1)} {
		if _, err := RevokeTokens(t.Context(), keyGate(tt.store), DataplaneToken, "m", ids); !fault.Is(err, fault.Invalid) {
			t.Errorf("%d ids: %v", len(ids), err)
		}
	}
	if _, err := RevokeTokens(t.Context(), keyGate(tt.store), DataplaneToken, "none", []string{"a"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a mesh that does not exist: %v", err)
	}
}

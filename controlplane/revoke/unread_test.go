package revoke

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// removing is a transaction that has removed a row that cannot be decoded.
type removing struct {
	store.Tx
	old *model.Resource
}

// Changes implements store.Tx.
func (r removing) Changes() []store.Change {
	return append(slices.Clip(r.Tx.Changes()), store.Change{Op: store.Deleted, Old: r.old})
}

// TestUnreadableIsRevoked: the value of a token whose row cannot be decoded is unknown, and
// filters may remember it. So what they remember of its owner is voided. If the owner is
// unknown as well, the row stays.
func TestUnreadableIsRevoked(t *testing.T) {
	names := map[contract.Subject]string{contract.SubjectToken: "token", contract.SubjectCredential: "credential", contract.SubjectConsumer: "consumer"}
	for _, tc := range []struct {
		name    string
		kind    *model.Kind
		targets []model.Key
		want    []string
		refused bool
	}{
		{"a token", gateway.Tokens, []model.Key{{Kind: "oauth2_credential", Scope: scope, Name: "app"}, {Kind: "service", Name: "s"}}, []string{"credential app"}, false},
		{"a token of nobody", gateway.Tokens, []model.Key{{Kind: "service", Name: "s"}}, nil, true},
		{"an application", gateway.Applications, []model.Key{{Kind: "consumer", Name: "c"}}, []string{"credential x"}, false},
		{"a consumer", gateway.Consumers, nil, []string{"consumer x"}, false},
		{"a service", gateway.Services, nil, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			old := &model.Resource{Kind: tc.kind, Scope: scope, Name: "x", Spec: &store.Unread{Targets: tc.targets}}
			var got []string
			_, err := w.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
				if err := w.r.Stage(removing{tx, old}); err != nil {
					return err
				}
				for _, c := range tx.Changes() {
					row := c.New.Spec.(*Tombstone)
					got = append(got, names[row.Subject]+" "+row.ID)
				}
				return nil
			})
			if tc.refused != fault.Is(err, fault.Internal) || err != nil && !tc.refused {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("tombstones (-want +got):\n%s", diff)
			}
		})
	}
}

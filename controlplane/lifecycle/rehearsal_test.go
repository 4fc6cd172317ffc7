package lifecycle_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestNothingIsMadeForARehearsal: a mesh that is only tried has everything that it would come with,
// but nobody makes keys for it. It fails where they could not be made.
func TestNothingIsMadeForARehearsal(t *testing.T) {
	w := setup(t)
	var secrets []string
	ctx := admit.Rehearse(t.Context(), &admit.Rehearsal{After: func(tx store.Tx, _ model.Key) error {
		secrets = nil
		for _, c := range tx.Changes() {
			if c.New.Kind == mesh.Secrets {
				secrets = append(secrets, c.New.Name)
			}
		}
		slices.Sort(secrets)
		return nil
	}})
	w.between = func() { t.Error("a key was made") }
	_, created, err := w.gate.PutDocument(ctx, mesh.Meshes, "", "m", builtin("ca-1", "ca-1"))
	if err != nil || !created || w.made != 0 {
		t.Errorf("created: %t, %d authorities, %v", created, w.made, err)
	}
	want := []string{"dataplane-token-signing-key-m-1", "m.ca-builtin-cert-ca-1", "m.ca-builtin-key-ca-1"}
	if diff := cmp.Diff(want, secrets); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.same(nil, w.content("m"))
	endless := builtin("ca-1", "ca-1")
	endless.MTLS.Backends[0].Conf = &mesh.AuthorityConf{CACert: &mesh.CACert{Expiration: "99999999999999999999y"}}
	if _, _, err := w.gate.PutDocument(ctx, mesh.Meshes, "", "m", endless); err == nil || errors.Is(err, store.ErrUndecided) {
		t.Error("an authority without an end can be made")
	}
}

package view_test

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
)

// TestSecretsThatAreReferredTo: a change of a secret is one of the resources that refer to it, and
// of no others. What a view holds of one says what is wrong with it.
func TestSecretsThatAreReferredTo(t *testing.T) {
	before := policies
	policies = append(slices.Clip(policies), mesh.ExternalServices)
	defer func() { policies = before }()
	f := openMesh(t, memstore.New())
	defer f.close()
	external := func(name, secret string) func(store.Tx) error {
		return set(mesh.ExternalServices, mesh.Default, name, &mesh.ExternalService{
			Networking: &mesh.ExternalNetworking{Address: name + ".example:443", TLS: &mesh.ExternalTLS{Enabled: true, CACert: &mesh.DataSource{Secret: secret}}},
			Tags:       mesh.Tags{mesh.TagService: name},
		})
	}
	wrong := func(m *mesh.External) string { return m.Protection().Wrong }
	f.commit(t, external("a", "ca"))
	c := f.commit(t, external("b", "other"))
	of := func(service string) *mesh.External {
		return c.State.Located(mesh.ExternalServices, service).Specs[0].(*mesh.External)
	}
	b := of("b")
	const missing = `networking.tls.caCert: could not load data: Resource not found: type="Secret" name="ca" mesh="default"`
	if got := wrong(of("a")); got != missing {
		t.Errorf("a missing secret: %q", got)
	}
	c = f.commit(t, set(mesh.Secrets, mesh.Default, "ca", &mesh.Secret{Data: []byte("x")}))
	if want := []model.Key{{Kind: mesh.ExternalServices.Name, Scope: mesh.Default, Name: "a"}}; !slices.Equal(c.Keys, want) {
		t.Errorf("told of %v, want %v", c.Keys, want)
	}
	if got := wrong(of("a")); got != "networking.tls.caCert: must hold certificates in PEM" || of("b") != b {
		t.Errorf("a secret that came: %q; the other service is new: %v", got, of("b") != b)
	}
	c = f.commit(t, set(mesh.Secrets, mesh.Default, "unused", &mesh.Secret{}))
	if len(c.Keys) > 0 || of("b") != b {
		t.Errorf("a secret that nothing refers to: told of %v", c.Keys)
	}
	c = f.commit(t, func(tx store.Tx) error { return tx.Delete(mesh.Secrets, mesh.Default, "ca", 0) })
	if got := wrong(of("a")); got != missing {
		t.Errorf("a secret that is gone: %q", got)
	}
	if got := wrong(f.loaded(t).Located(mesh.ExternalServices, "a").Specs[0].(*mesh.External)); got != missing {
		t.Errorf("loaded: %q", got)
	}
}

// TestSecretsThatCannotBeDecoded: a secret that cannot be decoded is wrong with the one who refers to
// it, and does not keep the mesh from being read.
func TestSecretsThatCannotBeDecoded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	kinds := append(mesh.Kinds(), policies...)
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Kinds: kinds, Sealer: keys, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, fn := range []func(store.Tx) error{
		set(mesh.Secrets, mesh.Default, "ca", &mesh.Secret{Data: []byte("x")}),
		set(mesh.ExternalServices, mesh.Default, "a", &mesh.ExternalService{
			Networking: &mesh.ExternalNetworking{Address: "a.example:443", TLS: &mesh.ExternalTLS{Enabled: true, CACert: &mesh.DataSource{Secret: "ca"}}},
			Tags:       mesh.Tags{mesh.TagService: "a"},
		}),
	} {
		if _, err := s.Update(t.Context(), model.Config, fn); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Spoil(t, path, mesh.Secrets.Name, "ca")
	err = s.View(t.Context(), func(r store.Reader) error {
		m, err := view.LoadMesh(mesh.Default, []*model.Kind{mesh.ExternalServices}, r)
		if err != nil {
			return err
		}
		const want = `networking.tls.caCert: secret "ca" cannot be read`
		if got := m.Located(mesh.ExternalServices, "a").Specs[0].(*mesh.External).Protection().Wrong; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

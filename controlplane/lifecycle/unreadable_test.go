package lifecycle_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/lifecycle"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestMeshWithUnreadableRows: a row that cannot be decoded can be deleted, even in a mesh
// that cannot be decoded. Neither keeps the mesh from being deleted. Unreadable rows still
// count: a mesh is not deleted while it has proxies, nor a secret that its mesh may use.
func TestMeshWithUnreadableRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	root := make([]byte, seal.RootSize)
	_, _ = rand.Read(root)
	keys, err := seal.New(root)
	if err != nil {
		t.Fatal(err)
	}
	scoped := []*model.Kind{mesh.Dataplanes, mesh.Secrets, mesh.Trusts, mesh.ExternalServices, permissions, timeouts}
	all := append([]*model.Kind{mesh.Meshes}, scoped...)
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Kinds: all, Sealer: keys, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	w := &world{T: t, store: s}
	w.gate = admit.New(s, &admittest.Revoker{}, all, time.Now).As(model.System("test"))
	w.gate.Hook(mesh.Meshes, lifecycle.New(lifecycle.Options{Kinds: scoped, GenerateSigningKey: func() ([]byte, error) { return []byte("k"), nil }}))
	w.gate.Hook(mesh.Secrets, lifecycle.Secrets())
	for _, name := range []string{"m", "n"} {
		w.must(w.put(mesh.Meshes, "", name, &mesh.Mesh{}))
		proxy := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Gateway: &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge"}}}}
		w.must(w.put(mesh.Dataplanes, name, "d-"+name, proxy))
		w.must(w.put(mesh.Secrets, name, "s-"+name, &mesh.Secret{Data: []byte("x")}))
	}
	w.must(w.put(permissions, "n", "p-n", &permission{}))
	storetest.Spoil(t, path, mesh.Dataplanes.Name, "d-m")
	storetest.Spoil(t, path, mesh.Secrets.Name, "s-m", "s-n")
	storetest.Spoil(t, path, permissions.Name, "p-n")
	storetest.Spoil(t, path, mesh.Meshes.Name, "n")
	remove := func(k *model.Kind, scope, name string, want fault.Code) {
		t.Helper()
		if _, err := w.gate.DeleteDocument(context.Background(), k, scope, name); fault.CodeOf(err) != want {
			t.Errorf("%s %s in %q: %v", k.Name, name, scope, err)
		}
	}
	remove(mesh.Meshes, "", "m", fault.Invalid)
	remove(mesh.Dataplanes, "m", "d-m", "")
	remove(mesh.Secrets, "m", "s-m", "")
	remove(mesh.Meshes, "", "m", "")
	remove(mesh.Secrets, "n", "s-n", fault.Internal)
	remove(mesh.Meshes, "", "n", fault.Invalid)
	remove(mesh.Dataplanes, "n", "d-n", "")
	remove(mesh.Meshes, "", "n", "")
	w.must(s.View(t.Context(), func(r store.Reader) error {
		for _, k := range all {
			for _, scope := range []string{"", "m", "n"} {
				if n, err := r.Count(k, store.Query{Scope: scope}); err != nil || n != 0 {
					t.Errorf("%d of %s in %q: %v", n, k.Name, scope, err)
				}
			}
		}
		return nil
	}))
}

// TestKeysBesideUnreadableRows: a mesh that cannot be decoded still trusts its roots, whose keys
// proxies may not hold. A secret that cannot be decoded is nobody's key, and keeps nobody from
// writing.
func TestKeysBesideUnreadableRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meshgate.db")
	keys, err := seal.New(make([]byte, seal.RootSize))
	if err != nil {
		t.Fatal(err)
	}
	all := []*model.Kind{mesh.Meshes, mesh.Dataplanes, mesh.Secrets, mesh.Trusts, mesh.ExternalServices}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: path, Kinds: all, Sealer: keys, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	w := &world{T: t, store: s}
	w.gate = admit.New(s, &admittest.Revoker{}, all, time.Now).As(model.System("test"))
	cert, key := pair(t, true, x509.KeyUsageCertSign)
	for _, name := range []string{"m", "n"} {
		w.must(w.put(mesh.Meshes, "", name, &mesh.Mesh{}))
		w.must(w.put(mesh.Secrets, name, "s-"+name, &mesh.Secret{Data: []byte("x")}))
	}
	_, err = w.gate.Write(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.Trusts, Scope: "n", Name: "n", Spec: &mesh.Trust{Roots: cert}})
		return err
	})
	w.must(err)
	storetest.Spoil(t, path, mesh.Meshes.Name, "n")
	storetest.Spoil(t, path, mesh.Secrets.Name, "s-m")
	w.gate.Hook(mesh.ExternalServices, lifecycle.Externals())
	w.same([]string{`networking.tls.clientCert: the key is that of an authority of mesh "n", which no proxy may hold`},
		violations(w.put(mesh.ExternalServices, "m", "x", presenting(content(cert), content(key)))))
	w.must(w.put(mesh.ExternalServices, "m", "x", presenting(from("s-m"), from("s-m"))))

	// Authorities that nobody can read are no reason to stop the services of every mesh.
	storetest.Spoil(t, path, mesh.Trusts.Name, "n")
	other, otherKey := pair(t, true, x509.KeyUsageCertSign)
	w.must(w.put(mesh.ExternalServices, "m", "y", presenting(content(other), content(otherKey))))
}

package lifecycle_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/lifecycle"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type permission struct {
	model.Labelled
	mesh.Connection
}

func policyKind(name, wire string) *model.Kind {
	return &model.Kind{
		Name: name, Path: name, Scoping: model.Mesh, Class: model.Config, New: func() any { return new(permission) },
		Document: &model.Document{Type: wire, Policy: true},
	}
}

var (
	permissions = policyKind("permission", "TrafficPermission")
	timeouts    = policyKind("timeout", "Timeout")
)

// world is a store with a gate whose meshes have a lifecycle.
type world struct {
	*testing.T
	store store.Store
	gate  *admit.Gate
	// between runs while a key is made, so that tests can write in between.
	between func()
	made    int
}

func setup(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, store: memstore.New(), between: func() {}}
	t.Cleanup(func() {
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
	scoped := []*model.Kind{mesh.Dataplanes, mesh.Secrets, mesh.Trusts, mesh.ExternalServices, permissions, timeouts}
	w.gate = admit.New(w.store, &admittest.Revoker{}, append([]*model.Kind{mesh.Meshes}, scoped...), time.Now).As(model.System("test"))
	w.gate.Hook(mesh.Meshes, lifecycle.New(lifecycle.Options{
		Kinds: scoped,
		Policies: []lifecycle.DefaultPolicy{
			{Kind: permissions, Prefix: "allow-all-", Spec: &permission{}}, {Kind: timeouts, Prefix: "timeout-all-", Spec: &permission{}},
		},
		GenerateCA: func(name, backend string, _ *mesh.AuthorityConf) ([]byte, []byte, error) {
			w.made++
			w.between()
			return []byte("cert " + name + backend), []byte("key"), nil
		},
		GenerateSigningKey: func() ([]byte, error) { w.between(); return []byte("signing"), nil },
	}))
	w.gate.Hook(mesh.Secrets, lifecycle.Secrets())
	w.gate.Hook(mesh.ExternalServices, lifecycle.Externals())
	return w
}

func (w *world) put(k *model.Kind, scope, name string, spec any) error {
	w.Helper()
	_, _, err := w.gate.PutDocument(w.Context(), k, scope, name, spec)
	return err
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// content lists the resources in a mesh as kind/name.
func (w *world) content(name string) []string {
	w.Helper()
	var out []string
	w.must(w.store.View(w.Context(), func(r store.Reader) error {
		for _, k := range []*model.Kind{mesh.Dataplanes, mesh.Secrets, mesh.Trusts, permissions, timeouts} {
			all, err := r.List(k, store.Query{Scope: name})
			if err != nil {
				return err
			}
			for _, res := range all {
				out = append(out, k.Name+"/"+res.Name)
			}
		}
		return nil
	}))
	return out
}

func builtin(enabled string, names ...string) *mesh.Mesh {
	t := &mesh.MTLS{EnabledBackend: enabled}
	for _, n := range names {
		t.Backends = append(t.Backends, mesh.Authority{Name: n, Type: mesh.AuthorityBuiltin})
	}
	return &mesh.Mesh{MTLS: t}
}

func violations(err error) []string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Code != fault.Invalid {
		return []string{"no violations"}
	}
	var out []string
	for _, v := range f.Violations {
		out = append(out, v.Path+": "+v.Message)
	}
	return out
}

func (w *world) same(want, got []string) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCreation(t *testing.T) {
	w := setup(t)
	w.must(w.put(mesh.Meshes, "", "m", builtin("", "ca-1")))
	w.same([]string{
		"mesh_secret/dataplane-token-signing-key-m-1", "mesh_secret/m.ca-builtin-cert-ca-1", "mesh_secret/m.ca-builtin-key-ca-1",
		"permission/allow-all-m", "timeout/timeout-all-m",
	}, w.content("m"))
	w.must(w.put(mesh.Meshes, "", "some", &mesh.Mesh{SkipCreatingInitialPolicies: []string{"Timeout"}}))
	w.same([]string{"mesh_secret/dataplane-token-signing-key-some-1", "permission/allow-all-some"}, w.content("some"))
	w.must(w.put(mesh.Meshes, "", "none", &mesh.Mesh{SkipCreatingInitialPolicies: []string{"*"}}))
	w.same([]string{"mesh_secret/dataplane-token-signing-key-none-1"}, w.content("none"))
}

func TestUpdate(t *testing.T) {
	w := setup(t)
	w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{SkipCreatingInitialPolicies: []string{"*"}}))
	w.must(w.put(mesh.Meshes, "", "m", builtin("a", "a")))
	w.must(w.put(mesh.Meshes, "", "m", builtin("a", "a")))
	if w.made != 1 {
		t.Errorf("%d authorities were made", w.made)
	}
	w.same([]string{"mtls.enabledBackend: Changing CA when mTLS is enabled is forbidden. Disable mTLS first and then change the CA"},
		violations(w.put(mesh.Meshes, "", "m", builtin("b", "b"))))
	w.must(w.put(mesh.Meshes, "", "m", builtin("", "a")))
	w.must(w.put(mesh.Meshes, "", "m", builtin("b", "b")))
	w.same([]string{
		"mesh_secret/dataplane-token-signing-key-m-1", "mesh_secret/m.ca-builtin-cert-a", "mesh_secret/m.ca-builtin-cert-b",
		"mesh_secret/m.ca-builtin-key-a", "mesh_secret/m.ca-builtin-key-b",
	}, w.content("m"))
}

// TestHalfAnAuthority: a certificate without its key is replaced by a new pair.
func TestHalfAnAuthority(t *testing.T) {
	w := setup(t)
	w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{}))
	w.must(w.put(mesh.Secrets, "m", mesh.BuiltinCert("m", "a"), &mesh.Secret{Data: []byte("old")}))
	w.must(w.put(mesh.Meshes, "", "m", builtin("a", "a")))
	w.must(w.store.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(mesh.Secrets, "m", mesh.BuiltinCert("m", "a"))
		if err == nil && string(res.Spec.(*mesh.Secret).Data) != "cert ma" {
			t.Errorf("certificate %q", res.Spec.(*mesh.Secret).Data)
		}
		return err
	}))
}

func TestDeletion(t *testing.T) {
	w := setup(t)
	w.must(w.put(mesh.Meshes, "", "m", builtin("a", "a")))
	w.must(w.put(mesh.Meshes, "", "other", &mesh.Mesh{}))
	w.must(w.put(mesh.Secrets, "m", "mine", &mesh.Secret{}))
	_, err := w.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.Trusts, Scope: "m", Name: "m", Spec: &mesh.Trust{}})
		return err
	})
	w.must(err)
	proxy := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Gateway: &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge"}}}}
	w.must(w.put(mesh.Dataplanes, "m", "d", proxy))
	before, others := w.content("m"), w.content("other")
	_, err = w.gate.DeleteDocument(t.Context(), mesh.Meshes, "", "m")
	w.same([]string{"mesh: unable to delete mesh, there are still some dataplanes attached"}, violations(err))
	w.same(before, w.content("m"))
	_, err = w.gate.DeleteDocument(t.Context(), mesh.Dataplanes, "m", "d")
	w.must(err)
	_, err = w.gate.DeleteDocument(t.Context(), mesh.Meshes, "", "m")
	w.must(err)
	w.same(nil, w.content("m"))
	w.same(others, w.content("other"))
	if err := w.put(mesh.Dataplanes, "m", "d", proxy); !fault.Is(err, fault.NotFound) {
		t.Errorf("a dataplane of a deleted mesh: %v", err)
	}
}

// TestNothingSurvivesADeletion: whatever is written while a mesh is being deleted, nothing is
// left in a mesh that does not exist.
func TestNothingSurvivesADeletion(t *testing.T) {
	w := setup(t)
	for range 50 {
		w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{}))
		var work sync.WaitGroup
		for _, name := range []string{"a", "b", "c", "d"} {
			work.Go(func() {
				if err := w.put(mesh.Secrets, "m", name, &mesh.Secret{}); err != nil && !fault.Is(err, fault.NotFound) {
					t.Error(err)
				}
			})
		}
		work.Go(func() {
			if _, err := w.gate.DeleteDocument(t.Context(), mesh.Meshes, "", "m"); err != nil {
				t.Error(err)
			}
		})
		work.Wait()
		w.same(nil, w.content("m"))
	}
}

func TestSecretsInUse(t *testing.T) {
	w := setup(t)
	w.must(w.put(mesh.Meshes, "", "m", builtin("", "ca-1")))
	remove := func(name string) error {
		_, err := w.gate.DeleteDocument(t.Context(), mesh.Secrets, "m", name)
		return err
	}
	w.same([]string{`name: The secret "m.ca-builtin-cert-ca-1" that you are trying to remove is currently in use in Mesh "m" in mTLS backend "ca-1". ` +
		`Please remove the reference from the "ca-1" backend before removing the secret.`}, violations(remove("m.ca-builtin-cert-ca-1")))
	w.must(remove("dataplane-token-signing-key-m-1"))
	w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{}))
	w.must(remove("m.ca-builtin-cert-ca-1"))
}

// TestComingBetween: the result of Prepare no longer fits when the transaction runs, because
// somebody else has written in between.
func TestComingBetween(t *testing.T) {
	w := setup(t)
	w.must(w.put(mesh.Meshes, "", "m", builtin("a", "a")))
	w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{}))
	cert, key := pair(t, true, x509.KeyUsageCertSign)
	w.must(w.put(mesh.Secrets, "m", "cert", &mesh.Secret{Data: cert}))
	w.must(w.put(mesh.Secrets, "m", "key", &mesh.Secret{Data: key}))
	spec := builtin("", "b")
	spec.MTLS.Backends[0] = provided(&mesh.DataSource{Secret: "cert"}, &mesh.DataSource{Secret: "key"})
	// A second gate without a lifecycle writes after the checks.
	other := admit.New(w.store, &admittest.Revoker{}, []*model.Kind{mesh.Meshes, mesh.Secrets}, time.Now).As(model.System("test"))
	w.gate.Hook(mesh.Meshes, during{func() {
		if _, err := other.DeleteDocument(t.Context(), mesh.Secrets, "m", "key"); err != nil {
			t.Error(err)
		}
	}})
	w.same([]string{`mtls.backends[0].conf: could not load data: Resource not found: type="Secret" name="key" mesh="m"`}, violations(w.put(mesh.Meshes, "", "m", spec)))
}

func TestDeletedMeanwhile(t *testing.T) {
	w := setup(t)
	w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{}))
	other := admit.New(w.store, &admittest.Revoker{}, []*model.Kind{mesh.Meshes}, time.Now).As(model.System("test"))
	w.between = func() {
		w.between = func() {}
		if _, err := other.DeleteDocument(t.Context(), mesh.Meshes, "", "m"); err != nil {
			t.Error(err)
		}
	}
	if err := w.put(mesh.Meshes, "", "m", builtin("a", "a")); !fault.Is(err, fault.Conflict) {
		t.Errorf("error %v", err)
	}
}

// during runs a function in Prepare.
type during struct{ do func() }

func (d during) Prepare(context.Context, store.Reader, string, any) (any, error) {
	d.do()
	return nil, nil
}
func (during) Stored(store.Tx, *model.Resource, *model.Resource, any) error { return nil }
func (during) Deleting(store.Tx, *model.Resource) error                     { return nil }

func TestEnsure(t *testing.T) {
	w := setup(t)
	w.must(lifecycle.Ensure(t.Context(), w.gate, mesh.Default, "second"))
	_, err := w.gate.DeleteDocument(t.Context(), permissions, mesh.Default, "allow-all-default")
	w.must(err)
	before := w.store.Revision()
	w.must(lifecycle.Ensure(t.Context(), w.gate, mesh.Default))
	if w.store.Revision() != before || slices.Contains(w.content(mesh.Default), "permission/allow-all-default") {
		t.Error("a mesh that exists was changed")
	}
	if !slices.Contains(w.content("second"), "permission/allow-all-second") {
		t.Error("the second mesh has no policies")
	}
}

func provided(cert, key *mesh.DataSource) mesh.Authority {
	return mesh.Authority{Name: "p", Type: mesh.AuthorityProvided, Conf: &mesh.AuthorityConf{Cert: cert, Key: key}}
}

// pair makes a certificate with the given constraints, and its key.
func pair(t *testing.T, ca bool, usage x509.KeyUsage) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true, IsCA: ca, KeyUsage: usage}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func TestAuthorities(t *testing.T) {
	w := setup(t)
	cert, key := pair(t, true, x509.KeyUsageCertSign)
	leaf, leafKey := pair(t, false, x509.KeyUsageKeyAgreement)
	inline := func(b []byte) *mesh.DataSource { return &mesh.DataSource{Inline: b} }
	text := string(cert)
	file := filepath.Join(t.TempDir(), "key.pem")
	w.must(os.WriteFile(file, key, 0o600))
	const conf = "mtls.backends[0].conf"
	for name, tc := range map[string]struct {
		backend mesh.Authority
		skip    bool
		want    []string
	}{
		"unknown type": {mesh.Authority{Name: "v", Type: "vault"}, false, []string{"mtls.backends[0].type: could not find installed plugin for this type"}},
		"skipped":      {mesh.Authority{Name: "v", Type: "vault"}, true, nil},
		"builtin name": {mesh.Authority{Name: "A_", Type: "builtin"}, false, []string{conf + `.mtls.backends.name: "A_" name must be valid dns name`}},
		"no conf":      {mesh.Authority{Name: "p", Type: "provided"}, false, []string{conf + ".cert: has to be defined", conf + ".key: has to be defined"}},
		"no source": {provided(&mesh.DataSource{}, nil), false, []string{
			conf + ".cert: data source has to be chosen. Available sources: secret, file, inline", conf + ".key: has to be defined",
		}},
		"no secret": {provided(inline(cert), &mesh.DataSource{Secret: "k"}), false, []string{
			conf + `.key: could not load data: Resource not found: type="Secret" name="k" mesh="m"`,
		}},
		"directory": {provided(inline(cert), &mesh.DataSource{File: filepath.Dir(file)}), false, []string{
			conf + ".key: could not load data: " + filepath.Dir(file) + " is no file that can be read",
		}},
		"no pair": {provided(inline(cert), inline(leafKey)), false, []string{conf + ".cert: not a valid TLS key pair: tls: private key does not match public key"}},
		"no authority": {provided(inline(leaf), inline(leafKey)), false, []string{
			conf + ".cert[0]: basic constraint 'CA' must be set to 'true' (see X509-SVID: 4.1. Basic Constraints)",
			conf + ".cert[0]: key usage extension 'keyCertSign' must be set (see X509-SVID: 4.3. Key Usage)",
			conf + ".cert[0]: key usage extension 'keyAgreement' must NOT be set (see X509-SVID: Appendix A. X.509 Field Reference)",
		}},
		"accepted": {provided(&mesh.DataSource{InlineString: &text}, &mesh.DataSource{File: file}), false, nil},
	} {
		err := w.put(mesh.Meshes, "", "m", &mesh.Mesh{MTLS: &mesh.MTLS{Backends: []mesh.Authority{tc.backend}, SkipValidation: tc.skip}})
		if tc.want == nil {
			w.must(err)
			continue
		}
		if diff := cmp.Diff(tc.want, violations(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: the error shows a key", name)
		}
	}
}

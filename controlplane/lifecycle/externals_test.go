package lifecycle_test

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/authorities"
	"github.com/meshgate/meshgate/controlplane/lifecycle"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// presenting is a service to which proxies present a certificate.
func presenting(cert, key *mesh.DataSource) *mesh.ExternalService {
	return &mesh.ExternalService{
		Networking: &mesh.ExternalNetworking{Address: "mail.example:443", TLS: &mesh.ExternalTLS{Enabled: true, ClientCert: cert, ClientKey: key}},
		Tags:       mesh.Tags{mesh.TagService: "mail"},
	}
}

func from(secret string) *mesh.DataSource { return &mesh.DataSource{Secret: secret} }

func content(b []byte) *mesh.DataSource { return &mesh.DataSource{Inline: b} }

// meshOf is a mesh with a provided authority.
func meshOf(cert, key *mesh.DataSource) *mesh.Mesh {
	return &mesh.Mesh{MTLS: &mesh.MTLS{Backends: []mesh.Authority{provided(cert, key)}}}
}

// TestOwnSecretsAreNotPresented: no reference leads to a secret with which the control plane signs.
func TestOwnSecretsAreNotPresented(t *testing.T) {
	w := setup(t)
	cert, key := pair(t, true, x509.KeyUsageCertSign)
	w.must(w.put(mesh.Meshes, "", "m", builtin("a", "a")))
	w.must(w.put(mesh.Meshes, "", "p", &mesh.Mesh{}))
	w.must(w.put(mesh.Secrets, "p", "cert", &mesh.Secret{Data: cert}))
	w.must(w.put(mesh.Secrets, "p", "key", &mesh.Secret{Data: key}))
	w.must(w.put(mesh.Meshes, "", "p", meshOf(from("cert"), from("key"))))
	for scope, names := range map[string][]string{
		"m": {"m.ca-builtin-key-a", "m.ca-builtin-cert-b", "dataplane-token-signing-key-m-1", "dataplane-token-revocations-m"}, "p": {"key"},
	} {
		for _, name := range names {
			text := `networking.tls: secret "` + name + `" is one with which the control plane signs, and no proxy may hold it`
			w.same([]string{text}, violations(w.put(mesh.ExternalServices, scope, "x", presenting(content(cert), from(name)))))
			ca := presenting(nil, nil)
			ca.Networking.TLS.CACert = from(name)
			ca.Networking.TLS.ClientCert, ca.Networking.TLS.ClientKey = nil, nil
			w.same([]string{text}, violations(w.put(mesh.ExternalServices, scope, "x", ca)))
		}
	}
	w.must(w.put(mesh.ExternalServices, "m", "x", presenting(from("later"), from("key"))))
}

// TestAuthoritiesAndClientsStayApart: whichever comes first, no key is that of an authority of any
// mesh and one that proxies present, under whatever name it is stored.
func TestAuthoritiesAndClientsStayApart(t *testing.T) {
	cert, key := pair(t, true, x509.KeyUsageCertSign)
	both := append(append([]byte{}, cert...), key...)
	const presented = `the key of the authority is one that proxies present to ExternalService "x" of mesh "n"`
	const ofMesh = `the key is that of an authority of mesh "m", which no proxy may hold`
	begin := func() *world {
		w := setup(t)
		w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{}))
		w.must(w.put(mesh.Meshes, "", "n", &mesh.Mesh{}))
		return w
	}
	authority := func(w *world) error { return w.put(mesh.Meshes, "", "m", meshOf(content(cert), content(key))) }
	inline := func(w *world) error {
		return w.put(mesh.ExternalServices, "n", "x", presenting(content(cert), content(key)))
	}

	w := begin()
	w.must(authority(w))
	w.same([]string{"networking.tls.clientCert: " + ofMesh}, violations(inline(w)))
	w.must(w.put(mesh.ExternalServices, "n", "x", presenting(from("s"), from("s"))))
	w.same([]string{"data: " + ofMesh}, violations(w.put(mesh.Secrets, "n", "s", &mesh.Secret{Data: both})))

	w = begin()
	w.must(inline(w))
	w.same([]string{"mtls.backends: " + presented}, violations(authority(w)))

	w = begin()
	w.must(w.put(mesh.ExternalServices, "n", "x", presenting(from("s"), from("s"))))
	w.must(w.put(mesh.Secrets, "n", "s", &mesh.Secret{Data: both}))
	w.same([]string{"mtls.backends: " + presented}, violations(authority(w)))
	other, otherKey := pair(t, true, x509.KeyUsageCertSign)
	w.must(w.put(mesh.Secrets, "m", "cert", &mesh.Secret{Data: other}))
	w.must(w.put(mesh.Secrets, "m", "key", &mesh.Secret{Data: otherKey}))
	w.must(w.put(mesh.Meshes, "", "m", meshOf(from("cert"), from("key"))))
	w.same([]string{"data: " + presented}, violations(w.put(mesh.Secrets, "m", "cert", &mesh.Secret{Data: cert})))
	w.must(w.put(mesh.ExternalServices, "n", "y", presenting(from("t"), from("t"))))
	w.same([]string{`mtls.backends[0].conf: ExternalService "y" refers to a secret of the authority`},
		violations(w.put(mesh.Meshes, "", "n", &mesh.Mesh{MTLS: &mesh.MTLS{SkipValidation: true, Backends: []mesh.Authority{provided(from("cert"), from("t"))}}})))
}

// TestTrustedRootsAreAuthorities: a root that is still trusted, or already, signs for proxies.
func TestTrustedRootsAreAuthorities(t *testing.T) {
	w := setup(t)
	cert, key := pair(t, true, x509.KeyUsageCertSign)
	w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{}))
	direct := admit.New(w.store, &admittest.Revoker{}, []*model.Kind{mesh.Trusts}, time.Now).As(model.System("test"))
	_, err := direct.Write(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.Trusts, Scope: "m", Name: "m", Spec: &mesh.Trust{Roots: cert}})
		return err
	})
	w.must(err)
	w.same([]string{`networking.tls.clientCert: the key is that of an authority of mesh "m", which no proxy may hold`},
		violations(w.put(mesh.ExternalServices, "m", "x", presenting(content(cert), content(key)))))
	w.must(w.store.View(t.Context(), func(r store.Reader) error {
		of, err := authorities.With(r, mesh.Certificates(cert)[0])
		if of != "m" {
			t.Errorf("the authority is of %q", of)
		}
		return err
	}))
}

// TestPartsOfExternalServicesHaveNoLimits: a limit that could not be counted is refused, whichever
// comes first.
func TestPartsOfExternalServicesHaveNoLimits(t *testing.T) {
	w := setup(t)
	w.gate.Hook(permissions, lifecycle.Limits(permissions)) // any kind with destinations
	w.gate.Hook(mesh.ExternalServices, lifecycle.LimitedExternals(permissions))
	w.must(w.put(mesh.Meshes, "", "m", &mesh.Mesh{SkipCreatingInitialPolicies: []string{"*"}}))
	limit := func(name string, tags ...mesh.Tags) error {
		p := &permission{}
		for _, m := range tags {
			p.Destinations = append(p.Destinations, mesh.Selector{Match: m})
		}
		return w.put(permissions, "m", name, p)
	}
	external := func(service string) error {
		s := presenting(nil, nil)
		s.Networking.TLS, s.Tags = nil, mesh.Tags{mesh.TagService: service}
		return w.put(mesh.ExternalServices, "m", service, s)
	}
	of := func(service string) mesh.Tags { return mesh.Tags{mesh.TagService: service} }
	part := func(service string) mesh.Tags { return mesh.Tags{mesh.TagService: service, "version": "v1"} }
	w.must(external("mail"))
	const refused = "ratelimit: RateLimit applied to external service only supports mesh.io/service as destination match"
	w.same([]string{refused}, violations(limit("l", of("mail"), part("mail"))))
	w.same([]string{refused}, violations(limit("l", part("*"))))
	w.must(limit("l", of("mail"), of("*"), part("news")))
	w.same([]string{"externalservice: ExternalService would match RateLimit 'l' which includes incompatible destination matches"}, violations(external("news")))
	w.must(external("other"))

	// A limit by other tags alone counts nothing either.
	team := mesh.Tags{"team": "a"}
	tagged := presenting(nil, nil)
	tagged.Networking.TLS, tagged.Tags["team"] = nil, "a"
	w.must(w.put(mesh.ExternalServices, "m", "mail", tagged))
	w.same([]string{refused}, violations(limit("team", team)))
	w.must(limit("team", mesh.Tags{"team": "b"}))
	tagged.Tags["team"] = "b"
	w.same([]string{"externalservice: ExternalService would match RateLimit 'team' which includes incompatible destination matches"},
		violations(w.put(mesh.ExternalServices, "m", "mail", tagged)))
}

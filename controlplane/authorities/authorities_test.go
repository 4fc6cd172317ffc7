package authorities_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/authorities"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// with asks for the mesh with the key of a certificate.
func with(t *testing.T, s store.Store, cert string) (of string, err error) {
	t.Helper()
	err = s.View(t.Context(), func(r store.Reader) error {
		of, err = authorities.With(r, mesh.Certificates([]byte(cert))[0])
		return err
	})
	return of, err
}

func backends(enabled string, list ...mesh.Authority) *mesh.Mesh {
	return &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: enabled, Backends: list}}
}

func provided(cert *mesh.DataSource) mesh.Authority {
	return mesh.Authority{Name: "p", Type: mesh.AuthorityProvided, Conf: &mesh.AuthorityConf{Cert: cert}}
}

// TestWith: every authority of a mesh counts, whether it signs now or not, and no other certificate.
func TestWith(t *testing.T) {
	cert, other := admittest.Authority(t), admittest.Authority(t)
	builtin := mesh.Authority{Name: "b", Type: mesh.AuthorityBuiltin}
	secret := func(name, text string) func(*storetest.Unreadable) {
		return func(s *storetest.Unreadable) {
			storetest.Place(t, s, mesh.Secrets, "m", name, &mesh.Secret{Data: []byte(text)})
		}
	}
	trust := func(s *storetest.Unreadable) {
		storetest.Place(t, s, mesh.Trusts, "m", "m", &mesh.Trust{Roots: []byte(other + cert)})
	}
	for name, tc := range map[string]struct {
		mesh  *mesh.Mesh
		place func(*storetest.Unreadable)
		want  string
	}{
		"nothing":                          {&mesh.Mesh{}, nil, ""},
		"builtin, enabled":                 {backends("b", builtin), secret(mesh.BuiltinCert("m", "b"), cert), "m"},
		"builtin, disabled":                {backends("", builtin), secret(mesh.BuiltinCert("m", "b"), cert), "m"},
		"builtin, of another backend":      {backends("b", builtin), secret(mesh.BuiltinCert("m", "c"), cert), ""},
		"builtin, with another key":        {backends("b", builtin), secret(mesh.BuiltinCert("m", "b"), other), ""},
		"builtin, not made yet":            {backends("b", builtin), nil, ""},
		"provided in place":                {backends("p", provided(&mesh.DataSource{InlineString: &cert})), nil, "m"},
		"provided by a secret, disabled":   {backends("", provided(&mesh.DataSource{Secret: "s"})), secret("s", cert), "m"},
		"provided, after others":           {backends("b", builtin, provided(&mesh.DataSource{Secret: "s"})), secret("s", other+cert), "m"},
		"provided without a configuration": {backends("p", mesh.Authority{Name: "p", Type: mesh.AuthorityProvided}), trust, "m"},
		"a secret of no authority":         {backends("b", builtin), secret("s", cert), ""},
		"trusted only":                     {&mesh.Mesh{}, trust, "m"},
		"a mesh that cannot be decoded": {&mesh.Mesh{}, func(s *storetest.Unreadable) {
			trust(s)
			s.Spoil(mesh.Meshes, "", "m", true)
		}, "m"},
		"trust that cannot be decoded": {backends("b", builtin), func(s *storetest.Unreadable) {
			secret(mesh.BuiltinCert("m", "b"), cert)(s)
			trust(s)
			s.Spoil(mesh.Trusts, "m", "m", true)
		}, "m"},
		"a secret that cannot be decoded": {backends("b", builtin, provided(&mesh.DataSource{InlineString: &cert})), func(s *storetest.Unreadable) {
			secret(mesh.BuiltinCert("m", "b"), other)(s)
			s.Spoil(mesh.Secrets, "m", mesh.BuiltinCert("m", "b"), true)
		}, "m"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &storetest.Unreadable{Store: memstore.New()}
			defer func() { _ = s.Close() }()
			storetest.Place(t, s, mesh.Meshes, "", "a", backends("b", builtin)) // others come first
			storetest.Place(t, s, mesh.Meshes, "", "m", tc.mesh)
			if tc.place != nil {
				tc.place(s)
			}
			if of, err := with(t, s, cert); of != tc.want || err != nil {
				t.Errorf("it is that of %q, %v; want %q", of, err, tc.want)
			}
		})
	}
}

// TestEveryCallOfWithFailsOnce: a key that could not be looked for is not nobody's.
func TestEveryCallOfWithFailsOnce(t *testing.T) {
	cert := admittest.Authority(t)
	s := &storetest.Failpoints{Store: memstore.New()}
	defer func() { _ = s.Close() }()
	storetest.Place(t, s, mesh.Meshes, "", "m", backends("b", mesh.Authority{Name: "b", Type: mesh.AuthorityBuiltin}, provided(&mesh.DataSource{Secret: "s"})))
	storetest.EveryCallFailsOnce(t, func() storetest.Trial {
		return storetest.Trial{Points: s, Act: func() error {
			_, err := with(t, s, cert)
			return err
		}}
	})
}

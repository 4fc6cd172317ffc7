// Package authorities says which keys are those of the authorities of meshes. No proxy may hold one,
// whatever it is for: with it the proxy could be any other.
package authorities

import (
	"crypto"
	"crypto/x509"
	"errors"
	"slices"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// UnlessFault returns errors of reading, and not those about what was read. A row that cannot be
// decoded is nobody's key.
func UnlessFault(err error) error {
	if errors.Is(err, store.ErrUnreadable) {
		return nil
	}
	switch fault.CodeOf(err) {
	case fault.Invalid, fault.NotFound, fault.TooLarge:
		return nil
	}
	return err
}

// With returns the name of a mesh of which an authority has the key of a certificate,
// whether it signs now, did or is about to; empty if none has.
func With(r store.Reader, c *x509.Certificate) (meshName string, err error) {
	all, err := store.ListAll(r, mesh.Meshes, store.Query{})
	if err != nil {
		return "", err
	}
	for _, res := range all {
		m, ok := res.Spec.(*mesh.Mesh)
		if !ok {
			m = &mesh.Mesh{} // it cannot be decoded, and yet trusts what it did
		}
		roots, err := Of(r, res.Name, m)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(roots, func(root *x509.Certificate) bool { return SameKey(root, c) }) {
			return res.Name, nil
		}
	}
	return "", nil
}

// Of returns the certificates of the authorities of a mesh: those of its backends,
// enabled or not, and those that it still trusts.
func Of(r store.Reader, name string, m *mesh.Mesh) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	if m.MTLS != nil {
		for i := range m.MTLS.Backends {
			b := &m.MTLS.Backends[i]
			cert := &mesh.DataSource{Secret: mesh.BuiltinCert(name, b.Name)}
			if b.Type == mesh.AuthorityProvided {
				if b.Conf == nil {
					continue
				}
				cert = b.Conf.Cert
			}
			text, err := mesh.Load(r, name, cert)
			if err := UnlessFault(err); err != nil {
				return nil, err
			}
			out = append(out, mesh.Certificates(text)...)
		}
	}
	res, err := r.Get(mesh.Trusts, name, name)
	if err != nil {
		return out, UnlessFault(err)
	}
	return append(out, mesh.Certificates(res.Spec.(*mesh.Trust).Roots)...), nil
}

// SameKey reports whether two certificates have one key, however it is encoded.
func SameKey(a, b *x509.Certificate) bool {
	key, ok := a.PublicKey.(interface{ Equal(x crypto.PublicKey) bool })
	return ok && key.Equal(b.PublicKey)
}

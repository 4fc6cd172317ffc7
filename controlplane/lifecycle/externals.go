package lifecycle

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/authorities"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Externals returns the hook for [mesh.ExternalServices]. Proxies hold the keys that they present
// to services outside the mesh. So it refuses a reference to a secret with which the control plane
// itself signs, and the key of an authority of any mesh, wherever it comes from.
func Externals() admit.Hook { return externals{} }

type externals struct{}

// Prepare implements admit.Hook.
func (externals) Prepare(context.Context, store.Reader, string, any) (any, error) { return nil, nil }

// Deleting implements admit.Hook.
func (externals) Deleting(store.Tx, *model.Resource) error { return nil }

// Stored implements admit.Hook.
func (externals) Stored(tx store.Tx, _, stored *model.Resource, _ any) error {
	s := stored.Spec.(*mesh.ExternalService)
	own, err := ownSecrets(tx, stored.Scope)
	if err != nil {
		return err
	}
	var vs []fault.Violation
	for _, name := range s.SecretNames() {
		if own(name) {
			vs = append(vs, fault.Violation{Path: "networking.tls", Message: fmt.Sprintf("secret %q is one with which the control plane signs, and no proxy may hold it", name)})
		}
	}
	if len(vs) == 0 {
		if vs, err = exposed(tx, stored.Scope, "networking.tls.clientCert", s); err != nil {
			return err
		}
	}
	return fault.Violated(vs)
}

// ownSecrets returns a function that reports whether a secret of a mesh is one with which the
// control plane signs, or says what is revoked.
func ownSecrets(r model.Getter, meshName string) (func(secret string) bool, error) {
	res, err := r.Get(mesh.Meshes, "", meshName)
	if err != nil {
		return nil, err
	}
	var named []string
	if t := res.Spec.(*mesh.Mesh).MTLS; t != nil {
		for i := range t.Backends {
			named = append(named, uses(meshName, &t.Backends[i])...)
		}
	}
	return func(secret string) bool {
		for _, prefix := range []string{
			mesh.BuiltinCert(meshName, ""), mesh.BuiltinKey(meshName, ""), mesh.TokenSigningKey, mesh.TokenRevocations, mesh.TokenWithdrawnKey,
		} {
			if strings.HasPrefix(secret, prefix) {
				return true
			}
		}
		return slices.Contains(named, secret)
	}, nil
}

// exposed returns a violation if what proxies present to a service has the key of an authority. A
// pair that cannot be read is not handed out either.
func exposed(r store.Reader, meshName, path string, s *mesh.ExternalService) ([]fault.Violation, error) {
	pair, err := s.Client(r, meshName)
	if pair == nil {
		return nil, authorities.UnlessFault(err)
	}
	of, err := authorities.With(r, pair.Leaf)
	if of == "" || err != nil {
		return nil, err
	}
	return []fault.Violation{{Path: path, Message: fmt.Sprintf("the key is that of an authority of mesh %q, which no proxy may hold", of)}}, nil
}

// held returns violations for the ExternalServices of all meshes whose proxies hold the key of an
// authority of a mesh as it is now.
func held(r store.Reader, name, path string, m *mesh.Mesh) (vs []fault.Violation, err error) {
	roots, err := authorities.Of(r, name, m)
	if err != nil || len(roots) == 0 {
		return nil, err
	}
	meshes, err := store.ListAll(r, mesh.Meshes, store.Query{})
	if err != nil {
		return nil, err
	}
	for _, of := range meshes {
		services, err := store.ListAll(r, mesh.ExternalServices, store.Query{Scope: of.Name})
		if err != nil {
			return nil, err
		}
		for _, res := range services {
			s, ok := res.Spec.(*mesh.ExternalService)
			if !ok {
				continue
			}
			pair, err := s.Client(r, of.Name)
			if err := authorities.UnlessFault(err); err != nil {
				return nil, err
			}
			if pair != nil && slices.ContainsFunc(roots, func(root *x509.Certificate) bool { return authorities.SameKey(root, pair.Leaf) }) {
				vs = append(vs, fault.Violation{Path: path, Message: fmt.Sprintf("the key of the authority is one that proxies present to ExternalService %q of mesh %q", res.Name, of.Name)})
			}
		}
	}
	return vs, nil
}

// referrers yields the ExternalServices of a mesh that refer to one of some secrets.
func referrers(r store.Reader, meshName string, secrets ...string) (out []*model.Resource, err error) {
	all, err := store.ListAll(r, mesh.ExternalServices, store.Query{Scope: meshName})
	if err != nil {
		return nil, err
	}
	for _, res := range all {
		s, ok := res.Spec.(*mesh.ExternalService)
		if ok && slices.ContainsFunc(s.SecretNames(), func(name string) bool { return slices.Contains(secrets, name) }) {
			out = append(out, res)
		}
	}
	return out, nil
}

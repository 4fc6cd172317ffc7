package view

import (
	"errors"
	"fmt"
	"slices"

	"github.com/meshgate/meshgate/controlplane/authorities"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// resolve takes a resource that refers to secrets.
func (d *meshDraft) resolve(res *model.Resource, spec Resolving) error {
	resolved, err := spec.Resolved(secretsOf{d.reader}, res.Scope, res.Name)
	if err != nil {
		return fmt.Errorf("resolve %s %s: %w", res.Kind.Name, res.Name, err)
	}
	put(d.located, res.Kind, res.Name, Locating(resolved.(Referring)))
	return nil
}

// secretsOf reads secrets. One that cannot be decoded concerns those who refer to it, and does
// not keep the rest of the mesh from being read.
type secretsOf struct{ store.Reader }

// Get implements [model.Getter].
func (s secretsOf) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	res, err := s.Reader.Get(k, scope, name)
	if errors.Is(err, store.ErrUnreadable) {
		return nil, fault.Wrap(fault.Invalid, err, "secret %q cannot be read", name)
	}
	return res, err
}

// withReferrers replaces keys of secrets by those of the resources that refer to them.
func (m *Mesh) withReferrers(keys []model.Key) []model.Key {
	if !slices.ContainsFunc(keys, func(k model.Key) bool { return isSecret(k) || namesAuthorities(k) }) {
		return keys
	}
	out := slices.DeleteFunc(slices.Clone(keys), isSecret)
	for g := range m.Policies(mesh.MeshGateways) {
		key := model.Key{Kind: mesh.MeshGateways.Name, Scope: m.name, Name: g.Name}
		concerned := func(k model.Key) bool {
			return isSecret(k) && g.presents(k.Name) || namesAuthorities(k) && len(g.Certificates) > 0
		}
		if slices.ContainsFunc(keys, concerned) && !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	for kind, x := range m.located {
		for name, spec := range x.specs.all() {
			r, ok := spec.(Referring)
			if !ok || !slices.ContainsFunc(keys, func(key model.Key) bool { return isSecret(key) && slices.Contains(r.SecretNames(), key.Name) }) {
				continue
			}
			if key := (model.Key{Kind: kind, Scope: m.name, Name: name}); !slices.Contains(out, key) {
				out = append(out, key)
			}
		}
	}
	return out
}

func isSecret(key model.Key) bool { return key.Kind == mesh.Secrets.Name }

// namesAuthorities reports whether a resource says whose keys no proxy may hold.
func namesAuthorities(key model.Key) bool {
	return key.Kind == mesh.Meshes.Name || key.Kind == mesh.Trusts.Name
}

// certify notes what the listeners of a gateway present.
func (d *meshDraft) certify(p *Policy) error {
	g, ok := p.Spec.(*mesh.MeshGateway)
	if !ok {
		return nil
	}
	p.Certificates = map[string]mesh.ServerCertificate{}
	for _, name := range g.SecretNames() {
		c, err := d.server(name)
		if err != nil {
			return fmt.Errorf("certificate %s of MeshGateway %s: %w", name, p.Name, err)
		}
		p.Certificates[name] = c
	}
	return nil
}

// server describes a secret that listeners present. The key of an authority is handed out to
// nobody, so a listener with it would wait for ever.
func (d *meshDraft) server(secret string) (mesh.ServerCertificate, error) {
	c, pair, err := mesh.ServerCertificateOf(secretsOf{d.reader}, d.from.name, secret)
	if pair == nil || err != nil {
		return c, err
	}
	of, err := authorities.With(d.reader, pair.Leaf)
	if of != "" {
		c = mesh.ServerCertificate{Wrong: "the key is that of an authority of a mesh, which no proxy may hold"}
	}
	return c, err
}

func (p *Policy) presents(secret string) bool { _, is := p.Certificates[secret]; return is }

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// DefaultPolicy is an initial policy of a new mesh. Its name consists of the prefix, such as
// allow-all-, and the mesh's name. The spec is shared and never changes.
type DefaultPolicy struct {
	Kind   *model.Kind
	Prefix string
	Spec   any
}

// Options of the hook for meshes. All fields except Policies are required.
type Options struct {
	// Kinds are all kinds whose scope is a mesh, and which are deleted with it.
	Kinds []*model.Kind
	// Policies are the initial policies of a mesh, unless it declines them.
	Policies []DefaultPolicy
	// GenerateCA makes the root of a builtin backend; conf may be nil.
	GenerateCA func(meshName, backend string, conf *mesh.AuthorityConf) (certPEM, keyPEM []byte, err error)
	// GenerateSigningKey makes the key for dataplane tokens.
	GenerateSigningKey func() (pem []byte, err error)
}

// New returns the hook for [mesh.Meshes].
func New(o Options) admit.Hook { return &meshes{o} }

type meshes struct{ Options }

// every, in skipCreatingInitialPolicies, stands for all types.
const every = "*"

// material is the result of Prepare.
type material struct {
	authorities map[string]keyPair
	signingKey  []byte
}

type keyPair struct{ cert, key []byte }

// Prepare implements admit.Hook. It validates the authorities and makes the missing keys. For a
// rehearsal it makes none: nobody would ever see them.
func (m *meshes) Prepare(ctx context.Context, r store.Reader, name string, spec any) (any, error) {
	s := spec.(*mesh.Mesh)
	vs, err := validateAuthorities(r, name, s)
	if err != nil {
		return nil, err
	}
	if err := fault.Violated(vs); err != nil {
		return nil, err
	}
	made := &material{authorities: map[string]keyPair{}}
	for _, b := range builtin(s) {
		complete, err := hasAuthority(r, name, b.Name)
		if err != nil {
			return nil, err
		}
		if complete {
			continue
		}
		generate := m.GenerateCA
		if admit.Rehearsed(ctx) {
			generate = imagineCA
		}
		cert, key, err := generate(name, b.Name, b.Conf)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the authority of mesh %q cannot be made", name)
		}
		made.authorities[b.Name] = keyPair{cert, key}
	}
	known, err := exists(r, mesh.Meshes, "", name)
	if err != nil || known {
		return made, err
	}
	if admit.Rehearsed(ctx) {
		made.signingKey = imagined
		return made, nil
	}
	if made.signingKey, err = m.GenerateSigningKey(); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the signing key of mesh %q cannot be made", name)
	}
	return made, nil
}

// imagined stands for keys and certificates in writes that are undone.
var imagined = []byte("imagined")

// imagineCA stands for GenerateCA in a rehearsal. It fails where GenerateCA would.
func imagineCA(_, _ string, conf *mesh.AuthorityConf) (certPEM, keyPEM []byte, err error) {
	if conf != nil && conf.CACert != nil && conf.CACert.Expiration != "" {
		_, err = mesh.Lifetime(conf.CACert.Expiration)
	}
	return imagined, imagined, err
}

// builtin returns the backends whose authority the control plane makes.
func builtin(s *mesh.Mesh) []mesh.Authority {
	if s.MTLS == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.MTLS.Backends), func(b mesh.Authority) bool { return b.Type != mesh.AuthorityBuiltin })
}

func exists(r model.Getter, k *model.Kind, scope, name string) (bool, error) {
	_, err := r.Get(k, scope, name)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

// hasAuthority reports whether both secrets of a builtin backend exist. One without the other
// is useless; then both are made again.
func hasAuthority(r model.Getter, name, backend string) (bool, error) {
	cert, err := exists(r, mesh.Secrets, name, mesh.BuiltinCert(name, backend))
	if err != nil || !cert {
		return false, err
	}
	return exists(r, mesh.Secrets, name, mesh.BuiltinKey(name, backend))
}

// Stored implements admit.Hook.
func (m *meshes) Stored(tx store.Tx, old, stored *model.Resource, prepared any) error {
	made, s := prepared.(*material), stored.Spec.(*mesh.Mesh)
	if err := secretsExist(tx, stored.Name, s); err != nil {
		return err
	}
	for _, b := range builtin(s) {
		complete, err := hasAuthority(tx, stored.Name, b.Name)
		if err != nil {
			return err
		}
		if complete {
			continue
		}
		pair, ok := made.authorities[b.Name]
		if !ok {
			return fault.New(fault.Conflict, "the secrets of backend %q were deleted meanwhile", b.Name)
		}
		if err := putSecret(tx, stored.Name, mesh.BuiltinCert(stored.Name, b.Name), pair.cert); err != nil {
			return err
		}
		if err := putSecret(tx, stored.Name, mesh.BuiltinKey(stored.Name, b.Name), pair.key); err != nil {
			return err
		}
	}
	if err := apart(tx, stored.Name, s); err != nil {
		return err
	}
	if old != nil {
		return nil
	}
	if made.signingKey == nil {
		return fault.New(fault.Conflict, "mesh %q was deleted meanwhile", stored.Name)
	}
	if err := putSecret(tx, stored.Name, mesh.TokenSigningKey+stored.Name+"-1", made.signingKey); err != nil {
		return err
	}
	return m.begin(tx, stored.Name, s.SkipCreatingInitialPolicies)
}

// apart refuses authorities whose secrets or keys proxies present to services outside the mesh.
func apart(tx store.Tx, name string, m *mesh.Mesh) error {
	if m.MTLS == nil {
		return nil
	}
	var vs []fault.Violation
	for i := range m.MTLS.Backends {
		presented, err := referrers(tx, name, uses(name, &m.MTLS.Backends[i])...)
		if err != nil {
			return err
		}
		for _, res := range presented {
			vs = append(vs, fault.Violation{
				Path: "mtls.backends[" + strconv.Itoa(i) + "].conf", Message: fmt.Sprintf("ExternalService %q refers to a secret of the authority", res.Name),
			})
		}
	}
	more, err := held(tx, name, "mtls.backends", m)
	if err != nil {
		return err
	}
	return fault.Violated(append(vs, more...))
}

func putSecret(tx store.Tx, scope, name string, data []byte) error {
	r := &model.Resource{Kind: mesh.Secrets, Scope: scope, Name: name, Spec: &mesh.Secret{Data: data}}
	_, err := tx.Create(r)
	if fault.Is(err, fault.Exists) {
		_, err = tx.Update(r, 0)
	}
	return err
}

// begin creates the initial policies.
func (m *meshes) begin(tx store.Tx, name string, skip []string) error {
	if slices.Contains(skip, every) {
		return nil
	}
	for _, p := range m.Policies {
		if slices.Contains(skip, p.Kind.Document.Type) {
			continue
		}
		if _, err := tx.Create(&model.Resource{Kind: p.Kind, Scope: name, Name: p.Prefix + name, Spec: p.Spec}); err != nil {
			return err
		}
	}
	return nil
}

const textAttached = "unable to delete mesh, there are still some dataplanes attached"

// Deleting implements admit.Hook. A mesh is deleted with everything in it, but not while it
// has proxies.
func (m *meshes) Deleting(tx store.Tx, r *model.Resource) error {
	attached, err := tx.Count(mesh.Dataplanes, store.Query{Scope: r.Name})
	if err != nil {
		return err
	}
	if attached > 0 {
		return fault.Violated([]fault.Violation{{Path: "mesh", Message: textAttached}})
	}
	for _, k := range m.Kinds {
		all, err := store.ListAll(tx, k, store.Query{Scope: r.Name})
		if err != nil {
			return err
		}
		for _, res := range all {
			// An earlier deletion may have deleted it.
			if err := tx.Delete(k, r.Name, res.Name, 0); err != nil && !fault.Is(err, fault.NotFound) {
				return err
			}
		}
	}
	return nil
}

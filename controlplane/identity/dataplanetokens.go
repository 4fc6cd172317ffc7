package identity

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// DataplaneTokenLife is the validity of a dataplane token unless asked otherwise.
const DataplaneTokenLife = 10 * 365 * 24 * time.Hour

// Types of proxies that a dataplane token may be for.
const (
	ProxyDataplane = "dataplane"
	ProxyIngress   = "ingress"
	ProxyEgress    = "egress"
)

// DataplaneTokenRequest asks for the token of a proxy (requirement "Tokens").
type DataplaneTokenRequest struct {
	// Name binds the token to one dataplane; empty for any of the mesh.
	Name string `json:"name"`
	Mesh string `json:"mesh"`
	// Tags bind the token to dataplanes that have all of these tags, with no other values
	// than the given ones.
	Tags map[string][]string `json:"tags"`
	// Type is dataplane if empty.
	Type string `json:"type"`
	// ValidFor is a duration such as 720h; ten years if empty.
	ValidFor string `json:"validFor"`
}

// Subject is what the token is of.
func (r DataplaneTokenRequest) Subject() (model.Key, model.Scoping) {
	return model.Key{Kind: "dataplane_token", Scope: r.Mesh, Name: r.Name}, model.Mesh
}

// DataplaneClaims are the claims of a dataplane token.
type DataplaneClaims struct {
	jwt.RegisteredClaims
	Name string              `json:"Name"`
	Mesh string              `json:"Mesh"`
	Tags map[string][]string `json:"Tags"`
	Type string              `json:"Type"`
}

// DataplaneTokens issues and checks the tokens of proxies. Keys and revocations
// are secrets of the mesh, so that both can be rotated through the API.
type DataplaneTokens struct{ secretKeys }

// maxNodeID bounds the ids of nodes: two names and a dot.
const maxNodeID = 2*253 + 1

// NewDataplaneTokens returns the tokens of a store's meshes. Keys of public count beside the
// stored ones.
func NewDataplaneTokens(s store.Store, now func() time.Time, public ...PublicKey) *DataplaneTokens {
	return &DataplaneTokens{newSecretKeys(s, now, public)}
}

func (r *DataplaneTokenRequest) check() (life time.Duration, err error) {
	var vs []fault.Violation
	if r.Mesh == "" {
		vs = append(vs, fault.Violation{Path: "mesh", Message: "cannot be empty"})
	}
	if r.Type != "" && r.Type != ProxyDataplane && r.Type != ProxyIngress && r.Type != ProxyEgress {
		vs = append(vs, fault.Violation{Path: "type", Message: r.Type + " is not a valid proxy type"})
	}
	life, more := lifeOf(r.ValidFor)
	return life, fault.Violated(append(vs, more...))
}

// Issue returns a token signed with the newest key of the mesh.
func (t *DataplaneTokens) Issue(ctx context.Context, r DataplaneTokenRequest) (string, error) {
	return t.issue(ctx, ofMesh(r.Mesh), &r)
}

// claims returns the claims of the requested token.
func (r *DataplaneTokenRequest) claims(now time.Time) (jwt.Claims, error) {
	life, err := r.check()
	if err != nil {
		return nil, err
	}
	c := DataplaneClaims{RegisteredClaims: lasting(now, life), Name: r.Name, Mesh: r.Mesh, Tags: r.Tags, Type: r.Type}
	if c.Tags == nil {
		c.Tags = map[string][]string{}
	}
	return c, nil
}

// long names the member of the request that makes a token too long.
func (r *DataplaneTokenRequest) long() string { return "tags" }

// Check returns the claims of a valid token, and otherwise a Denied fault. It accepts only
// RS256, so that a public key can never serve as a shared secret.
func (t *DataplaneTokens) Check(ctx context.Context, token string) (c *DataplaneClaims, err error) {
	err = t.store.View(ctx, func(r store.Reader) error {
		c, err = t.check(r, token)
		return err
	})
	return c, err
}

func (t *DataplaneTokens) check(r store.Reader, token string) (*DataplaneClaims, error) {
	var c DataplaneClaims
	if err := t.verify(r, strings.TrimPrefix(token, "Bearer "), &c); err != nil {
		return nil, err
	}
	return &c, nil
}

// from implements proof.
func (c *DataplaneClaims) from() (series, error) {
	if model.ValidateName(c.Mesh, false) != nil {
		return ofMesh(""), fault.New(fault.Denied, "the token names no mesh")
	}
	return ofMesh(c.Mesh), nil
}

// registered implements proof.
func (c *DataplaneClaims) registered() *jwt.RegisteredClaims { return &c.RegisteredClaims }

// isRevoked reports whether a secret lists a token id. The ids are separated by commas.
func isRevoked(r store.Reader, k *model.Kind, scope, name, id string) (bool, error) {
	ids, err := revokedOf(r, k, scope, name)
	return slices.Contains(ids, id), err
}

// revokedOf reads the ids that a secret lists. A missing secret lists none.
func revokedOf(r store.Reader, k *model.Kind, scope, name string) ([]string, error) {
	res, err := r.Get(k, scope, name)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return revokedIDs(res.Spec.(*mesh.Secret).Data), nil
}

// Authenticate checks that a token permits a proxy to be a node, whose dataplane must exist,
// and returns when the token ends. Faults: Denied for an invalid token, Forbidden for a
// token of another proxy, NotFound for a dataplane that does not exist. Failures of the
// control plane itself, such as an unusable signing key, have the code of their cause, which
// is never one of these.
func (t *DataplaneTokens) Authenticate(ctx context.Context, nodeID, token string) (until time.Time, err error) {
	if len(nodeID) > maxNodeID {
		return until, fault.New(fault.Forbidden, "a node id has at most %d bytes", maxNodeID)
	}
	meshName, name, ok := strings.Cut(nodeID, ".")
	if !ok || meshName == "" || name == "" {
		return until, fault.New(fault.Forbidden, "node id %q is not <mesh>.<dataplane>", nodeID)
	}
	err = t.store.View(ctx, func(r store.Reader) error {
		c, err := t.check(r, token)
		if err != nil {
			return err
		}
		if err := c.permits(meshName, name, nil); err != nil {
			return err
		}
		res, err := r.Get(mesh.Dataplanes, meshName, name)
		if fault.Is(err, fault.NotFound) {
			return c.proven(fault.New(fault.NotFound, "dataplane %s of mesh %s does not exist; create it first", name, meshName))
		}
		if err != nil {
			return err
		}
		if err := c.permits(meshName, name, res.Spec.(*mesh.Dataplane)); err != nil {
			return c.proven(err)
		}
		until = c.ExpiresAt.Time
		return nil
	})
	return until, err
}

// CheckToken returns a Denied fault for an invalid token. It does not check which proxy the
// token is for.
func (t *DataplaneTokens) CheckToken(ctx context.Context, token string) error {
	_, err := t.Check(ctx, token)
	return err
}

// CheckProxy checks that a token permits a proxy whose dataplane is not stored, or is stored
// differently. If the dataplane is nil, tags are not checked.
func (t *DataplaneTokens) CheckProxy(ctx context.Context, token, meshName, name string, d *mesh.Dataplane) error {
	c, err := t.Check(ctx, token)
	if err != nil {
		return err
	}
	return c.proven(c.permits(meshName, name, d))
}

// permits checks a proxy against the claims. The dataplane must have every tag of the token,
// and only with allowed values, because the certificate of the proxy will vouch for all of
// them.
func (c *DataplaneClaims) permits(meshName, name string, d *mesh.Dataplane) error {
	if cmp.Or(c.Type, ProxyDataplane) != ProxyDataplane {
		return fault.New(fault.Forbidden, "the token is for proxies of type %q, not for dataplanes", c.Type)
	}
	if c.Mesh != meshName {
		return fault.New(fault.Forbidden, "the proxy's mesh %s is not the token's %s", meshName, c.Mesh)
	}
	if c.Name != "" && c.Name != name {
		return fault.New(fault.Forbidden, "proxy name %s is different than in token: %s", name, c.Name)
	}
	if d == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(c.Tags)) {
		values := valuesOf(d, key)
		if len(values) == 0 {
			return fault.New(fault.Forbidden, "the dataplane has no tag %q, which the token demands", key)
		}
		for _, v := range values {
			if !slices.Contains(c.Tags[key], v) {
				return fault.New(fault.Forbidden, "the dataplane's tag %q has value %q, which the token does not allow", key, v)
			}
		}
	}
	return nil
}

func valuesOf(d *mesh.Dataplane, key string) []string {
	var out []string
	for _, tags := range d.TagSets() {
		if v, ok := tags[key]; ok {
			out = append(out, v)
		}
	}
	return out
}

package identity

import (
	"cmp"
	"context"
	"crypto/rsa"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

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
	// Tags bind the token to dataplanes of which every value of these tags is
	// among those given.
	Tags map[string][]string `json:"tags"`
	// Type is dataplane if empty.
	Type string `json:"type"`
	// ValidFor is a duration such as 720h; ten years if empty.
	ValidFor string `json:"validFor"`
}

// DataplaneClaims are what a dataplane token says.
type DataplaneClaims struct {
	jwt.RegisteredClaims
	Name string              `json:"Name"`
	Mesh string              `json:"Mesh"`
	Tags map[string][]string `json:"Tags"`
	Type string              `json:"Type"`
}

// DataplaneTokens issues and checks the tokens of proxies. Keys and revocations
// are secrets of the mesh, so that both can be rotated through the API.
type DataplaneTokens struct {
	store store.Store
	now   func() time.Time

	mu sync.Mutex
	// parsed holds keys by secret, each with the digest of what it was parsed
	// from: the version will not do, for it begins again when a secret is deleted
	// and created anew.
	parsed map[model.Key]parsedKey
	rings  map[string]*ring // by mesh

	// rs256 verifies signatures.
	rs256 jwt.SigningMethod
}

// maxNodeID bounds the ids of nodes: two names with a dot between.
const maxNodeID = 2*253 + 1

// NewDataplaneTokens returns the tokens of a store's meshes.
func NewDataplaneTokens(s store.Store, now func() time.Time) *DataplaneTokens {
	return &DataplaneTokens{
		store: s, now: now, parsed: map[model.Key]parsedKey{}, rings: map[string]*ring{},
		rs256: remembering{jwt.SigningMethodRS256, &verified{}},
	}
}

func (r *DataplaneTokenRequest) check() (life time.Duration, err error) {
	var vs []fault.Violation
	if r.Mesh == "" {
		vs = append(vs, fault.Violation{Path: "mesh", Message: "cannot be empty"})
	}
	if r.Type != "" && r.Type != ProxyDataplane && r.Type != ProxyIngress && r.Type != ProxyEgress {
		vs = append(vs, fault.Violation{Path: "type", Message: r.Type + " is not a valid proxy type"})
	}
	life = DataplaneTokenLife
	if r.ValidFor != "" {
		d, err := time.ParseDuration(r.ValidFor)
		switch life = d; {
		case err != nil:
			vs = append(vs, fault.Violation{Path: "validFor", Message: "is invalid: " + err.Error()})
		case life < time.Second: // times in tokens are whole seconds
			vs = append(vs, fault.Violation{Path: "validFor", Message: "is invalid: must be at least one second"})
		}
	}
	return life, fault.Violated(vs)
}

// Issue returns a token signed with the newest key of the mesh.
func (t *DataplaneTokens) Issue(ctx context.Context, r DataplaneTokenRequest) (string, error) {
	life, err := r.check()
	if err != nil {
		return "", err
	}
	var serial string
	var key *rsa.PrivateKey
	if err := t.store.View(ctx, func(reader store.Reader) (err error) {
		serial, key, err = t.newest(reader, r.Mesh)
		return err
	}); err != nil {
		return "", err
	}
	now := t.now()
	c := DataplaneClaims{
		RegisteredClaims: jwt.RegisteredClaims{
			ID: uuid.NewString(), IssuedAt: jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now.Add(-Backdate)), ExpiresAt: jwt.NewNumericDate(now.Add(life)),
		},
		Name: r.Name, Mesh: r.Mesh, Tags: r.Tags, Type: r.Type,
	}
	if c.Tags == nil {
		c.Tags = map[string][]string{}
	}
	j := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	j.Header["kid"] = serial
	token, err := j.SignedString(key)
	if err != nil {
		return "", err
	}
	if len(token) > maxTokenLength {
		return "", fault.Violated([]fault.Violation{{Path: "tags", Message: fmt.Sprintf("make a token of more than %d bytes, which no proxy could use", maxTokenLength)}})
	}
	return token, nil
}

// Check returns the claims of a valid token, and otherwise a Denied fault. Only
// RS256 is accepted, so that a public key can never serve as a shared secret.
func (t *DataplaneTokens) Check(ctx context.Context, token string) (c *DataplaneClaims, err error) {
	err = t.store.View(ctx, func(r store.Reader) error {
		c, err = t.check(r, token)
		return err
	})
	return c, err
}

func (t *DataplaneTokens) check(r store.Reader, token string) (*DataplaneClaims, error) {
	token = strings.TrimPrefix(token, "Bearer ")
	if len(token) > maxTokenLength {
		return nil, fault.New(fault.Denied, "the dataplane token is too long")
	}
	var c DataplaneClaims
	var noKey error
	var withdrawn *withdrawnKey
	_, err := jwt.ParseWithClaims(token, &c, func(j *jwt.Token) (key any, err error) {
		key, withdrawn, err = t.keyOf(r, &c, j.Header["kid"])
		noKey, j.Method = err, t.rs256 // it is the one that is valid
		return key, err
	}, jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(t.now))
	if noKey != nil && !fault.Is(noKey, fault.Denied) && !fault.Is(noKey, fault.NotFound) {
		return nil, noKey // no fault of the token
	}
	told := tokenFault
	if withdrawn != nil {
		told = withdrawn.refuse
	}
	switch {
	case !signed(err):
		return nil, told("dataplane", token, &c.RegisteredClaims, err)
	case err != nil || withdrawn != nil:
		return nil, c.proven(told("dataplane", token, &c.RegisteredClaims, err))
	}
	if err := t.counts(r, &c); err != nil {
		return nil, c.proven(err)
	}
	return &c, nil
}

// counts judges a token whose signature is good.
func (t *DataplaneTokens) counts(r store.Reader, c *DataplaneClaims) error {
	if c.ID == "" {
		return fault.New(fault.Denied, "the dataplane token has no id, by which it could be revoked")
	}
	revoked, err := t.isRevoked(r, c.Mesh, c.ID)
	if err == nil && revoked {
		err = fault.New(fault.Denied, "the dataplane token was revoked")
	}
	return err
}

// isRevoked looks a token id up in a secret that lists some: ids with commas
// between.
func isRevoked(r store.Reader, k *model.Kind, scope, name, id string) (bool, error) {
	ids, err := revokedOf(r, k, scope, name)
	return slices.Contains(ids, id), err
}

// revokedOf reads the ids that a secret lists; none if there is no such secret.
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

// Authenticate checks that a token permits a proxy to be a node, whose dataplane
// must exist, and returns when the token ends. Faults: Denied for a token that is
// not valid, Forbidden for one of another proxy, NotFound for a dataplane that
// does not exist. What the control plane itself cannot do, such as read an
// unusable signing key, has the code of its cause, which is never one of these.
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

// CheckToken returns a Denied fault for a token that is not valid, whoever it is for.
func (t *DataplaneTokens) CheckToken(ctx context.Context, token string) error {
	_, err := t.Check(ctx, token)
	return err
}

// CheckProxy checks that a token permits a proxy whose dataplane is not stored,
// or not as given. With a nil dataplane tags are not looked at.
func (t *DataplaneTokens) CheckProxy(ctx context.Context, token, meshName, name string, d *mesh.Dataplane) error {
	c, err := t.Check(ctx, token)
	if err != nil {
		return err
	}
	return c.proven(c.permits(meshName, name, d))
}

// permits holds a proxy against the claims: every tag of the token must exist on
// the dataplane, and all that the dataplane has of it must be allowed, because the
// certificate of the proxy will vouch for all of it.
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

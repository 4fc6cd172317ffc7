package identity

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	typeGateway    = "oauth-gateway"
	tokenKeyBits   = 2048
	maxTokenLength = 8 << 10
)

var instanceName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)

// Claims are the claims of a node token. They name exactly one node.
type Claims struct {
	jwt.RegisteredClaims
	// Name is the instance.
	Name string `json:"Name"`
	// ControlPlane is the control plane that a gateway belongs to.
	ControlPlane string `json:"ControlPlane"`
	Type         string `json:"Type"`
	// Certificate is the fingerprint of the client certificate by which the node has got the token. It
	// is empty for a token that stands for itself.
	Certificate string `json:"Certificate,omitempty"`
}

// Tokens issues and checks node tokens: JWTs signed with RS256. It accepts no other
// algorithm, so that a public key can never serve as a shared secret.
//
// A token has an id, which the secret [mesh.GatewayTokenRevocations] may list. A renewal
// keeps the id, so that a revocation reaches all successors of a token.
type Tokens struct {
	// Pinned finds client certificates. Without it no certificate counts, nor a token that names one.
	Pinned Pinned
	// Planes, if set, knows the control planes. A token does not outlive its own.
	Planes interface {
		Exists(r store.Reader, scope string) (bool, error)
	}

	store store.Store
	now   func() time.Time

	keys adopted[nodeKeys]
}

// GatewayTokenLife is the validity of a gateway's token unless asked otherwise, and the
// longest validity of a renewed token.
const GatewayTokenLife = 30 * 24 * time.Hour

// OpenTokens loads the signing keys, or makes one at first start.
func OpenTokens(ctx context.Context, s store.Store, now func() time.Time) (*Tokens, error) {
	t := &Tokens{store: s, now: now}
	if err := t.loadKeys(ctx); err != nil {
		return nil, fmt.Errorf("load signing keys of node tokens: %w", err)
	}
	return t, nil
}

// CheckInstance checks that a string can name a gateway instance.
func CheckInstance(name string) error {
	if !instanceName.MatchString(name) {
		return fault.Violated([]fault.Violation{{Path: "name", Message: "must be 1 to 63 of a-z, 0-9, '-' and '.', and begin and end with a letter or digit"}})
	}
	return nil
}

// Gateway issues the token of one gateway instance.
func (t *Tokens) Gateway(controlPlane, name string, validFor time.Duration) (string, error) {
	if err := CheckInstance(name); err != nil {
		return "", err
	}
	if controlPlane == "" || strings.Contains(controlPlane, "/") {
		return "", fault.Violated([]fault.Violation{{Path: "controlPlane", Message: "must be the name of a control plane"}})
	}
	if validFor <= 0 {
		return "", fault.Violated([]fault.Violation{{Path: "validFor", Message: "must be a positive duration"}})
	}
	return t.sign(t.keys.Load(), &Claims{RegisteredClaims: jwt.RegisteredClaims{ID: uuid.NewString()}, ControlPlane: controlPlane, Name: name}, validFor)
}

// Renew returns a token for the node of a valid one. It has the same id, and the same life
// counted from now, but at most [GatewayTokenLife]. Faults are those of Check. The keys that
// check the token also sign the new one. Otherwise a withdrawal in between would give the
// forger of a token one of the new key.
func (t *Tokens) Renew(ctx context.Context, token string) (string, error) {
	keys := t.keys.Load()
	c, err := t.check(ctx, keys, token)
	if err != nil {
		return "", err
	}
	if c.Certificate != "" {
		return "", fault.New(fault.Denied, "the node token is renewed by its client certificate only")
	}
	life := GatewayTokenLife
	if c.IssuedAt != nil {
		life = min(life, c.ExpiresAt.Sub(c.IssuedAt.Time))
	}
	return t.sign(keys, c, max(life, time.Second))
}

// sign signs a token for the id and the node of the claims.
func (t *Tokens) sign(keys *nodeKeys, of *Claims, validFor time.Duration) (string, error) {
	now := t.now()
	c := Claims{
		RegisteredClaims: jwt.RegisteredClaims{
			ID: of.ID, IssuedAt: jwt.NewNumericDate(now),
			NotBefore: jwt.NewNumericDate(now.Add(-Backdate)), ExpiresAt: jwt.NewNumericDate(now.Add(validFor)),
		},
		Name: of.Name, ControlPlane: of.ControlPlane, Type: typeGateway, Certificate: of.Certificate,
	}
	j := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	newest := keys.newest()
	j.Header["kid"] = newest.serial
	return j.SignedString(newest.key)
}

// Check returns the claims of a valid token, and otherwise a Denied fault. Failures of the
// control plane itself have the code of their cause.
func (t *Tokens) Check(ctx context.Context, token string) (*Claims, error) {
	return t.check(ctx, t.keys.Load(), token)
}

func (t *Tokens) check(ctx context.Context, keys *nodeKeys, token string) (*Claims, error) {
	if len(token) > maxTokenLength {
		return nil, fault.New(fault.Denied, "the node token is too long")
	}
	var c Claims
	var withdrawn *withdrawnKey
	_, err := jwt.ParseWithClaims(token, &c, func(j *jwt.Token) (key any, err error) {
		key, withdrawn, err = keys.keyOf(j.Header["kid"])
		return key, err
	}, jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(t.now))
	told := tokenFault
	if withdrawn != nil {
		told = withdrawn.refuse
	}
	switch {
	case !signed(err):
		return nil, told("node", token, &c.RegisteredClaims, err)
	case err != nil || withdrawn != nil:
		return nil, c.proven(told("node", token, &c.RegisteredClaims, err))
	}
	if err := t.counts(ctx, &c); err != nil {
		return nil, c.proven(err)
	}
	return &c, nil
}

// counts judges a token whose signature is good.
func (t *Tokens) counts(ctx context.Context, c *Claims) error {
	if c.Type != typeGateway || CheckInstance(c.Name) != nil || c.ControlPlane == "" {
		return fault.New(fault.Denied, "the node token names no gateway")
	}
	if c.ID == "" {
		return fault.New(fault.Denied, "the node token has no id, by which it could be revoked")
	}
	revoked, exists := false, true
	err := t.store.View(ctx, func(r store.Reader) (err error) {
		if t.Planes != nil {
			exists, err = t.Planes.Exists(r, c.ControlPlane)
		}
		if err == nil {
			revoked, err = isRevoked(r, mesh.GlobalSecrets, "", mesh.GatewayTokenRevocations, c.ID)
		}
		if err != nil || revoked || !exists {
			return err
		}
		return t.confirmed(r, c)
	})
	switch {
	case err != nil:
		return err
	case revoked:
		return fault.New(fault.Denied, "the node token was revoked")
	case !exists:
		return fault.New(fault.Denied, "the node token is for the control plane %q, which was deleted", c.ControlPlane)
	}
	return nil
}

// NodeID returns the id of the gateway that the claims name.
func (c *Claims) NodeID() string { return GatewayNode(c.ControlPlane, c.Name) }

// GatewayNode returns the node id of a gateway instance.
func GatewayNode(controlPlane, name string) string { return "cp/" + controlPlane + "/" + name }

// Authenticate checks that a token was issued for a node id.
func (t *Tokens) Authenticate(ctx context.Context, nodeID, token string) error {
	c, err := t.Check(ctx, strings.TrimPrefix(token, "Bearer "))
	if err != nil {
		return err
	}
	if c.NodeID() != nodeID {
		return fault.New(fault.Forbidden, "the node token is for another node than %s", nodeID)
	}
	return nil
}

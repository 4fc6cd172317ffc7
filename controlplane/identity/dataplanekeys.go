package identity

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Creator creates documents; the gate of all writes is one.
type Creator interface {
	EnsureDocument(ctx context.Context, k *model.Kind, scope, name string, spec any) (created bool, err error)
}

// signingSecrets lists the secrets of a mesh that hold signing keys, in the order of
// their serials.
func signingSecrets(r store.Reader, meshName string) (serials []int, secrets map[int]*model.Resource, err error) {
	prefix := mesh.TokenSigningKey + meshName + "-"
	all, err := r.List(mesh.Secrets, store.Query{Scope: meshName, Part: prefix})
	if err != nil {
		return nil, nil, err
	}
	secrets = map[int]*model.Resource{}
	for _, s := range all {
		rest, ok := strings.CutPrefix(s.Name, prefix)
		if n := serialOf(rest); ok && n > 0 {
			serials = append(serials, n)
			secrets[n] = s
		}
	}
	slices.Sort(serials)
	return serials, secrets, nil
}

// SigningSerial is the serial of the signing key that a secret of a mesh holds; empty
// if it holds none.
func SigningSerial(meshName, secret string) string {
	serial, ok := strings.CutPrefix(secret, mesh.TokenSigningKey+meshName+"-")
	if !ok || serialOf(serial) == 0 {
		return ""
	}
	return serial
}

// Keys lists the signing keys of a mesh, oldest first. One that cannot be parsed has
// no size.
func (t *DataplaneTokens) Keys(r store.Reader, meshName string) ([]SigningKey, error) {
	serials, secrets, err := signingSecrets(r, meshName)
	if err != nil {
		return nil, err
	}
	out := make([]SigningKey, 0, len(serials))
	for i, n := range serials {
		k := SigningKey{Serial: strconv.Itoa(n), Since: secrets[n].Created, Signs: i == len(serials)-1}
		if key, err := t.parse(secrets[n]); err == nil {
			k.Bits = key.N.BitLen()
		}
		out = append(out, k)
	}
	return out, nil
}

// Rotate adds a signing key to a mesh, which signs from now on. Tokens of the others
// stay valid.
func (t *DataplaneTokens) Rotate(ctx context.Context, c Creator, meshName string) (serial string, err error) {
	data, err := GenerateSigningKey()
	if err != nil {
		return "", err
	}
	for {
		highest := 0
		if err := t.store.View(ctx, func(r store.Reader) error {
			serials, _, err := signingSecrets(r, meshName)
			if len(serials) > 0 {
				highest = serials[len(serials)-1]
			}
			return err
		}); err != nil {
			return "", err
		}
		serial = strconv.Itoa(highest + 1)
		created, err := c.EnsureDocument(ctx, mesh.Secrets, meshName, mesh.TokenSigningKey+meshName+"-"+serial, &mesh.Secret{Data: data})
		if err != nil || created { // else somebody was faster
			return serial, err
		}
	}
}

// Newest is the serial of the key that signs in a mesh.
func (t *DataplaneTokens) Newest(ctx context.Context, meshName string) (serial string, err error) {
	err = t.store.View(ctx, func(r store.Reader) error {
		serials, _, err := signingSecrets(r, meshName)
		if err == nil && len(serials) == 0 {
			return keyMissing(meshName, "1")
		}
		if err == nil {
			serial = strconv.Itoa(serials[len(serials)-1])
		}
		return err
	})
	return serial, err
}

// Exchange returns a valid token as the newest key of its mesh signs it. It says what
// the token said: id, end and what it is bound to stay, so that nobody gains by it and
// a revocation reaches both. Faults are those of Check.
func (t *DataplaneTokens) Exchange(ctx context.Context, token string) (string, error) {
	c, err := t.Check(ctx, token)
	if err != nil {
		return "", err
	}
	serial, key, err := t.newest(ctx, c.Mesh)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the newest signing key of mesh %s cannot be used", c.Mesh)
	}
	j := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	j.Header["kid"] = serial
	signed, err := j.SignedString(key)
	if err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return signed, nil
}

// MayRemove refuses, as a Conflict, to delete or replace a secret that holds a signing
// key which is needed. stored is the secret; r is the transaction.
func (u *Uses) MayRemove(r store.Reader, stored *model.Resource) error {
	serial := SigningSerial(stored.Scope, stored.Name)
	if stored.Kind != mesh.Secrets || serial == "" {
		return nil
	}
	serials, _, err := signingSecrets(r, stored.Scope)
	if err != nil {
		return err
	}
	return u.MayDelete(fmt.Sprintf("signing key %s of mesh %s", serial, stored.Scope), stored.Scope+".", serial, len(serials) == 1)
}

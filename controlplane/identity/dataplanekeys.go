package identity

import (
	"context"
	"fmt"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// SigningSerial returns the serial of the signing key that a secret of a mesh holds, or ""
// if it holds none.
func SigningSerial(meshName, secret string) string { return ofMesh(meshName).serial(secret) }

// Keys lists the signing keys of a mesh, oldest first, with withdrawn keys before the
// others. A key that cannot be parsed has no size.
func (t *DataplaneTokens) Keys(r store.Reader, meshName string) ([]SigningKey, error) {
	return t.list(r, ofMesh(meshName))
}

// Rotate adds a signing key to a mesh. It signs from now on. Tokens of the other keys stay
// valid.
func (t *DataplaneTokens) Rotate(ctx context.Context, w Writer, meshName string) (serial string, err error) {
	return t.rotate(ctx, w, ofMesh(meshName))
}

// Withdraw adds a signing key to a mesh, which signs from now on, and withdraws all existing
// keys because one of them is compromised; see [Tokens.Withdraw]. It also withdraws a key
// that cannot be read. Only the serial of such a key is known afterwards.
func (t *DataplaneTokens) Withdraw(ctx context.Context, w Writer, meshName string) (Withdrawal, error) {
	return t.replace(ctx, w, ofMesh(meshName))
}

// Newest returns the serial of the key that signs in a mesh.
func (t *DataplaneTokens) Newest(ctx context.Context, meshName string) (serial string, err error) {
	return t.serialThatSigns(ctx, ofMesh(meshName))
}

// Exchange returns a valid token signed with the newest key of its mesh. Id, end and
// bindings stay the same, so that the exchange gains nothing and a revocation reaches both
// tokens. The token is checked in the view that finds the newest key. Otherwise a withdrawal
// in between would give the forger of a token one of the new key. Faults are those of Check.
func (t *DataplaneTokens) Exchange(ctx context.Context, token string) (signed string, err error) {
	var c *DataplaneClaims
	var by signer
	err = t.store.View(ctx, func(r store.Reader) error {
		if c, err = t.check(r, token); err != nil {
			return err
		}
		if by.kid, by.key, err = t.newest(r, ofMesh(c.Mesh)); err != nil {
			return fault.Wrap(fault.Internal, err, "the newest signing key of mesh %s cannot be used", c.Mesh)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if signed, err = by.sign(c); err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return signed, nil
}

// MayRemove refuses, as a Conflict, to delete or replace a secret with a signing key that is
// needed. stored is the secret; r is the transaction.
func (u *Uses) MayRemove(r store.Reader, stored *model.Resource) error {
	s := ofMesh(stored.Scope)
	for _, kind := range globalKinds {
		if stored.Kind == kind.series().kind && kind.series().serial(stored.Name) != "" {
			s = kind.series()
		}
	}
	serial := s.serial(stored.Name)
	if stored.Kind != s.kind || serial == "" {
		return nil
	}
	keys, err := s.read(r)
	if err != nil {
		return err
	}
	if n := serialOf(serial); keys.marks[n] != nil {
		return nil // tokens of this key do not count
	}
	what, last := fmt.Sprintf("signing key %s%s", serial, s.in()), len(keys.serials) == 1
	if s.scope == "" { // nobody knows who holds its tokens
		return lastKey(what, last)
	}
	return u.MayDelete(what, stored.Scope+".", serial, last)
}

package identity

import (
	"context"
	"crypto/rsa"
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

// meshKeys are the secrets of a mesh that hold signing keys: those that count, and what
// remains of withdrawn ones. The serials are in order. The last usable key signs. A key that
// cannot be read, or is not a key, invalidates only its own tokens.
type meshKeys struct {
	serials, withdrawn []int
	secrets, marks     map[int]*model.Resource
}

// readMeshKeys reads the signing keys of a mesh. A key whose serial was withdrawn does not
// count: somebody may have written it again, from a file or an old backup.
func readMeshKeys(r store.Reader, meshName string) (k meshKeys, err error) {
	if k.withdrawn, k.marks, err = numbered(r, meshName, mesh.TokenWithdrawnKey); err != nil {
		return k, err
	}
	k.serials, k.secrets, err = numbered(r, meshName, mesh.TokenSigningKey)
	k.serials = slices.DeleteFunc(k.serials, func(n int) bool { return k.marks[n] != nil })
	return k, err
}

// signs finds the key that signs. If no key can be used, the error says why the newest
// cannot.
func (t *DataplaneTokens) signs(k *meshKeys, meshName string) (serial int, key *rsa.PrivateKey, err error) {
	err = keyMissing(meshName, "1")
	for i, n := range slices.Backward(k.serials) {
		key, bad := t.parse(k.secrets[n])
		if bad == nil {
			return n, key, nil
		}
		if i == len(k.serials)-1 {
			err = bad
		}
	}
	return 0, nil, err
}

// next returns the serial after all serials that were ever used.
func (k *meshKeys) next() string {
	highest := 0
	for _, list := range [][]int{k.serials, k.withdrawn} {
		if len(list) > 0 {
			highest = max(highest, list[len(list)-1])
		}
	}
	return strconv.Itoa(highest + 1)
}

// numbered lists the secrets of a mesh whose names are a prefix, the mesh and a serial.
func numbered(r store.Reader, meshName, prefix string) (serials []int, secrets map[int]*model.Resource, err error) {
	prefix += meshName + "-"
	all, err := store.ListAll(r, mesh.Secrets, store.Query{Scope: meshName, Part: prefix})
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

// SigningSerial returns the serial of the signing key that a secret of a mesh holds, or ""
// if it holds none.
func SigningSerial(meshName, secret string) string {
	serial, ok := strings.CutPrefix(secret, mesh.TokenSigningKey+meshName+"-")
	if !ok || serialOf(serial) == 0 {
		return ""
	}
	return serial
}

// Keys lists the signing keys of a mesh, oldest first, with withdrawn keys before the
// others. A key that cannot be parsed has no size.
func (t *DataplaneTokens) Keys(r store.Reader, meshName string) ([]SigningKey, error) {
	keys, err := readMeshKeys(r, meshName)
	if err != nil {
		return nil, err
	}
	out := make([]SigningKey, 0, len(keys.serials)+len(keys.withdrawn))
	for _, n := range keys.withdrawn {
		k := SigningKey{Serial: strconv.Itoa(n), Since: keys.marks[n].Created, Withdrawn: true}
		if secret, ok := keys.marks[n].Spec.(*mesh.Secret); ok {
			if key, err := parsePublic(secret.Data); err == nil {
				k.Bits = key.N.BitLen()
			}
		}
		out = append(out, k)
	}
	signer, _, _ := t.signs(&keys, meshName) // 0 if no key can sign
	for _, n := range keys.serials {
		k := SigningKey{Serial: strconv.Itoa(n), Since: keys.secrets[n].Created, Signs: n == signer}
		if key, err := t.parse(keys.secrets[n]); err == nil {
			k.Bits = key.N.BitLen()
		}
		out = append(out, k)
	}
	return out, nil
}

// Rotate adds a signing key to a mesh. It signs from now on. Tokens of the other keys stay
// valid.
func (t *DataplaneTokens) Rotate(ctx context.Context, w Writer, meshName string) (serial string, err error) {
	err = t.change(ctx, w, meshName, func(_ store.Tx, keys meshKeys) error {
		serial = keys.next()
		return nil
	})
	return serial, err
}

// Withdraw adds a signing key to a mesh, which signs from now on, and withdraws all existing
// keys because one of them is compromised; see [Tokens.Withdraw]. It also withdraws a key
// that cannot be read. Only the serial of such a key is known afterwards.
func (t *DataplaneTokens) Withdraw(ctx context.Context, w Writer, meshName string) (out Withdrawal, err error) {
	err = t.change(ctx, w, meshName, func(tx store.Tx, keys meshKeys) error {
		out = Withdrawal{Serial: keys.next()}
		for _, n := range keys.serials {
			if err := t.withdraw(tx, keys.secrets[n], mesh.TokenWithdrawnKey+meshName+"-"+strconv.Itoa(n)); err != nil {
				return err
			}
			out.Withdrawn = append(out.Withdrawn, strconv.Itoa(n))
		}
		return nil
	})
	return out, err
}

// withdraw replaces a signing key by what remains of it.
func (t *DataplaneTokens) withdraw(tx store.Tx, secret *model.Resource, mark string) error {
	var public []byte
	if key, err := t.parse(secret); err == nil {
		if public, err = publicPEM(&key.PublicKey); err != nil {
			return err
		}
	}
	if _, err := tx.Create(&model.Resource{Kind: mesh.Secrets, Scope: secret.Scope, Name: mark, Spec: &mesh.Secret{Data: public}}); err != nil {
		return err
	}
	return tx.Delete(mesh.Secrets, secret.Scope, secret.Name, 0)
}

// change adds a signing key to a mesh, after running fn in the same transaction.
func (t *DataplaneTokens) change(ctx context.Context, w Writer, meshName string, fn func(store.Tx, meshKeys) error) error {
	data, err := GenerateSigningKey()
	if err != nil {
		return err
	}
	_, err = w.Write(ctx, model.Config, func(tx store.Tx) error {
		_, err := tx.Get(mesh.Meshes, "", meshName)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "there is no mesh %s", meshName)
		}
		if err != nil {
			return err
		}
		keys, err := readMeshKeys(tx, meshName)
		if err != nil {
			return err
		}
		if err := fn(tx, keys); err != nil {
			return err
		}
		_, err = tx.Create(&model.Resource{
			Kind: mesh.Secrets, Scope: meshName, Name: mesh.TokenSigningKey + meshName + "-" + keys.next(), Spec: &mesh.Secret{Data: data},
		})
		return err
	})
	return err
}

// Newest returns the serial of the key that signs in a mesh.
func (t *DataplaneTokens) Newest(ctx context.Context, meshName string) (serial string, err error) {
	err = t.store.View(ctx, func(r store.Reader) error {
		keys, err := readMeshKeys(r, meshName)
		if err != nil {
			return err
		}
		n, _, err := t.signs(&keys, meshName)
		serial = strconv.Itoa(n)
		return err
	})
	return serial, err
}

// Exchange returns a valid token signed with the newest key of its mesh. Id, end and
// bindings stay the same, so that the exchange gains nothing and a revocation reaches both
// tokens. The token is checked in the view that finds the newest key. Otherwise a withdrawal
// in between would give the forger of a token one of the new key. Faults are those of Check.
func (t *DataplaneTokens) Exchange(ctx context.Context, token string) (signed string, err error) {
	var c *DataplaneClaims
	var serial string
	var key *rsa.PrivateKey
	err = t.store.View(ctx, func(r store.Reader) error {
		if c, err = t.check(r, token); err != nil {
			return err
		}
		if serial, key, err = t.newest(r, c.Mesh); err != nil {
			return fault.Wrap(fault.Internal, err, "the newest signing key of mesh %s cannot be used", c.Mesh)
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	j := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	j.Header["kid"] = serial
	if signed, err = j.SignedString(key); err != nil {
		return "", fmt.Errorf("sign the token: %w", err)
	}
	return signed, nil
}

// MayRemove refuses, as a Conflict, to delete or replace a secret with a signing key that is
// needed. stored is the secret; r is the transaction.
func (u *Uses) MayRemove(r store.Reader, stored *model.Resource) error {
	serial := SigningSerial(stored.Scope, stored.Name)
	if stored.Kind != mesh.Secrets || serial == "" {
		return nil
	}
	keys, err := readMeshKeys(r, stored.Scope)
	if err != nil {
		return err
	}
	if n := serialOf(serial); keys.marks[n] != nil {
		return nil // tokens of this key do not count
	}
	return u.MayDelete(fmt.Sprintf("signing key %s of mesh %s", serial, stored.Scope), stored.Scope+".", serial, len(keys.serials) == 1)
}

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
// stays of those that were withdrawn; serials are in order. The last one that can be used
// signs: a key that cannot be read, or is none, takes no token with it but its own, which
// are refused.
type meshKeys struct {
	serials, withdrawn []int
	secrets, marks     map[int]*model.Resource
}

// readMeshKeys reads the signing keys of a mesh. One whose serial was withdrawn does not
// count: somebody may have written it again, from a file or an old backup.
func readMeshKeys(r store.Reader, meshName string) (k meshKeys, err error) {
	if k.withdrawn, k.marks, err = numbered(r, meshName, mesh.TokenWithdrawnKey); err != nil {
		return k, err
	}
	k.serials, k.secrets, err = numbered(r, meshName, mesh.TokenSigningKey)
	k.serials = slices.DeleteFunc(k.serials, func(n int) bool { return k.marks[n] != nil })
	return k, err
}

// signs finds the key that signs. Where none can be used, the error says why the newest
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

// next is the serial of the key that comes after all that there were.
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

// SigningSerial is the serial of the signing key that a secret of a mesh holds; empty
// if it holds none.
func SigningSerial(meshName, secret string) string {
	serial, ok := strings.CutPrefix(secret, mesh.TokenSigningKey+meshName+"-")
	if !ok || serialOf(serial) == 0 {
		return ""
	}
	return serial
}

// Keys lists the signing keys of a mesh, oldest first, those that were withdrawn before
// the others. One that cannot be parsed has no size.
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
	signer, _, _ := t.signs(&keys, meshName) // 0 if none can
	for _, n := range keys.serials {
		k := SigningKey{Serial: strconv.Itoa(n), Since: keys.secrets[n].Created, Signs: n == signer}
		if key, err := t.parse(keys.secrets[n]); err == nil {
			k.Bits = key.N.BitLen()
		}
		out = append(out, k)
	}
	return out, nil
}

// Rotate adds a signing key to a mesh, which signs from now on. Tokens of the others
// stay valid.
func (t *DataplaneTokens) Rotate(ctx context.Context, w Writer, meshName string) (serial string, err error) {
	err = t.change(ctx, w, meshName, func(_ store.Tx, keys meshKeys) error {
		serial = keys.next()
		return nil
	})
	return serial, err
}

// Withdraw adds a signing key to a mesh, which signs from now on, and withdraws all that
// there are, because one of them is compromised; see [Tokens.Withdraw]. A key that cannot
// be read goes, too; of it nothing is known afterwards but its serial.
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

// withdraw puts what stays of a signing key in its place.
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

// change adds a signing key to a mesh, after whatever fn does in the same transaction.
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

// Newest is the serial of the key that signs in a mesh.
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

// Exchange returns a valid token as the newest key of its mesh signs it. It says what
// the token said: id, end and what it is bound to stay, so that nobody gains by it and
// a revocation reaches both. The token is checked in the view that finds the newest key:
// a withdrawal in between would leave a token of the new key to who forged this one.
// Faults are those of Check.
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

// MayRemove refuses, as a Conflict, to delete or replace a secret that holds a signing
// key which is needed. stored is the secret; r is the transaction.
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
		return nil // no token of it counts
	}
	return u.MayDelete(fmt.Sprintf("signing key %s of mesh %s", serial, stored.Scope), stored.Scope+".", serial, len(keys.serials) == 1)
}

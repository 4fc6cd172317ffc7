package identity

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// series is a succession of signing keys that are stored as secrets: those of the dataplane
// tokens of one mesh, or those of one kind of tokens of the control plane. Whoever may write
// secrets can rotate the keys and revoke tokens.
type series struct {
	kind  *model.Kind
	scope string
	// key and withdrawn are the names of secrets up to the serial. revoked is the name of the
	// secret with the ids of revoked tokens.
	key, withdrawn, revoked string
	// token names the tokens in refusals.
	token string
}

// ofMesh returns the series of the dataplane tokens of a mesh.
func ofMesh(name string) series {
	return series{
		kind: mesh.Secrets, scope: name, token: "dataplane",
		key: mesh.TokenSigningKey + name + "-", withdrawn: mesh.TokenWithdrawnKey + name + "-", revoked: mesh.TokenRevocations + name,
	}
}

// ofControlPlane returns the series of a kind of tokens of the control plane.
func ofControlPlane(token, prefix string) series {
	return series{
		kind: mesh.GlobalSecrets, token: token,
		key: prefix + mesh.SigningKeySuffix, withdrawn: prefix + mesh.WithdrawnKeySuffix, revoked: prefix + mesh.RevocationsSuffix,
	}
}

// in says in texts where the keys of the series are.
func (s series) in() string {
	if s.scope == "" {
		return " of " + s.token + " tokens"
	}
	return " of mesh " + s.scope
}

// serial returns the serial of the signing key that a secret holds, or "" if it holds none.
func (s series) serial(secret string) string {
	serial, ok := strings.CutPrefix(secret, s.key)
	if !ok || serialOf(serial) == 0 {
		return ""
	}
	return serial
}

// missing is the fault of a token whose key does not exist.
func (s series) missing(serial string) error {
	place := fmt.Sprintf("GlobalSecret of name %q", s.key+serial)
	if s.scope != "" {
		place = fmt.Sprintf("Secret of name %q in mesh %q", s.key+serial, s.scope)
	}
	return fault.New(fault.NotFound, "there is no signing key with KID %s. %s is not found. If signing key was rotated, regenerate the token",
		serial, place).With(SigningKeyMissing{s.scope, serial})
}

// exists returns NotFound if the mesh of the series does not exist.
func (s series) exists(r store.Reader) error {
	if s.scope == "" {
		return nil
	}
	_, err := r.Get(mesh.Meshes, "", s.scope)
	if fault.Is(err, fault.NotFound) {
		return fault.New(fault.NotFound, "there is no mesh %s", s.scope)
	}
	return err
}

// seriesKeys are the secrets of a series that hold signing keys: those that count, and what
// remains of withdrawn ones. The serials are in order. The last usable key signs. A key that
// cannot be read, or is not a key, invalidates only its own tokens.
type seriesKeys struct {
	serials, withdrawn []int
	secrets, marks     map[int]*model.Resource
}

// read reads the signing keys of a series. A key whose serial was withdrawn does not count:
// somebody may have written it again, from a file or an old backup.
func (s series) read(r store.Reader) (k seriesKeys, err error) {
	if k.withdrawn, k.marks, err = s.numbered(r, s.withdrawn); err != nil {
		return k, err
	}
	k.serials, k.secrets, err = s.numbered(r, s.key)
	k.serials = slices.DeleteFunc(k.serials, func(n int) bool { return k.marks[n] != nil })
	return k, err
}

// numbered lists the secrets whose names are a prefix and a serial.
func (s series) numbered(r store.Reader, prefix string) (serials []int, secrets map[int]*model.Resource, err error) {
	all, err := store.ListAll(r, s.kind, store.Query{Scope: s.scope, Part: prefix})
	if err != nil {
		return nil, nil, err
	}
	secrets = map[int]*model.Resource{}
	for _, res := range all {
		rest, ok := strings.CutPrefix(res.Name, prefix)
		if n := serialOf(rest); ok && n > 0 {
			serials = append(serials, n)
			secrets[n] = res
		}
	}
	slices.Sort(serials)
	return serials, secrets, nil
}

// next returns the serial after all serials that were ever used.
func (k *seriesKeys) next() string {
	highest := 0
	for _, list := range [][]int{k.serials, k.withdrawn} {
		if len(list) > 0 {
			highest = max(highest, list[len(list)-1])
		}
	}
	return strconv.Itoa(highest + 1)
}

// signs finds the key that signs. If no key can be used, the error says why the newest
// cannot.
func (t *secretKeys) signs(s series, k *seriesKeys) (serial int, key *rsa.PrivateKey, err error) {
	err = s.missing("1")
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

// list lists the signing keys of a series, oldest first, with withdrawn keys before the
// others. A key that cannot be parsed has no size.
func (t *secretKeys) list(r store.Reader, s series) ([]SigningKey, error) {
	keys, err := s.read(r)
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
	signer, _, _ := t.signs(s, &keys) // 0 if no key can sign
	for _, n := range keys.serials {
		k := SigningKey{Serial: strconv.Itoa(n), Since: keys.secrets[n].Created, Signs: n == signer}
		if key, err := t.parse(keys.secrets[n]); err == nil {
			k.Bits = key.N.BitLen()
		}
		out = append(out, k)
	}
	return out, nil
}

// rotate adds a signing key to a series. It signs from now on. Tokens of the other keys stay
// valid.
func (t *secretKeys) rotate(ctx context.Context, w Writer, s series) (serial string, err error) {
	err = t.change(ctx, w, s, func(_ store.Tx, keys seriesKeys) error {
		serial = keys.next()
		return nil
	})
	return serial, err
}

// errHasKey ends the transaction of ensure if nothing is to be done.
var errHasKey = errors.New("the series has a key")

// ensure adds a signing key to a series that has none.
func (t *secretKeys) ensure(ctx context.Context, w Writer, s series) error {
	var keys seriesKeys
	err := t.store.View(ctx, func(r store.Reader) (err error) {
		keys, err = s.read(r)
		return err
	})
	if err != nil || len(keys.serials) > 0 {
		return err
	}
	err = t.change(ctx, w, s, func(_ store.Tx, keys seriesKeys) error {
		if len(keys.serials) > 0 { // another process was faster
			return errHasKey
		}
		return nil
	})
	if errors.Is(err, errHasKey) {
		return nil
	}
	return err
}

// replace adds a signing key to a series, which signs from now on, and withdraws all existing
// keys because one of them is compromised; see [Tokens.Withdraw]. It also withdraws a key
// that cannot be read. Only the serial of such a key is known afterwards.
func (t *secretKeys) replace(ctx context.Context, w Writer, s series) (out Withdrawal, err error) {
	err = t.change(ctx, w, s, func(tx store.Tx, keys seriesKeys) error {
		out = Withdrawal{Serial: keys.next()}
		for _, n := range keys.serials {
			if err := t.withdraw(tx, s, keys.secrets[n], s.withdrawn+strconv.Itoa(n)); err != nil {
				return err
			}
			out.Withdrawn = append(out.Withdrawn, strconv.Itoa(n))
		}
		return nil
	})
	return out, err
}

// withdraw replaces a signing key by what remains of it.
func (t *secretKeys) withdraw(tx store.Tx, s series, secret *model.Resource, mark string) error {
	var public []byte
	if key, err := t.parse(secret); err == nil {
		if public, err = publicPEM(&key.PublicKey); err != nil {
			return err
		}
	}
	if _, err := tx.Create(&model.Resource{Kind: s.kind, Scope: s.scope, Name: mark, Spec: &mesh.Secret{Data: public}}); err != nil {
		return err
	}
	return tx.Delete(s.kind, s.scope, secret.Name, 0)
}

// change adds a signing key to a series, after running fn in the same transaction.
func (t *secretKeys) change(ctx context.Context, w Writer, s series, fn func(store.Tx, seriesKeys) error) error {
	data, err := GenerateSigningKey()
	if err != nil {
		return err
	}
	_, err = w.Write(ctx, model.Config, func(tx store.Tx) error {
		if err := s.exists(tx); err != nil {
			return err
		}
		keys, err := s.read(tx)
		if err != nil {
			return err
		}
		if err := fn(tx, keys); err != nil {
			return err
		}
		_, err = tx.Create(&model.Resource{Kind: s.kind, Scope: s.scope, Name: s.key + keys.next(), Spec: &mesh.Secret{Data: data}})
		return err
	})
	return err
}

// serialThatSigns returns the serial of the key that signs.
func (t *secretKeys) serialThatSigns(ctx context.Context, s series) (serial string, err error) {
	err = t.store.View(ctx, func(r store.Reader) error {
		serial, _, err = t.newest(r, s)
		return err
	})
	return serial, err
}

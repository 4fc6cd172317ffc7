package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// SigningKey is the public information about a key that signs tokens.
type SigningKey struct {
	// Serial is the key id in the tokens that it signed.
	Serial string
	Bits   int
	// Since is when the key was made.
	Since time.Time
	// Signs is set for the key that signs from now on.
	Signs bool
	// Withdrawn is set for a compromised key: none of its tokens count. Since is then when
	// it was withdrawn.
	Withdrawn bool
}

// nodeKey is one key that signs node tokens.
type nodeKey struct {
	serial string
	key    *rsa.PrivateKey
	since  time.Time
}

// nodeKeys are the keys of node tokens, each list in the order of the serials: the keys that
// count, the last of which signs, and those that were withdrawn.
type nodeKeys struct {
	counting  []nodeKey
	withdrawn []withdrawnKey
}

// newest returns the key that signs.
func (k *nodeKeys) newest() nodeKey { return k.counting[len(k.counting)-1] }

// next returns the serial after all serials that were ever used.
func (k *nodeKeys) next() string {
	highest := 0
	if n := len(k.counting); n > 0 {
		highest = serialOf(k.counting[n-1].serial)
	}
	if n := len(k.withdrawn); n > 0 {
		highest = max(highest, serialOf(k.withdrawn[n-1].serial))
	}
	return strconv.Itoa(highest + 1)
}

// newNodeKey makes a key.
func newNodeKey() (*KeyPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, tokenKeyBits)
	if err != nil {
		return nil, err
	}
	text, err := pemtext.Key(key)
	if err != nil {
		return nil, err
	}
	return &KeyPair{Key: text}, nil
}

// listNodeKeys reads the keys of node tokens.
func listNodeKeys(r store.Reader) (keys nodeKeys, err error) {
	err = eachNodeKey(r, keyTokens, func(serial string, res *model.Resource) error {
		signer, err := parseKey(res.Spec.(*KeyPair).Key)
		if err != nil {
			return err
		}
		key, ok := signer.(*rsa.PrivateKey)
		if !ok {
			return fmt.Errorf("is %T, not RSA", signer)
		}
		keys.counting = append(keys.counting, nodeKey{serial, key, res.Created})
		return nil
	})
	if err != nil {
		return nodeKeys{}, err
	}
	err = eachNodeKey(r, keyWithdrawn, func(serial string, res *model.Resource) error {
		public, err := parsePublic(res.Spec.(*KeyPair).Key)
		keys.withdrawn = append(keys.withdrawn, withdrawnKey{serial, public, res.Created})
		return err
	})
	slices.SortFunc(keys.counting, func(a, b nodeKey) int { return cmp.Compare(serialOf(a.serial), serialOf(b.serial)) })
	slices.SortFunc(keys.withdrawn, func(a, b withdrawnKey) int { return cmp.Compare(serialOf(a.serial), serialOf(b.serial)) })
	return keys, err
}

// eachNodeKey calls fn for the stored keys whose names are a prefix and a serial.
func eachNodeKey(r store.Reader, prefix string, fn func(serial string, res *model.Resource) error) error {
	return eachKey(r, prefix, "signing key %s of node tokens", fn)
}

// loadKeys reads the keys, and makes the first one if there is none. It does not make a
// deleted key again while another one is left.
func (t *Tokens) loadKeys(ctx context.Context) error {
	var keys nodeKeys
	read := func(r store.Reader) (err error) {
		keys, err = listNodeKeys(r)
		return err
	}
	if err := t.store.View(ctx, read); err != nil {
		return err
	}
	if len(keys.counting) == 0 {
		if _, err := ensure(ctx, t.store, keyTokens+keys.next(), always, newNodeKey); err != nil {
			return err
		}
		if err := t.store.View(ctx, read); err != nil {
			return err
		}
	}
	if len(keys.counting) == 0 {
		return fault.New(fault.Internal, "the key that was made is not there")
	}
	t.keys.Store(&keys)
	return nil
}

// Keys lists the keys of node tokens, oldest first, with withdrawn keys before the others.
func (t *Tokens) Keys() (out []SigningKey) {
	keys := t.keys.Load()
	for _, k := range keys.withdrawn {
		out = append(out, SigningKey{Serial: k.serial, Bits: k.key.N.BitLen(), Since: k.at, Withdrawn: true})
	}
	for i, k := range keys.counting {
		out = append(out, SigningKey{Serial: k.serial, Bits: k.key.N.BitLen(), Since: k.since, Signs: i == len(keys.counting)-1})
	}
	return out
}

// Newest returns the serial of the key that signs.
func (t *Tokens) Newest() string { return t.keys.Load().newest().serial }

// Rotate adds a key, which signs from now on. Tokens of the other keys stay valid.
func (t *Tokens) Rotate(ctx context.Context, w Writer) (serial string, err error) {
	made, err := newNodeKey()
	if err != nil {
		return "", err
	}
	err = t.keys.change(ctx, w, listNodeKeys, func(tx store.Tx, keys nodeKeys) error {
		serial = keys.next()
		_, err := tx.Create(&model.Resource{Kind: Keys, Name: keyTokens + serial, Spec: made})
		return err
	})
	return serial, err
}

// Withdraw adds a key, which signs from now on, and withdraws all existing keys because one
// of them is compromised. Both happen in one step: while a compromised key and its successor
// both count, a forger can exchange a token for one of the successor.
func (t *Tokens) Withdraw(ctx context.Context, w Writer) (out Withdrawal, err error) {
	made, err := newNodeKey()
	if err != nil {
		return out, err
	}
	err = t.keys.change(ctx, w, listNodeKeys, func(tx store.Tx, keys nodeKeys) error {
		out = Withdrawal{Serial: keys.next()}
		for _, k := range keys.counting {
			public, err := publicPEM(&k.key.PublicKey)
			if err != nil {
				return err
			}
			if _, err := tx.Create(&model.Resource{Kind: Keys, Name: keyWithdrawn + k.serial, Spec: &KeyPair{Key: public}}); err != nil {
				return err
			}
			if err := tx.Delete(Keys, "", keyTokens+k.serial, 0); err != nil {
				return err
			}
			out.Withdrawn = append(out.Withdrawn, k.serial)
		}
		_, err := tx.Create(&model.Resource{Kind: Keys, Name: keyTokens + out.Serial, Spec: made})
		return err
	})
	return out, err
}

// Delete deletes a key of node tokens, which invalidates all of its tokens. allowed gets the
// number of keys and may refuse. The last key is replaced by a new one, because without any
// key no node could ever join again.
func (t *Tokens) Delete(ctx context.Context, w Writer, serial string, allowed func(keys int) error) error {
	return t.keys.change(ctx, w, listNodeKeys, func(tx store.Tx, keys nodeKeys) error {
		if !slices.ContainsFunc(keys.counting, func(k nodeKey) bool { return k.serial == serial }) {
			return fault.New(fault.NotFound, "there is no signing key %s of node tokens", serial)
		}
		if err := allowed(len(keys.counting)); err != nil {
			return err
		}
		if len(keys.counting) == 1 {
			made, err := newNodeKey()
			if err != nil {
				return err
			}
			if _, err := tx.Create(&model.Resource{Kind: Keys, Name: keyTokens + keys.next(), Spec: made}); err != nil {
				return err
			}
		}
		return tx.Delete(Keys, "", keyTokens+serial, 0)
	})
}

// keyOf returns the public key that a token names, and its withdrawal if it was withdrawn.
func (k *nodeKeys) keyOf(kid any) (*rsa.PublicKey, *withdrawnKey, error) {
	serial, _ := kid.(string)
	for i, w := range k.withdrawn {
		if w.serial == serial {
			return w.key, &k.withdrawn[i], nil
		}
	}
	for _, c := range k.counting {
		if c.serial == serial {
			return &c.key.PublicKey, nil, nil
		}
	}
	return nil, nil, fault.New(fault.Denied, "unknown signing key")
}

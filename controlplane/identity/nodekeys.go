package identity

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// SigningKey is what may be told of a key that signs tokens.
type SigningKey struct {
	// Serial is the key id in the tokens that it signed.
	Serial string
	Bits   int
	// Since is when it was made.
	Since time.Time
	// Signs is set for the one that signs from now on.
	Signs bool
}

// nodeKey is one key that signs node tokens.
type nodeKey struct {
	serial string
	key    *rsa.PrivateKey
	since  time.Time
}

// newNodeKey makes a key.
func newNodeKey() (*KeyPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, tokenKeyBits)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &KeyPair{Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, nil
}

// listNodeKeys reads the keys of node tokens, in the order of their serials.
func listNodeKeys(r store.Reader) ([]nodeKey, error) {
	all, err := r.List(Keys, store.Query{Part: keyTokens})
	if err != nil {
		return nil, err
	}
	var keys []nodeKey
	for _, res := range all {
		serial, ok := strings.CutPrefix(res.Name, keyTokens)
		if !ok || serialOf(serial) == 0 {
			continue
		}
		signer, err := parseKey(res.Spec.(*KeyPair).Key)
		if err != nil {
			return nil, fmt.Errorf("signing key %s of node tokens: %w", serial, err)
		}
		key, ok := signer.(*rsa.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("signing key %s of node tokens is %T, not RSA", serial, signer)
		}
		keys = append(keys, nodeKey{serial, key, res.Created})
	}
	slices.SortFunc(keys, func(a, b nodeKey) int { return cmp.Compare(serialOf(a.serial), serialOf(b.serial)) })
	return keys, nil
}

// loadKeys reads the keys, and makes the first one if there is none. A key that was
// deleted is not made again.
func (t *Tokens) loadKeys(ctx context.Context) error {
	var keys []nodeKey
	read := func(r store.Reader) (err error) {
		keys, err = listNodeKeys(r)
		return err
	}
	if err := t.store.View(ctx, read); err != nil {
		return err
	}
	if len(keys) == 0 {
		if _, err := ensure(ctx, t.store, keyTokens+"1", always, newNodeKey); err != nil {
			return err
		}
		if err := t.store.View(ctx, read); err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return fault.New(fault.Internal, "the key that was made is not there")
	}
	t.keys.Store(&keys)
	return nil
}

// Keys lists the keys of node tokens, oldest first.
func (t *Tokens) Keys() []SigningKey {
	keys := *t.keys.Load()
	out := make([]SigningKey, len(keys))
	for i, k := range keys {
		out[i] = SigningKey{Serial: k.serial, Bits: k.key.N.BitLen(), Since: k.since, Signs: i == len(keys)-1}
	}
	return out
}

// Newest is the serial of the key that signs.
func (t *Tokens) Newest() string {
	keys := *t.keys.Load()
	return keys[len(keys)-1].serial
}

// Rotate adds a key, which signs from now on. Tokens of the others stay valid.
func (t *Tokens) Rotate(ctx context.Context, w Writer) (serial string, err error) {
	made, err := newNodeKey()
	if err != nil {
		return "", err
	}
	err = t.change(ctx, w, func(tx store.Tx, keys []nodeKey) error {
		highest := 0
		if len(keys) > 0 {
			highest = serialOf(keys[len(keys)-1].serial)
		}
		serial = strconv.Itoa(highest + 1)
		_, err := tx.Create(&model.Resource{Kind: Keys, Name: keyTokens + serial, Spec: made})
		return err
	})
	return serial, err
}

// Delete deletes a key of node tokens, and all of its tokens with it. allowed may
// refuse that, knowing how many keys there are. In the place of the last one comes a
// new one: without any, no node could ever join again.
func (t *Tokens) Delete(ctx context.Context, w Writer, serial string, allowed func(keys int) error) error {
	return t.change(ctx, w, func(tx store.Tx, keys []nodeKey) error {
		if !slices.ContainsFunc(keys, func(k nodeKey) bool { return k.serial == serial }) {
			return fault.New(fault.NotFound, "there is no signing key %s of node tokens", serial)
		}
		if err := allowed(len(keys)); err != nil {
			return err
		}
		if len(keys) == 1 {
			made, err := newNodeKey()
			if err != nil {
				return err
			}
			if _, err := tx.Create(&model.Resource{Kind: Keys, Name: keyTokens + strconv.Itoa(serialOf(serial)+1), Spec: made}); err != nil {
				return err
			}
		}
		return tx.Delete(Keys, "", keyTokens+serial, 0)
	})
}

// change runs fn in a transaction of the gate and takes over what came of it.
func (t *Tokens) change(ctx context.Context, w Writer, fn func(store.Tx, []nodeKey) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var after []nodeKey
	commit, err := w.Write(ctx, model.Config, func(tx store.Tx) error {
		keys, err := listNodeKeys(tx)
		if err == nil {
			err = fn(tx, keys)
		}
		if err == nil {
			after, err = listNodeKeys(tx)
		}
		return err
	})
	if len(commit.Changes) > 0 { // it stands, whatever happened afterwards
		t.keys.Store(&after)
	}
	return err
}

// keyOf returns the public key that a token names.
func (t *Tokens) keyOf(kid any) (*rsa.PublicKey, error) {
	serial, _ := kid.(string)
	for _, k := range *t.keys.Load() {
		if k.serial == serial {
			return &k.key.PublicKey, nil
		}
	}
	return nil, fault.New(fault.Denied, "unknown signing key")
}

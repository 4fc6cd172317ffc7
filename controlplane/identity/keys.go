package identity

import (
	"context"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// KeyPair is a stored key with what belongs to it.
type KeyPair struct {
	// Key is PKCS #8 in PEM. For a withdrawn token signing key it is PKIX.
	Key []byte `json:"key"`
	// Certificate is PEM, leaf first; empty for token signing keys.
	Certificate []byte `json:"certificate,omitempty"`
	// ID is the identity of the control plane of this authority, if that had another
	// authority before.
	ID string `json:"id,omitempty"`
}

// Ends returns when the certificate ends.
func (p *KeyPair) Ends() (time.Time, error) {
	cert, _, err := parsePair(p)
	if err != nil {
		return time.Time{}, err
	}
	return cert.NotAfter, nil
}

// Keys is the kind of stored keys. Changes that pass the gate were requested by an operator,
// or are a step of such a request, and are recorded. Keys that a first start creates are not
// recorded.
var Keys = &model.Kind{
	Name: "identity_key", Path: "identity-keys", Scoping: model.Global,
	Class: model.Credential, Announce: model.AnnounceNone, Recorded: true, ReadOnly: true, Sealed: true,
	Secrets: []string{"/key", "/certificate"},
	New:     func() any { return new(KeyPair) },
}

// Kinds lists the kinds of this package.
func Kinds() []*model.Kind { return []*model.Kind{Keys} }

// Writer runs a transaction, as the gate of all writes does.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// Names of the stored keys.
const (
	keyAuthority = "authority"
	keyNext      = "authority-next"   // trusted, and signs next
	keyFormer    = "authority-former" // trusted, but no longer signs
	keyGateway   = "gateway-listener"
	keyTokens    = "gateway-token-signing-key-"   // + serial
	keyWithdrawn = "gateway-token-withdrawn-key-" // + serial; the public half
	// keyEncryption and the id of a key form a row that says that a rotation has made the
	// key. The key itself is only in the key file.
	keyEncryption = "encryption-key-"
)

// ensure returns the stored key. generate makes it the first time, and again whenever the
// stored one is no longer good. If several callers race, exactly one wins.
func ensure(ctx context.Context, s store.Store, name string, good func(*KeyPair) bool, generate func() (*KeyPair, error)) (*KeyPair, error) {
	var pair *KeyPair
	_, err := s.Update(ctx, model.Config, func(tx store.Tx) error {
		res, err := tx.Get(Keys, "", name)
		missing := fault.Is(err, fault.NotFound)
		if err != nil && !missing {
			return err
		}
		if !missing && good(res.Spec.(*KeyPair)) {
			pair = res.Spec.(*KeyPair)
			return nil
		}
		if pair, err = generate(); err != nil {
			return err
		}
		fresh := &model.Resource{Kind: Keys, Name: name, Spec: pair}
		if missing {
			_, err = tx.Create(fresh)
		} else {
			_, err = tx.Update(fresh, 0)
		}
		return err
	})
	return pair, err
}

// always is for keys that only a rotation replaces, because others are pinned to them.
func always(*KeyPair) bool { return true }

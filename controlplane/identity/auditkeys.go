package identity

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Names of the stored keys that sign the audit log. The first key has the name without a serial: programs that
// knew a single key have stored it so, and receivers go on with it.
const (
	keyAudit          = "audit-log-signing-key"
	keyAuditSerial    = keyAudit + "-"             // + serial, from 2 on
	keyAuditWithdrawn = "audit-log-withdrawn-key-" // + serial; the public half
)

// AuditKey is the public information about a key that signs the audit log.
type AuditKey struct {
	Serial string
	Public ed25519.PublicKey
	// Since is when the key was made.
	Since time.Time
	// Signs is set for the key that signs from now on.
	Signs bool
	// Withdrawn is set for a compromised key: it is not published. Since is then when it was withdrawn.
	Withdrawn bool
}

// AuditKeys are the keys that sign the audit log (RFC 8032). The newest signs. All are published until they are
// deleted, so that receivers can verify what they have got before.
type AuditKeys struct {
	keys adopted[auditKeys]
}

// auditKeys are the keys in the store, newest first: those that count, and those that were withdrawn.
type auditKeys struct {
	private             []ed25519.PrivateKey
	counting, withdrawn []AuditKey
}

// next returns the serial after all serials that were ever used: the newest key is never deleted.
func (k *auditKeys) next() string { return strconv.Itoa(serialOf(k.counting[0].Serial) + 1) }

// OpenAuditKeys reads the keys that sign the audit log. The first one is made at the first start.
func OpenAuditKeys(ctx context.Context, s store.Store) (*AuditKeys, error) {
	var keys auditKeys
	read := func(r store.Reader) (err error) {
		keys, err = listAuditKeys(r)
		return err
	}
	err := s.View(ctx, read)
	if err == nil && len(keys.counting) == 0 {
		if _, err = ensure(ctx, s, keyAudit, always, newAuditKey); err == nil {
			err = s.View(ctx, read)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(keys.counting) == 0 {
		return nil, fault.New(fault.Internal, "the key that was made is not there")
	}
	a := &AuditKeys{}
	a.keys.Store(&keys)
	return a, nil
}

// newAuditKey makes a key.
func newAuditKey() (*KeyPair, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	text, err := pemtext.Key(key)
	if err != nil {
		return nil, err
	}
	return &KeyPair{Key: text}, nil
}

// listAuditKeys reads the keys that sign the audit log.
func listAuditKeys(r store.Reader) (keys auditKeys, err error) {
	private := map[string]ed25519.PrivateKey{}
	err = eachAuditKey(r, func(serial string, res *model.Resource) error {
		signer, err := parseKey(res.Spec.(*KeyPair).Key)
		if err != nil {
			return err
		}
		key, ok := signer.(ed25519.PrivateKey)
		if !ok {
			return fmt.Errorf("is %T, not Ed25519", signer)
		}
		private[serial] = key
		keys.counting = append(keys.counting, AuditKey{Serial: serial, Public: key.Public().(ed25519.PublicKey), Since: res.Created})
		return nil
	})
	if err != nil {
		return auditKeys{}, err
	}
	err = eachKey(r, keyAuditWithdrawn, namingAudit, func(serial string, res *model.Resource) error {
		public, err := parsePublicAudit(res.Spec.(*KeyPair).Key)
		keys.withdrawn = append(keys.withdrawn, AuditKey{Serial: serial, Public: public, Since: res.Created, Withdrawn: true})
		return err
	})
	if err != nil {
		return auditKeys{}, err
	}
	newest := func(a, b AuditKey) int { return cmp.Compare(serialOf(b.Serial), serialOf(a.Serial)) }
	slices.SortFunc(keys.counting, newest)
	slices.SortFunc(keys.withdrawn, newest)
	for i := range keys.counting {
		keys.counting[i].Signs = i == 0
		keys.private = append(keys.private, private[keys.counting[i].Serial])
	}
	return keys, nil
}

// namingAudit names a key by its serial in errors.
const namingAudit = "key %s that signs the audit log"

// eachAuditKey calls fn for the stored keys that count.
func eachAuditKey(r store.Reader, fn func(serial string, res *model.Resource) error) error {
	first, err := r.Get(Keys, "", keyAudit)
	switch {
	case err == nil:
		if err := fn("1", first); err != nil {
			return fmt.Errorf(namingAudit+": %w", "1", err)
		}
	case !fault.Is(err, fault.NotFound):
		return err
	}
	return eachKey(r, keyAuditSerial, namingAudit, fn)
}

// auditKeyName is the name under which the key of a serial is stored.
func auditKeyName(serial string) string {
	if serial == "1" {
		return keyAudit
	}
	return keyAuditSerial + serial
}

// parsePublicAudit reads the public half of a withdrawn key.
func parsePublicAudit(text []byte) (ed25519.PublicKey, error) {
	block := pemtext.First(text)
	if block == nil {
		return nil, errors.New("is not PEM")
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, errors.New("is no public key")
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, fmt.Errorf("is %T, not Ed25519", parsed)
	}
	return key, nil
}

// Private returns the keys that count, the one that signs first.
func (a *AuditKeys) Private() []ed25519.PrivateKey { return a.keys.Load().private }

// Keys lists all keys, oldest first, with withdrawn keys before the others.
func (a *AuditKeys) Keys() (out []AuditKey) {
	keys := a.keys.Load()
	for _, list := range [][]AuditKey{keys.withdrawn, keys.counting} {
		for _, k := range slices.Backward(list) {
			out = append(out, k)
		}
	}
	return out
}

// Rotate adds a key, which signs from now on. The others are published until they are deleted.
func (a *AuditKeys) Rotate(ctx context.Context, w Writer) (serial string, err error) {
	err = a.keys.change(ctx, w, listAuditKeys, func(tx store.Tx, keys auditKeys) (err error) {
		serial, err = keys.add(tx)
		return err
	})
	return serial, err
}

// Withdraw adds a key, which signs from now on, and withdraws all existing keys because one of them is
// compromised. Both happen in one step: while a compromised key is published, whoever has it makes events that
// receivers believe.
func (a *AuditKeys) Withdraw(ctx context.Context, w Writer) (out Withdrawal, err error) {
	err = a.keys.change(ctx, w, listAuditKeys, func(tx store.Tx, keys auditKeys) (err error) {
		out = Withdrawal{}
		if out.Serial, err = keys.add(tx); err != nil {
			return err
		}
		for _, k := range slices.Backward(keys.counting) {
			public, err := publicPEM(k.Public)
			if err != nil {
				return err
			}
			if _, err := tx.Create(&model.Resource{Kind: Keys, Name: keyAuditWithdrawn + k.Serial, Spec: &KeyPair{Key: public}}); err != nil {
				return err
			}
			if err := tx.Delete(Keys, "", auditKeyName(k.Serial), 0); err != nil {
				return err
			}
			out.Withdrawn = append(out.Withdrawn, k.Serial)
		}
		return nil
	})
	return out, err
}

// add stores a new key.
func (k *auditKeys) add(tx store.Tx) (serial string, err error) {
	made, err := newAuditKey()
	if err != nil {
		return "", err
	}
	serial = k.next()
	_, err = tx.Create(&model.Resource{Kind: Keys, Name: auditKeyName(serial), Spec: made})
	return serial, err
}

// Delete deletes a key that does not sign any more. What it signed is verified by nobody who does not have it. The
// error is Conflict for the key that signs, so that the last one stays.
func (a *AuditKeys) Delete(ctx context.Context, w Writer, serial string) error {
	return a.keys.change(ctx, w, listAuditKeys, func(tx store.Tx, keys auditKeys) error {
		switch at := slices.IndexFunc(keys.counting, func(k AuditKey) bool { return k.Serial == serial }); at {
		case -1:
			return fault.New(fault.NotFound, "there is no key %s that signs the audit log", serial)
		case 0:
			return fault.New(fault.Conflict, "key %s signs the audit log; `meshgate keys rotate audit-log` makes another one", serial)
		}
		return tx.Delete(Keys, "", auditKeyName(serial), 0)
	})
}

package identity

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"strconv"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// SigningKeyMissing is the subject of the NotFound fault of a token that cannot be issued or
// checked because its key is missing.
type SigningKeyMissing struct{ Mesh, Serial string }

// parsedKey holds a key, or the reason why there is none.
type parsedKey struct {
	digest [sha256.Size]byte
	key    *rsa.PrivateKey
	err    error
}

const (
	// maxParsed bounds the parsed keys that are kept.
	maxParsed = 1024
	// minSigningBits is the least size for RS256 (RFC 7518 3.3).
	minSigningBits = 2048
	// signingKeyBits is the size of keys that sign the tokens of proxies, users and zones.
	signingKeyBits = 2048
)

// GenerateSigningKey makes a key for the tokens of proxies, users and zones: RSA, PKCS#1 PEM.
func GenerateSigningKey() ([]byte, error) {
	key, err := rsa.GenerateKey(rand.Reader, signingKeyBits)
	if err != nil {
		return nil, err
	}
	return pemtext.Encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), nil
}

// newest finds the usable signing key with the highest serial.
func (t *secretKeys) newest(r store.Reader, s series) (serial string, key *rsa.PrivateKey, err error) {
	keys, err := s.read(r)
	if err != nil {
		return "", nil, err
	}
	n, key, err := t.signs(s, &keys)
	return strconv.Itoa(n), key, err
}

// serialOf reads the serial of a key. It returns 0 for any other text. Each serial has only
// one spelling, so that the key that a token names is the one that signed it.
func serialOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || strconv.Itoa(n) != text {
		return 0
	}
	return n
}

// parse parses each content of a secret once, even if it is not a key.
func (t *secretKeys) parse(res *model.Resource) (*rsa.PrivateKey, error) {
	secret, ok := res.Spec.(*mesh.Secret)
	if !ok {
		return nil, fmt.Errorf("signing key %s%s: %w", res.Name, ofScope(res.Scope), store.ErrUnreadable)
	}
	data := secret.Data
	digest := sha256.Sum256(data)
	t.mu.Lock()
	defer t.mu.Unlock()
	p, ok := t.parsed[res.Key()]
	if !ok || p.digest != digest {
		p = parsedKey{digest: digest}
		if p.key, p.err = parseRSA(data); p.err != nil {
			p.err = fmt.Errorf("signing key %s%s: %w", res.Name, ofScope(res.Scope), p.err)
		}
		if len(t.parsed) >= maxParsed {
			clear(t.parsed)
		}
		t.parsed[res.Key()] = p
	}
	return p.key, p.err
}

// ofScope says in texts which mesh a secret is of.
func ofScope(meshName string) string {
	if meshName == "" {
		return ""
	}
	return " of mesh " + meshName
}

// forget drops a key whose secret was deleted.
func (t *secretKeys) forget(s series, secret string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.parsed, model.Key{Kind: s.kind.Name, Scope: s.scope, Name: secret})
}

// parseRSA accepts PKCS #1 and PKCS #8, in PEM or DER. It passes on no error of a parser,
// because that may quote the key.
func parseRSA(data []byte) (*rsa.PrivateKey, error) {
	if block := pemtext.First(data); block != nil {
		data = block.Bytes
	}
	key, err := x509.ParsePKCS1PrivateKey(data)
	if err != nil {
		parsed, err := x509.ParsePKCS8PrivateKey(data)
		if err != nil {
			return nil, errors.New("is no RSA key")
		}
		var ok bool
		if key, ok = parsed.(*rsa.PrivateKey); !ok {
			return nil, errors.New("is no RSA key")
		}
	}
	if bits := key.N.BitLen(); bits < minSigningBits {
		return nil, fmt.Errorf("has %d bits, less than the %d that RS256 demands", bits, minSigningBits)
	}
	return key, nil
}

// keyOf finds the key that a token names, and its withdrawal if it was withdrawn. kid is the
// value in the header, of any type.
func (t *secretKeys) keyOf(r store.Reader, s series, kid any) (*rsa.PublicKey, *withdrawnKey, error) {
	serial, _ := kid.(string)
	if key := t.public[publicName{s.key, serial}]; key != nil {
		return key, nil, nil
	}
	if serialOf(serial) == 0 {
		return nil, nil, fault.New(fault.Denied, "the key id is not the serial of a signing key")
	}
	if k, ok := t.remembered(r, s, serial); ok {
		return k.key, k.withdrawn, nil
	}
	key, withdrawn, err := t.find(r, s, serial)
	if err == nil {
		t.note(r, s, func(k *ring) { k.keys[serial] = ringKey{key, withdrawn} })
	}
	return key, withdrawn, err
}

// find reads the key of a serial from the store.
func (t *secretKeys) find(r store.Reader, s series, serial string) (*rsa.PublicKey, *withdrawnKey, error) {
	mark, err := r.Get(s.kind, s.scope, s.withdrawn+serial)
	if err == nil {
		t.forget(s, s.key+serial)
		w := withdrawnKey{serial: serial, at: mark.Created}
		if w.key, err = parsePublic(mark.Spec.(*mesh.Secret).Data); err != nil {
			return nil, &w, errWithdrawn
		}
		return w.key, &w, nil
	}
	if !fault.Is(err, fault.NotFound) {
		return nil, nil, err
	}
	res, err := r.Get(s.kind, s.scope, s.key+serial)
	if fault.Is(err, fault.NotFound) {
		t.forget(s, s.key+serial)
		return nil, nil, s.missing(serial)
	}
	if err != nil {
		return nil, nil, err
	}
	key, err := t.parse(res)
	if err != nil {
		return nil, nil, err
	}
	return &key.PublicKey, nil, nil
}

package identity

import (
	"context"
	"crypto/rsa"
	"fmt"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// secretKeys issues and checks tokens whose keys and revocations are secrets.
type secretKeys struct {
	store store.Store
	now   func() time.Time

	mu sync.Mutex
	// parsed holds keys by secret, each with the digest of the parsed data. The version of
	// the secret is not enough, because it starts again when a secret is deleted and created
	// anew.
	parsed map[model.Key]parsedKey
	rings  map[series]*ring
	// public holds the keys of tokens that were issued elsewhere.
	public map[publicName]*rsa.PublicKey

	// rs256 verifies signatures.
	rs256 jwt.SigningMethod
}

func newSecretKeys(s store.Store, now func() time.Time, public []PublicKey) secretKeys {
	return secretKeys{
		store: s, now: now, parsed: map[model.Key]parsedKey{}, rings: map[series]*ring{}, public: named(public),
		rs256: remembering{jwt.SigningMethodRS256, &verified{}},
	}
}

// proof are claims that a token is to prove.
type proof interface {
	jwt.Claims
	registered() *jwt.RegisteredClaims
	// from returns the series of the key that must have signed the token. It returns a
	// series with the error, too, which names the kind of the token.
	from() (series, error)
	// proven marks the refusal of a genuine token.
	proven(err error) error
}

// verify checks a token and fills in its claims. It returns a Denied fault for a token that
// does not count. It accepts only RS256, so that a public key can never serve as a shared
// secret.
func (t *secretKeys) verify(r store.Reader, token string, c proof) error {
	s, _ := c.from()
	if len(token) > maxTokenLength {
		return fault.New(fault.Denied, "the %s token is too long", s.token)
	}
	var noKey error
	var withdrawn *withdrawnKey
	_, err := jwt.ParseWithClaims(token, c, func(j *jwt.Token) (key any, err error) {
		if s, err = c.from(); err == nil {
			key, withdrawn, err = t.keyOf(r, s, j.Header["kid"])
		}
		noKey, j.Method = err, t.rs256 // the only valid method
		return key, err
	}, jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}), jwt.WithExpirationRequired(), jwt.WithTimeFunc(t.now))
	if noKey != nil && !fault.Is(noKey, fault.Denied) && !fault.Is(noKey, fault.NotFound) {
		return noKey // the token is not to blame
	}
	told := tokenFault
	if withdrawn != nil {
		told = withdrawn.refuse
	}
	switch {
	case !signed(err):
		return told(s.token, token, c.registered(), err)
	case err != nil || withdrawn != nil:
		return c.proven(told(s.token, token, c.registered(), err))
	}
	return c.proven(t.counts(r, s, c.registered()))
}

// counts judges a token whose signature is good.
func (t *secretKeys) counts(r store.Reader, s series, c *jwt.RegisteredClaims) error {
	if c.ID == "" {
		return fault.New(fault.Denied, "the %s token has no id, by which it could be revoked", s.token)
	}
	revoked, err := t.isRevoked(r, s, c.ID)
	if err == nil && revoked {
		err = fault.New(fault.Denied, "the %s token was revoked", s.token)
	}
	return err
}

// request asks for a token.
type request interface {
	// claims returns the claims of the token, or Invalid with violations.
	claims(now time.Time) (jwt.Claims, error)
	// long names the member that may make a token too long.
	long() string
}

// issue returns a token signed with the newest key of a series.
func (t *secretKeys) issue(ctx context.Context, s series, q request) (string, error) {
	c, err := q.claims(t.now())
	if err != nil {
		return "", err
	}
	var by signer
	if err := t.store.View(ctx, func(r store.Reader) (err error) {
		by.kid, by.key, err = t.newest(r, s)
		return err
	}); err != nil {
		return "", err
	}
	return by.signShort(c, q.long())
}

// signer is a key that signs tokens, with its id.
type signer struct {
	kid string
	key *rsa.PrivateKey
}

func (s signer) sign(c jwt.Claims) (string, error) {
	j := jwt.NewWithClaims(jwt.SigningMethodRS256, c)
	j.Header["kid"] = s.kid
	return j.SignedString(s.key)
}

// signShort refuses to make a token that is too long to be used.
func (s signer) signShort(c jwt.Claims, long string) (string, error) {
	token, err := s.sign(c)
	if err == nil && len(token) > maxTokenLength {
		return "", fault.Violated([]fault.Violation{{Path: long, Message: fmt.Sprintf("make a token of more than %d bytes, which nobody could use", maxTokenLength)}})
	}
	return token, err
}

// lasting returns the claims that all tokens have.
func lasting(now time.Time, life time.Duration) jwt.RegisteredClaims {
	return jwt.RegisteredClaims{
		ID: uuid.NewString(), IssuedAt: jwt.NewNumericDate(now),
		NotBefore: jwt.NewNumericDate(now.Add(-Backdate)), ExpiresAt: jwt.NewNumericDate(now.Add(life)),
	}
}

// MaxDuration bounds the text of a duration in a request, in bytes. Units may be repeated without end, and
// audit logs hold the text.
const MaxDuration = 64

// lifeOf reads the validity that a request asks for; ten years if it asks for none.
func lifeOf(text string) (life time.Duration, vs []fault.Violation) {
	if text == "" {
		return DataplaneTokenLife, nil
	}
	life, err := time.ParseDuration(text)
	switch {
	case len(text) > MaxDuration:
		vs = append(vs, fault.Violation{Path: "validFor", Message: fmt.Sprintf("is invalid: must not be longer than %d bytes", MaxDuration)})
	case err != nil:
		vs = append(vs, fault.Violation{Path: "validFor", Message: "is invalid: " + err.Error()})
	case life < time.Second: // times in tokens are whole seconds
		vs = append(vs, fault.Violation{Path: "validFor", Message: "is invalid: must be at least one second"})
	}
	return life, vs
}

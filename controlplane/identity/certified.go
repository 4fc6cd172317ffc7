package identity

import (
	"context"
	"crypto/x509"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Pinned returns NotFound if a control plane does not list the client certificate of a fingerprint.
type Pinned func(r store.Reader, controlPlane, fingerprint string) error

// Shows reports whether what a client shows belongs together: its token, and the client certificate
// whose key it has proved, nil for none. A token of a certificate is worth nothing without it here,
// and any other token nothing beside one.
func (c *Claims) Shows(cert *x509.Certificate) error {
	switch {
	case c.Certificate == "" && cert == nil:
		return nil
	case cert == nil:
		return c.proven(fault.New(fault.Denied, "the node token counts only together with the client certificate by which it was issued"))
	case c.Certificate != pemtext.Fingerprint(cert.Raw):
		return c.proven(fault.New(fault.Denied, "the node token was not issued by the client certificate beside it: use one of them"))
	}
	return nil
}

// Certified issues the token of a gateway instance that has proved the key of a client certificate. It
// is for the control plane that the gateway asks for, which has to list the certificate, and ends with the
// listing there. What other control planes list does not matter. Its id follows from the
// certificate and the node, so that a revocation reaches all tokens of the node by this certificate,
// however often it is listed anew, and none by another one. Faults are those of Check, and Invalid for a
// name that is none.
func (t *Tokens) Certified(ctx context.Context, cert *x509.Certificate, controlPlane, name string) (string, *Claims, error) {
	if err := CheckInstance(name); err != nil {
		return "", nil, err
	}
	keys, now := t.keys.Load(), t.now()
	c := &Claims{ControlPlane: controlPlane, Name: name, Type: typeGateway, Certificate: pemtext.Fingerprint(cert.Raw)}
	c.RegisteredClaims = jwt.RegisteredClaims{ID: uuid.NewSHA1(uuid.NameSpaceX500, []byte(c.Certificate+" "+c.NodeID())).String()}
	err := t.store.View(ctx, func(r store.Reader) error { return t.pin(r, c) })
	if err == nil && (now.Before(cert.NotBefore) || now.After(cert.NotAfter)) {
		err = c.proven(fault.New(fault.Denied, "the client certificate is good from %s to %s only, and it is %s",
			cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339)))
	}
	if err == nil {
		err = t.counts(ctx, c)
	}
	if err != nil {
		return "", nil, err
	}
	token, err := t.sign(keys, c, min(GatewayTokenLife, cert.NotAfter.Sub(now)))
	return token, c, err
}

// confirmed refuses a token whose certificate its control plane lists no more.
func (t *Tokens) confirmed(r store.Reader, c *Claims) error {
	if c.Certificate == "" {
		return nil
	}
	return t.pin(r, c)
}

// pin finds the client certificate of a token at its control plane. The refusal is the same whether there
// is such a control plane or not: anybody can show a certificate, and would learn which there are.
func (t *Tokens) pin(r store.Reader, c *Claims) (err error) {
	if t.Pinned != nil {
		err = t.Pinned(r, c.ControlPlane, c.Certificate)
	}
	if t.Pinned == nil || fault.Is(err, fault.NotFound) {
		return fault.New(fault.Denied, "the control plane that the gateway names (--control-plane) does not list the client certificate with the SHA-256 fingerprint %s", c.Certificate)
	}
	return err
}

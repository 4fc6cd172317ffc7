package meshca

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Bounds of the pause after a failure of an authority. During the pause it is not asked
// again, no matter how many proxies want a certificate.
const (
	firstCooldown = time.Second
	lastCooldown  = 30 * time.Second
)

// maxSigners bounds the authorities that are remembered.
const maxSigners = 1024

// workloadSigner is the authority of a mesh, with its recent outcomes. [Workloads.mu] guards
// the fields below digest.
type workloadSigner struct {
	// digest is the digest of the certificates. Another authority starts anew.
	digest [sha256.Size]byte
	// parsed is nil until the authority has been parsed.
	parsed *parsedAuthority
	// proven says that the last signature succeeded. Then several callers may ask at the
	// same time. Otherwise one asks, and the others wait until asking is closed.
	proven bool
	asking chan struct{}
	// until is when a failed authority may be asked again, pause is the last pause, and err
	// is the reason of the failure.
	until time.Time
	pause time.Duration
	err   error
}

// parsedAuthority is an authority that can sign.
type parsedAuthority struct {
	cert *x509.Certificate
	key  crypto.Signer
	// chain is the PEM text after the leaf: the certificates that lead from the leaf to the
	// root, without the root.
	chain []byte
	// notBefore and notAfter bound the time in which the whole chain is valid.
	notBefore, notAfter time.Time
}

// valid returns an error unless the whole chain is valid at a time.
func (p *parsedAuthority) valid(at time.Time) error {
	switch {
	case !p.notAfter.After(at):
		return fmt.Errorf("the authority's certificate, or one that it comes with, ended at %s", p.notAfter.UTC().Format(time.RFC3339))
	case p.notBefore.After(at):
		return fmt.Errorf("the authority's certificate, or one that it comes with, begins at %s", p.notBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

// turn is the permission to ask an authority. alone says that the others wait.
type turn struct {
	*workloadSigner
	alone bool
}

// admit waits until the authority of a mesh may be asked to sign. The caller must then ask
// and report to done. admit fails while the authority cools down after a failure.
func (w *Workloads) admit(ctx context.Context, meshName string, pair *identity.KeyPair) (turn, error) {
	digest := sha256.Sum256(pair.Certificate)
	for {
		w.mu.Lock()
		s := w.signers[meshName]
		if s == nil || s.digest != digest {
			if len(w.signers) >= maxSigners {
				clear(w.signers)
			}
			s = &workloadSigner{digest: digest}
			w.signers[meshName] = s
		}
		cooling, asking := w.now().Before(s.until), s.asking
		alone := !cooling && asking == nil && !s.proven
		if alone {
			s.asking = make(chan struct{})
		}
		failed := s.err
		w.mu.Unlock()
		switch {
		case cooling:
			return turn{}, fault.Wrap(fault.Unavailable, failed, "the authority of mesh %s failed a moment ago", meshName)
		case asking == nil:
			return turn{s, alone}, nil
		}
		select {
		case <-asking:
		case <-ctx.Done():
			return turn{}, ctx.Err()
		}
	}
}

// done records the outcome of what admit permitted. Among simultaneous failures only the
// first one counts.
func (w *Workloads) done(t turn, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := t.workloadSigner
	if t.alone {
		close(s.asking)
		s.asking = nil
	}
	now := w.now()
	switch {
	case err == nil:
		s.proven, s.pause, s.err, s.until = true, 0, nil, time.Time{}
	case !now.Before(s.until):
		s.proven, s.err = false, err
		s.pause = min(max(firstCooldown, 2*s.pause), lastCooldown)
		s.until = now.Add(s.pause)
	}
}

// authority parses a pair once.
func (w *Workloads) authority(s *workloadSigner, pair *identity.KeyPair) (*parsedAuthority, error) {
	w.mu.Lock()
	p := s.parsed
	w.mu.Unlock()
	if p != nil {
		return p, nil
	}
	p, err := parseAuthority(pair)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	s.parsed = p
	w.mu.Unlock()
	return p, nil
}

// parseAuthority reads a pair whose first certificate signs. A pair that does not match is an
// error, so nothing is remembered and a corrected key is read later.
func parseAuthority(pair *identity.KeyPair) (*parsedAuthority, error) {
	p := &parsedAuthority{}
	for block := range pemtext.Blocks(pair.Certificate) {
		if block.Type != pemtext.TypeCertificate {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("the authority's certificate: %w", err)
		}
		if p.cert == nil {
			p.cert, p.notBefore, p.notAfter = c, c.NotBefore, c.NotAfter
		}
		if c.NotBefore.After(p.notBefore) {
			p.notBefore = c.NotBefore
		}
		if c.NotAfter.Before(p.notAfter) {
			p.notAfter = c.NotAfter
		}
		if !bytes.Equal(c.RawSubject, c.RawIssuer) || c.CheckSignatureFrom(c) != nil {
			p.chain = append(p.chain, pemtext.Certificate(c.Raw)...)
		}
	}
	if p.cert == nil {
		return nil, errors.New("the authority has no certificate in PEM")
	}
	var err error
	if p.key, err = parseSigner(pair.Key); err != nil {
		return nil, err
	}
	public, ok := p.key.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(p.cert.PublicKey) {
		return nil, errors.New("the authority's key is not that of its certificate")
	}
	return p, nil
}

// parseSigner reads a private key in PEM or DER: PKCS #8, PKCS #1 or SEC 1. It passes on no
// error of a parser, because that may quote the key.
func parseSigner(data []byte) (crypto.Signer, error) {
	for block := range pemtext.Blocks(data) {
		if block.Type != "EC PARAMETERS" { // precedes keys in SEC 1
			data = block.Bytes
			break
		}
	}
	if key, err := x509.ParsePKCS8PrivateKey(data); err == nil {
		if s, ok := key.(crypto.Signer); ok {
			return s, nil
		}
	}
	if key, err := x509.ParseECPrivateKey(data); err == nil {
		return key, nil
	}
	if key, err := x509.ParsePKCS1PrivateKey(data); err == nil {
		return key, nil
	}
	return nil, errors.New("the authority's key cannot be read")
}

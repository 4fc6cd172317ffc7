package meshca

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
)

// Bounds of the pause after an authority failed, in which it is not asked again,
// however many proxies want a certificate.
const (
	firstCooldown = time.Second
	lastCooldown  = 30 * time.Second
)

// maxSigners bounds the authorities that are remembered.
const maxSigners = 1024

// workloadSigner is the authority of a mesh, and how it fared. Its fields below
// digest are guarded by [Workloads.mu].
type workloadSigner struct {
	// digest is that of the certificates: another authority begins anew.
	digest [sha256.Size]byte
	// parsed is nil until the authority was read.
	parsed *parsedAuthority
	// proven says that the last signature succeeded: all may ask at a time.
	// Otherwise one asks, and the others wait until asking is closed.
	proven bool
	asking chan struct{}
	// until is when a failed authority may be asked again, pause the last pause
	// and err why it failed.
	until time.Time
	pause time.Duration
	err   error
}

// parsedAuthority is an authority that can sign.
type parsedAuthority struct {
	cert *x509.Certificate
	key  crypto.Signer
	// chain is what follows a leaf, in PEM: the certificates that lead from it to
	// the root, which is left out.
	chain []byte
	// notBefore and notAfter bound the time in which all of the chain is valid.
	notBefore, notAfter time.Time
}

// turn is the permission to ask an authority; alone if the others wait.
type turn struct {
	*workloadSigner
	alone bool
}

// admit waits until the authority of a mesh may be asked to sign, which the
// caller must then do and report to done. It fails while the authority cools down
// from a failure.
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

// done takes the outcome of what admit permitted. Of failures at the same time
// the first one counts.
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

// parseAuthority reads a pair whose first certificate signs. Of a pair that does
// not match nothing is kept, so that a corrected key is read.
func parseAuthority(pair *identity.KeyPair) (*parsedAuthority, error) {
	p := &parsedAuthority{}
	for block, rest := pem.Decode(pair.Certificate); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
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
			p.chain = append(p.chain, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: c.Raw})...)
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

// parseSigner reads a private key in PEM or DER: PKCS #8, PKCS #1 or SEC 1. No
// error of a parser is passed on, for it may quote the key.
func parseSigner(data []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "EC PARAMETERS" { // stands before keys in SEC 1
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

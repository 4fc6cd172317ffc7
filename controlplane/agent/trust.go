package agent

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
)

// Bounds of what a control plane may have trusted.
const (
	maxRoots      = 8
	maxRootsBytes = 32 << 10
)

// trust is what certificates of the control plane's data-plane server are verified
// against: the operator's file, and what the control plane has said since then by a
// connection that was verified. That is kept in the run directory, where the filter
// reads it for each connection. Another content of the operator's file voids it.
type trust struct {
	given, learned string // files
	host           string
	// changed, if set, is called when something else is trusted than before.
	changed func()

	mu sync.Mutex
}

// heading stands in the learned file before the certificates; its rest is the digest of
// the operator's file under which they were learned. Readers of PEM pass it over.
const heading = "Learned from the control plane by: "

// open makes the learned file, of the operator's if there is none for it.
func (t *trust) open() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, stale, err := t.text()
	if err == nil && stale {
		err = t.keep(text)
	}
	return err
}

// keep writes the learned file. t.mu is held.
func (t *trust) keep(text []byte) error {
	err := replace(t.learned, text)
	if t.changed != nil {
		t.changed()
	}
	return err
}

// trusted returns the certificates that are trusted at this moment; learned says that
// they are not those of the operator's file, because the control plane has said so.
func (t *trust) trusted() (certificates []byte, learned bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, _, err := t.text()
	if err != nil {
		return nil, false, err
	}
	given, err := os.ReadFile(t.given)
	if err != nil {
		return nil, false, err
	}
	certificates, _ = certificatesOf(text)
	was, _ := certificatesOf(given)
	return certificates, !bytes.Equal(certificates, was), nil
}

// roots returns what is trusted at this moment.
func (t *trust) roots() (*x509.CertPool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, stale, err := t.text()
	if err != nil {
		return nil, err
	}
	if stale {
		_ = t.keep(text) // whoever needs the run directory says what is wrong with it
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the control plane's CA: %s holds no certificate", t.given)
	}
	return pool, nil
}

// text is what the learned file holds; stale says that it does not, because it is not of
// the operator's file.
func (t *trust) text() (text []byte, stale bool, err error) {
	given, err := os.ReadFile(t.given)
	if err != nil {
		return nil, false, fmt.Errorf("the control plane's CA: %w", err)
	}
	head := headingOf(given)
	learned, err := os.ReadFile(t.learned)
	if err == nil && strings.HasPrefix(string(learned), head) {
		return learned, false, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, false, err
	}
	roots, n := certificatesOf(given)
	if n == 0 {
		return nil, false, fmt.Errorf("the control plane's CA: %s holds no certificate", t.given)
	}
	return append([]byte(head), roots...), true, nil
}

func headingOf(given []byte) string {
	sum := sha256.Sum256(given)
	return heading + hex.EncodeToString(sum[:]) + "\n"
}

// certificatesOf returns the certificates of a text, and how many there are.
func certificatesOf(text []byte) (out []byte, n int) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
			n++
		}
	}
	return out, n
}

// learn keeps what the control plane says is to be trusted, before it returns. What
// would not trust the very server that says so is refused: the node could not come back.
func (t *trust) learn(bundle []byte, by tls.ConnectionState) error {
	roots, n := certificatesOf(bundle)
	if n == 0 || n > maxRoots || len(bundle) > maxRootsBytes {
		return fmt.Errorf("%d certificates of %d bytes are not to be trusted", n, len(bundle))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(roots) {
		return errors.New("what is to be trusted holds no certificate")
	}
	if err := verify(by, pool, t.host); err != nil {
		return fmt.Errorf("what is to be trusted would not trust this control plane: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	given, err := os.ReadFile(t.given)
	if err != nil {
		return fmt.Errorf("the control plane's CA: %w", err)
	}
	text := append([]byte(headingOf(given)), roots...)
	if have, err := os.ReadFile(t.learned); err == nil && bytes.Equal(have, text) {
		return nil
	}
	return t.keep(text)
}

// verifyConnection is for [tls.Config.VerifyConnection].
func (t *trust) verifyConnection(s tls.ConnectionState) error {
	roots, err := t.roots()
	if err != nil {
		return err
	}
	return verify(s, roots, t.host)
}

// verify demands that a server is the data-plane server of this name.
func verify(s tls.ConnectionState, roots *x509.CertPool, host string) error {
	if len(s.PeerCertificates) == 0 {
		return errors.New("the server shows no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range s.PeerCertificates[1:] {
		between.AddCert(c)
	}
	chains, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: host})
	if err != nil {
		if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
			return fmt.Errorf("%w: if its authority was replaced while this node was away, give the node the control plane's new ca.pem", err)
		}
		return err
	}
	s.VerifiedChains = chains
	return contract.IsDataPlane(s)
}

package agent

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// Limits for the authorities that a control plane may make a node trust.
const (
	maxRoots      = 8
	maxRootsBytes = 32 << 10
)

// trust holds the authorities by which certificates of the control plane's data-plane
// server are verified: those in the operator's file, or those that the control plane has
// named since then over a verified connection. The latter are kept in the run directory,
// where the filter reads them for each connection. If the operator's file changes, they are
// void.
type trust struct {
	given, learned string // files
	host           string
	// changed, if set, is called when the trusted authorities have changed.
	changed func()

	mu sync.Mutex
}

// heading is the first line of the learned file. It is followed by the digest of the
// operator's file for which the certificates were learned. PEM readers ignore this line.
const heading = "Learned from the control plane by: "

// open creates the learned file from the operator's file, unless it exists for that file.
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

// trusted returns the certificates that are trusted now. learned says that the control
// plane has replaced those of the operator's file.
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
	certificates, _ = pemtext.Certificates(text)
	was, _ := pemtext.Certificates(given)
	return certificates, !bytes.Equal(certificates, was), nil
}

// roots returns the authorities that are trusted now.
func (t *trust) roots() (*x509.CertPool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text, stale, err := t.text()
	if err != nil {
		return nil, err
	}
	if stale {
		_ = t.keep(text) // other users of the run directory report what is wrong with it
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("the control plane's CA: %s holds no certificate", t.given)
	}
	return pool, nil
}

// text returns what the learned file has to hold. stale says that the file does not hold
// it, because it belongs to another operator's file.
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
	roots, n := pemtext.Certificates(given)
	if n == 0 {
		return nil, false, fmt.Errorf("the control plane's CA: %s holds no certificate", t.given)
	}
	return append([]byte(head), roots...), true, nil
}

func headingOf(given []byte) string {
	sum := sha256.Sum256(given)
	return heading + hex.EncodeToString(sum[:]) + "\n"
}

// learn stores the authorities that the control plane wants trusted, before it returns. It
// refuses authorities that would not trust the server that sent them, because the node
// could not connect again.
func (t *trust) learn(bundle []byte, by tls.ConnectionState) error {
	roots, n := pemtext.Certificates(bundle)
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

// verifyConnection implements [tls.Config.VerifyConnection].
func (t *trust) verifyConnection(s tls.ConnectionState) error {
	roots, err := t.roots()
	if err != nil {
		return err
	}
	return verify(s, roots, t.host)
}

// verify checks that a server is the data-plane server with this host name.
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

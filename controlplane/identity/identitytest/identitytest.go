// Package identitytest has what the tests of certificates and tokens share: a clock that
// they can move, a store, PEM, and a check of error codes.
package identitytest

import (
	"crypto/x509"
	"encoding/pem"
	"sync/atomic"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// Epoch is the initial time of the tests' clocks.
var Epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Clock is a clock that the test moves.
type Clock struct{ at atomic.Pointer[time.Time] }

// NewClock returns a clock that shows [Epoch].
func NewClock() *Clock {
	c := &Clock{}
	c.at.Store(&Epoch)
	return c
}

// Now returns the time of the clock.
func (c *Clock) Now() time.Time { return *c.at.Load() }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	t := c.Now().Add(d)
	c.at.Store(&t)
}

// Memory opens an empty store, which is closed at the end of the test.
func Memory(t testing.TB) store.Store {
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// Certificate parses a text that is one certificate and nothing else.
func Certificate(t testing.TB, data []byte) *x509.Certificate {
	t.Helper()
	block, rest := pem.Decode(data)
	if block == nil || len(rest) != 0 {
		t.Fatalf("not one PEM block: %q", data)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Internal checks that an error, if there is one, is the control plane's own. Clients would
// take a code that blames a token or a mesh as final.
func Internal(t testing.TB, err error) error {
	t.Helper()
	if err != nil && fault.CodeOf(err) != fault.Internal {
		t.Errorf("a failure of the store is said to be %s: %v", fault.CodeOf(err), err)
	}
	return err
}

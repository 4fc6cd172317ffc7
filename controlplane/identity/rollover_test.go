package identity

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
)

// TestAuthorityIsReplaced takes the three steps. At each step a client that trusts the
// authorities of the time before reaches the server, and so does a gateway with its former
// certificate. Afterwards the old authority no longer counts. A restart between any two
// steps changes nothing.
func TestAuthorityIsReplaced(t *testing.T) {
	s, c := identitytest.Memory(t), identitytest.NewClock()
	a := openAuthority(t, s, c)
	gate := keyGate(s)
	id, first := a.ID(), a.PEM()
	names := []string{"localhost"}
	listener, err := a.Listener(t.Context(), names)
	if err != nil {
		t.Fatal(err)
	}
	oldClient, err := a.Node("cp/default/gw")
	if err != nil {
		t.Fatal(err)
	}
	known := first
	for _, want := range []string{RolloverTrusting, RolloverSigning, ""} {
		from := a.Phase()
		if err := a.Advance(t.Context(), gate, from); err != nil {
			t.Fatal(err)
		}
		if err := a.Advance(t.Context(), gate, from); !fault.Is(err, fault.Conflict) {
			t.Errorf("the step from %q was taken twice: %v", from, err)
		}
		if a.Phase() != want || a.ID() != id {
			t.Fatalf("phase %q, control plane %s, want %q and %s", a.Phase(), a.ID(), want, id)
		}
		again := openAuthority(t, s, c)
		if string(again.PEM()) != string(a.PEM()) || again.ID() != id || again.Phase() != want {
			t.Errorf("in phase %q a restart changes something", want)
		}
		for name, of := range map[string]*Authority{"this process": a, "the next one": again} {
			if err := shake(t, of, known, oldClient); err != nil && want != "" {
				t.Errorf("%s in phase %q: %v", name, want, err)
			}
		}
		known = a.PEM()
		if oldClient, err = a.Node("cp/default/gw"); err != nil {
			t.Fatal(err)
		}
		if err := shake(t, a, known, oldClient); err != nil {
			t.Errorf("in phase %q: %v", want, err)
		}
	}
	if err := shake(t, a, first, oldClient); err == nil {
		t.Error("the server is believed by who trusts the old authority alone")
	}
	now, err := a.Listener(t.Context(), names)
	if err != nil || string(now.Certificate) == string(listener.Certificate) {
		t.Errorf("the listener has a certificate of the old authority, %v", err)
	}
	if a.SuccessorDue() {
		t.Error("a successor is due")
	}
	c.Advance(AuthorityLife - rolloverAt + 1)
	if !a.SuccessorDue() {
		t.Error("no successor is due two years before the end")
	}
}

// shake makes one connection to the data-plane server.
func shake(t *testing.T, a *Authority, roots []byte, client *KeyPair) error {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(roots)
	pair, err := tls.X509KeyPair(client.Certificate, client.Key)
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	done := make(chan error, 1)
	go func() {
		defer far.Close()
		server := tls.Server(far, atTime(a.DataPlaneConfig([]string{"localhost"}), a))
		done <- server.HandshakeContext(t.Context())
	}()
	conn := tls.Client(near, &tls.Config{RootCAs: pool, ServerName: "localhost", Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, Time: a.now})
	err = conn.HandshakeContext(t.Context())
	if err != nil {
		near.Close()
	}
	if served := <-done; err == nil {
		err = served
	}
	return err
}

// atTime makes a server use the authority's clock.
func atTime(cfg *tls.Config, a *Authority) *tls.Config {
	cfg.Time = a.now
	return cfg
}

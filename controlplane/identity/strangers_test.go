package identity

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/filter/contract"
)

// TestCertificatesOfStrangers: a client that says so may show the data-plane server a certificate of
// anybody, if it has its key. It is never verified by that, not even one of this authority. No other
// server asks for it.
func TestCertificatesOfStrangers(t *testing.T) {
	c := identitytest.NewClock()
	c.Advance(time.Since(c.Now())) // crypto/tls verifies against the time of day
	a, stranger := openAuthority(t, identitytest.Memory(t), c), openAuthority(t, identitytest.Memory(t), c)
	pairOf := func(by *Authority) tls.Certificate {
		p, err := by.Node("cp/default/gw")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(p.Certificate, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	foreign, own := pairOf(stranger), pairOf(a)
	forged := tls.Certificate{Certificate: foreign.Certificate, PrivateKey: own.PrivateKey}
	data, other := a.DataPlaneConfig([]string{"localhost"}), a.ServerConfig([]string{"localhost"})
	for _, test := range []struct {
		name         string
		server       *tls.Config
		show         *tls.Certificate
		protocol     string
		shown, chain int
		fails        bool
	}{
		{"a stranger", data, &foreign, contract.ProtocolCertificate, 1, 0, false},
		{"a node", data, &own, contract.ProtocolCertificate, 1, 0, false},
		{"nobody", data, nil, contract.ProtocolCertificate, 0, 0, false},
		{"without the key", data, &forged, contract.ProtocolCertificate, 0, 0, true},
		{"a stranger who does not say so", data, &foreign, "http/1.1", 0, 0, true},
		{"a node that does not say so", data, &own, "http/1.1", 1, 1, false},
		{"a stranger elsewhere", other, &foreign, contract.ProtocolCertificate, 0, 0, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := &tls.Config{RootCAs: a.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12, NextProtos: []string{test.protocol}}
			if test.show != nil {
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return test.show, nil }
			}
			near, far := net.Pipe()
			defer func() { _, _ = near.Close(), far.Close() }()
			done := make(chan struct{})
			go func() {
				defer close(done)
				_ = tls.Client(far, client).HandshakeContext(t.Context())
				_ = far.Close()
			}()
			server := tls.Server(near, test.server)
			err := server.HandshakeContext(t.Context())
			_ = near.Close()
			<-done
			if (err != nil) != test.fails {
				t.Fatalf("handshake: %v", err)
			}
			if s := server.ConnectionState(); err == nil && (len(s.PeerCertificates) < test.shown || test.shown == 0 && len(s.PeerCertificates) > 0 || len(s.VerifiedChains) != test.chain) {
				t.Errorf("%d certificates, %d verified chains", len(s.PeerCertificates), len(s.VerifiedChains))
			}
		})
	}
}

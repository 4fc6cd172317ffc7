package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
	"github.com/meshgate/meshgate/filter/contract"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAuthority(t *testing.T, s store.Store, c *identitytest.Clock) *Authority {
	t.Helper()
	a, err := OpenAuthority(t.Context(), s, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestAuthorityIsKept opens the database again, as a restart does.
func TestAuthorityIsKept(t *testing.T) {
	dir := t.TempDir()
	keys, err := seal.Make(filepath.Join(dir, "encryption.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	open := func() (authority, listener []byte, token string) {
		s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "meshgate.db"), Kinds: append(Kinds(), mesh.Kinds()...), Sealer: keys})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		a := openAuthority(t, s, identitytest.NewClock())
		pair, err := a.Listener(t.Context(), []string{"localhost"})
		if err != nil {
			t.Fatal(err)
		}
		tokens, err := OpenTokens(t.Context(), s, identitytest.NewClock().Now)
		if err != nil {
			t.Fatal(err)
		}
		if token, err = tokens.Gateway("default", "gw", time.Hour); err != nil {
			t.Fatal(err)
		}
		return a.PEM(), pair.Certificate, token
	}
	authority, listener, token := open()
	again, listenerAgain, _ := open()
	if diff := cmp.Diff(string(authority), string(again)); diff != "" {
		t.Errorf("another authority after a restart:\n%s", diff)
	}
	if diff := cmp.Diff(string(listener), string(listenerAgain)); diff != "" {
		t.Errorf("another listener certificate after a restart:\n%s", diff)
	}
	s, err := sqlstore.Open(t.Context(), sqlstore.Options{Path: filepath.Join(dir, "meshgate.db"), Kinds: append(Kinds(), mesh.Kinds()...), Sealer: keys})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	tokens, err := OpenTokens(t.Context(), s, identitytest.NewClock().Now)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Check(t.Context(), token); err != nil {
		t.Errorf("a token of before the restart: %v", err)
	}
}

// TestAuthorityRace opens one store several times at once: all get the same authority.
func TestAuthorityRace(t *testing.T) {
	s, found := identitytest.Memory(t), make([]string, 8)
	var wg sync.WaitGroup
	for i := range found {
		wg.Go(func() {
			if a, err := OpenAuthority(context.Background(), s, identitytest.NewClock().Now); err == nil {
				found[i] = string(a.PEM())
			}
		})
	}
	wg.Wait()
	if found[0] == "" || len(slices.Compact(found)) != 1 {
		t.Errorf("several authorities: %q", found)
	}
}

func TestAuthorityCertificate(t *testing.T) {
	c := identitytest.Certificate(t, openAuthority(t, identitytest.Memory(t), identitytest.NewClock()).PEM())
	if !c.IsCA || !c.BasicConstraintsValid || !c.MaxPathLenZero {
		t.Errorf("IsCA %t, BasicConstraintsValid %t, MaxPathLenZero %t", c.IsCA, c.BasicConstraintsValid, c.MaxPathLenZero)
	}
	if want := x509.KeyUsageCertSign | x509.KeyUsageCRLSign; c.KeyUsage != want {
		t.Errorf("key usage %b, want %b", c.KeyUsage, want)
	}
	if diff := cmp.Diff([]time.Time{identitytest.Epoch.Add(-Backdate), identitytest.Epoch.Add(AuthorityLife)}, []time.Time{c.NotBefore, c.NotAfter}); diff != "" {
		t.Errorf("validity:\n%s", diff)
	}
}

// TestLeaves issues each kind of leaf and checks its contents.
func TestLeaves(t *testing.T) {
	a := openAuthority(t, identitytest.Memory(t), identitytest.NewClock())
	type facts struct {
		Names, IPs, URIs []string
		Usage            []x509.ExtKeyUsage
		Life             time.Duration
		CommonName       string
	}
	names := []string{"localhost", "127.0.0.1", "::1", "gw.example"}
	for _, test := range []struct {
		name  string
		issue func() ([]byte, error)
		want  facts
	}{
		{"node", func() ([]byte, error) { return pemOf(a.Node("cp/default/gw")) },
			facts{URIs: []string{"spiffe://meshgate/cp/default/gw"}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, Life: leafLife}},
		{"listener", func() ([]byte, error) { return pemOf(a.Listener(t.Context(), names)) },
			facts{Names: []string{"localhost", "gw.example"}, IPs: []string{"127.0.0.1", "::1"}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Life: listenerLife, CommonName: "localhost"}},
		{"data plane", func() ([]byte, error) { return served(a.DataPlaneConfig(names)) },
			facts{URIs: []string{contract.DataPlaneID}, Names: []string{"localhost", "gw.example"}, IPs: []string{"127.0.0.1", "::1"}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Life: leafLife}},
		{"server", func() ([]byte, error) { return served(a.ServerConfig(names)) },
			facts{Names: []string{"localhost", "gw.example"}, IPs: []string{"127.0.0.1", "::1"}, Usage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Life: leafLife, CommonName: "localhost"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			data, err := test.issue()
			if err != nil {
				t.Fatal(err)
			}
			c := identitytest.Certificate(t, data)
			got := facts{Names: c.DNSNames, Usage: c.ExtKeyUsage, Life: c.NotAfter.Sub(identitytest.Epoch), CommonName: c.Subject.CommonName}
			for _, ip := range c.IPAddresses {
				got.IPs = append(got.IPs, ip.String())
			}
			for _, u := range c.URIs {
				got.URIs = append(got.URIs, u.String())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if c.IsCA || c.KeyUsage != x509.KeyUsageDigitalSignature {
				t.Errorf("IsCA %t, key usage %b", c.IsCA, c.KeyUsage)
			}
			if _, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: identitytest.Epoch, KeyUsages: test.want.Usage}); err != nil {
				t.Errorf("verification: %v", err)
			}
			if _, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: c.NotAfter.Add(time.Second), KeyUsages: test.want.Usage}); err == nil {
				t.Error("good after its end")
			}
		})
	}
}

func pemOf(p *KeyPair, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if _, err := tls.X509KeyPair(p.Certificate, p.Key); err != nil {
		return nil, fmt.Errorf("certificate and key are no pair: %w", err)
	}
	return p.Certificate, nil
}

// served returns the certificate that a server presents.
func served(c *tls.Config) ([]byte, error) {
	leaf, err := c.GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: leaf.Certificate[0]}), nil
}

// TestLeafRenewal moves the clock over the two thirds at which a leaf is renewed.
func TestLeafRenewal(t *testing.T) {
	c := identitytest.NewClock()
	a := openAuthority(t, identitytest.Memory(t), c)
	node := func() []byte { p, err := pemOf(a.Node("cp/default/gw")); return must(t, p, err) }
	server := func() []byte { p, err := served(a.ServerConfig([]string{"localhost"})); return must(t, p, err) }
	listener := func() []byte { p, err := pemOf(a.Listener(t.Context(), []string{"localhost"})); return must(t, p, err) }
	for _, test := range []struct {
		name string
		get  func() []byte
		life time.Duration
	}{{"node", node, leafLife}, {"server", server, leafLife}, {"listener", listener, listenerLife}} {
		t.Run(test.name, func(t *testing.T) {
			first := test.get()
			c.Advance(test.life*2/3 - time.Second)
			if string(test.get()) != string(first) {
				t.Error("renewed too early")
			}
			c.Advance(time.Second)
			renewed := test.get()
			if string(renewed) == string(first) {
				t.Fatal("not renewed when a third of its life was left")
			}
			if got, want := identitytest.Certificate(t, renewed).NotAfter, c.Now().Add(test.life); !got.Equal(want) {
				t.Errorf("the renewed one ends at %s, want %s", got, want)
			}
			if string(test.get()) != string(renewed) {
				t.Error("renewed twice")
			}
		})
	}
}

func must(t *testing.T, data []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestNames gives certificates further names. Servers with different names never share a
// certificate, and the stored listener certificate is replaced if it lacks a name.
func TestNames(t *testing.T) {
	a := openAuthority(t, identitytest.Memory(t), identitytest.NewClock())
	for _, names := range [][]string{{"localhost"}, {"localhost", "mesh.example"}, {"localhost", "10.0.0.7"}, {"localhost"}} {
		last := names[len(names)-1]
		data, err := served(a.ServerConfig(names))
		if err := identitytest.Certificate(t, must(t, data, err)).VerifyHostname(last); err != nil {
			t.Errorf("server of %v: %v", names, err)
		}
		data, err = pemOf(a.Listener(t.Context(), names))
		if err := identitytest.Certificate(t, must(t, data, err)).VerifyHostname(last); err != nil {
			t.Errorf("listener of %v: %v", names, err)
		}
	}
}

// TestOnlyTheDataPlaneServerSaysSo: no other certificate of the authority contains the
// identity that clients of the data-plane server demand, no matter which names the settings
// list and how a gateway is called. The identity is verified together with the authority.
func TestOnlyTheDataPlaneServerSaysSo(t *testing.T) {
	c := identitytest.NewClock()
	c.Advance(time.Since(c.Now())) // crypto/tls verifies against the time of day
	a, stranger := openAuthority(t, identitytest.Memory(t), c), openAuthority(t, identitytest.Memory(t), c)
	names := []string{"localhost", contract.DataPlaneID, "spiffe:data-plane"}
	pair := func(p *KeyPair, err error) *tls.Config {
		if err != nil {
			t.Fatal(err)
		}
		cert, err := tls.X509KeyPair(p.Certificate, p.Key)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	}
	for _, test := range []struct {
		name   string
		server *tls.Config
		known  bool
	}{
		{"data plane", a.DataPlaneConfig(names[:1]), true},
		{"administration", a.ServerConfig(names[:1]), false},
		{"administration by name", a.ServerConfig(names), false},
		{"listener", pair(a.Listener(t.Context(), names[:1])), false},
		{"listener by name", pair(a.Listener(t.Context(), names)), false},
		{"gateway", pair(a.Node("data-plane")), false},
		{"stranger", stranger.DataPlaneConfig(names[:1]), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = ln.Close() }()
			done := make(chan struct{})
			go func() {
				defer close(done)
				conn, err := ln.Accept()
				if err != nil {
					return // the client reports the outcome
				}
				_ = tls.Server(conn, test.server).HandshakeContext(t.Context())
				_ = conn.Close()
			}()
			conn, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			client := tls.Client(conn, &tls.Config{RootCAs: a.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12, VerifyConnection: contract.IsDataPlane})
			err = client.HandshakeContext(t.Context())
			_ = conn.Close()
			<-done
			if (err == nil) != test.known {
				t.Errorf("the client says %v", err)
			}
		})
	}
}

// TestServerConfig shakes hands with a node's certificate, which is verified; without one,
// which is left to the handler; and with a stranger's, which fails.
func TestServerConfig(t *testing.T) {
	c := identitytest.NewClock()
	c.Advance(time.Since(c.Now())) // crypto/tls verifies against the time of day
	a, stranger := openAuthority(t, identitytest.Memory(t), c), openAuthority(t, identitytest.Memory(t), c)
	for _, test := range []struct {
		name  string
		from  *Authority
		chain int
		fails bool
	}{{"node", a, 1, false}, {"nobody", nil, 0, false}, {"stranger", stranger, 0, true}} {
		t.Run(test.name, func(t *testing.T) {
			client := &tls.Config{RootCAs: a.Pool(), ServerName: "localhost", MinVersion: tls.VersionTLS12}
			if test.from != nil {
				p, err := test.from.Node("cp/default/gw")
				if err != nil {
					t.Fatal(err)
				}
				pair, err := tls.X509KeyPair(p.Certificate, p.Key)
				if err != nil {
					t.Fatal(err)
				}
				client.Certificates = []tls.Certificate{pair}
			}
			near, far := net.Pipe()
			defer func() { _, _ = near.Close(), far.Close() }()
			done := make(chan error, 1)
			go func() {
				err := tls.Client(far, client).HandshakeContext(t.Context())
				_ = far.Close()
				done <- err
			}()
			server := tls.Server(near, a.ServerConfig([]string{"localhost"}))
			err := server.HandshakeContext(t.Context())
			_ = near.Close()
			<-done
			if (err != nil) != test.fails {
				t.Fatalf("handshake: %v", err)
			}
			if got := len(server.ConnectionState().VerifiedChains); got != test.chain {
				t.Errorf("%d verified chains, want %d", got, test.chain)
			}
		})
	}
}

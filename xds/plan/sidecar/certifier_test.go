package sidecar_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// patience bounds what an Envoy of this machine needs for one step.
const patience = time.Minute

func deadline() time.Time { return time.Now().Add(patience) }

// certifier signs identities of the mesh that a real Envoy and a test show each other.
type certifier struct {
	root *x509.Certificate
	key  *ecdsa.PrivateKey
	der  []byte
}

func newCertifier() *certifier {
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	root.Subject.CommonName = meshName
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	return &certifier{root, key, must(x509.CreateCertificate(rand.Reader, root, root, key.Public(), key))}
}

// identity is that of a service.
func (a *certifier) identity(service string) tls.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		URIs: []*url.URL{{Scheme: "spiffe", Host: meshName, Path: "/" + service}, {Scheme: "mesh", Host: "mesh.io", Path: "/service/" + service}},
	}
	return tls.Certificate{Certificate: [][]byte{must(x509.CreateCertificate(rand.Reader, leaf, a.root, key.Public(), a.key))}, PrivateKey: key}
}

// secrets are what a proxy of a service is given.
func (a *certifier) secrets(service string) []*tlsv3.Secret {
	id := a.identity(service)
	data := func(kind string, b []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})}}
	}
	return []*tlsv3.Secret{
		{Name: mesh.SecretIdentity(meshName), Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: data("CERTIFICATE", id.Certificate[0]), PrivateKey: data("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(id.PrivateKey))),
		}}},
		{Name: mesh.SecretCA(meshName), Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: data("CERTIFICATE", a.der)}}},
	}
}

// runAt runs an Envoy with one listener of a bootstrap, and returns where that listens.
func runAt(t *testing.T, b *bootstrapv3.Bootstrap, listener string) string {
	t.Helper()
	// Nobody else is given the port before Envoy has opened it.
	address := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: must(ports.Free(1))[0]}
	var only []*listenerv3.Listener
	for _, l := range b.StaticResources.Listeners {
		if l.GetName() == listener {
			l.Address = at(address)
			only = append(only, l)
		}
	}
	b.StaticResources.Listeners = only
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, must(protojson.Marshal(b)), 0o600); err != nil {
		t.Fatal(err)
	}
	plantest.Run(t, file)
	return address.String()
}

// at is an address as Envoy is told it.
func at(a net.Addr) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(a.(*net.TCPAddr).Port)},
	}}}
}

// dialed is a connection on which everything must have happened within patience.
func dialed(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test has seen what it wanted
	if err := conn.SetDeadline(deadline()); err != nil {
		t.Fatal(err)
	}
	return conn
}

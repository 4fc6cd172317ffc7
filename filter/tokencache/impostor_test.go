package tokencache

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
)

// TestImpostorsGetNoToken: a server whose certificate has the right authority and host name,
// which any gateway has for its listener, is not accepted as the control plane. The
// handshake fails, so the server never reads the node's token.
func TestImpostorsGetNoToken(t *testing.T) {
	dir := t.TempDir()
	root, ca := testCertificate(t, dir)
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Here the certificate of the authority itself serves as that of the control plane. The
	// impostor has a leaf of it without that name.
	signer, err := x509.ParseCertificate(root.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	leaf := *signer
	leaf.URIs, leaf.IsCA = nil, false
	der, err := x509.CreateCertificate(rand.Reader, &leaf, signer, signer.PublicKey, root.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	impostor := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: root.PrivateKey}
	read := make(chan int, 1)
	c := &Cache{opts: Options{DialLink: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			conn := tls.Server(server, &tls.Config{Certificates: []tls.Certificate{impostor}, MinVersion: tls.VersionTLS13})
			n, _ := conn.Read(make([]byte, 1<<10)) // the bytes that it received are what counts
			_ = server.Close()
			read <- n
		}()
		return client, nil
	}, Recover: func(_ string, do func()) { do() }}}
	_, err = c.dialLink(t.Context(), contract.ControlPlaneSettings{Address: "localhost:1", CAFile: ca, TokenFile: token})
	if err == nil || !strings.Contains(err.Error(), "not that of a data-plane server") {
		t.Errorf("the link says %v", err)
	}
	if n := <-read; n > 0 {
		t.Errorf("the impostor was told %d bytes", n)
	}
}

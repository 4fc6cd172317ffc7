package redisconn

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/redisconn/redistest"
)

// authority writes a CA and a certificate for 127.0.0.1 that it signed.
func authority(t *testing.T) (dir, ca string) {
	t.Helper()
	dir = t.TempDir()
	issue := func(name string, template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) string {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		writeFile(t, filepath.Join(dir, name+".pem"), "%s", certificate)
		writeFile(t, filepath.Join(dir, name+".key"), "%s", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private}))
		return certificate
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	rootKey := key()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	ca = issue("ca", root, root, rootKey, rootKey)
	issue("server", &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, root, key(), rootKey)
	return dir, ca
}

// TestTLS: the server has a certificate of a private CA. The file of the CA is read anew for
// each connection.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir, ca := authority(t)
	_, foreign := authority(t)
	file := filepath.Join(dir, "trusted.pem")
	writeFile(t, file, "%s", foreign)
	url := "rediss://" + redistest.StartTLS(t, filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")).Address()
	set := func(s contract.RedisSettings) error {
		return opened(t, Options{Settings: s}).Set(t.Context(), "x", 1, 0).Err()
	}
	if err := set(contract.RedisSettings{URL: url, CA: ca}); err != nil {
		t.Error(err)
	}
	pinned := opened(t, Options{Settings: contract.RedisSettings{URL: url, CA: ca}})
	for range 3 {
		if _, err := Pin(t.Context(), pinned); err != nil {
			t.Fatal(err)
		}
		if err := pinned.Set(t.Context(), "x", 1, 0).Err(); err != nil {
			t.Fatalf("a connection that was dropped is used: %v", err)
		}
	}
	for _, s := range []contract.RedisSettings{{URL: url}, {URL: url, CA: foreign}, {URL: strings.Replace(url, "127.0.0.1", "localhost", 1), CA: ca}} {
		if err := set(s); err == nil || !strings.Contains(err.Error(), "tls: ") {
			t.Errorf("%s: %v", s.URL, err)
		}
	}
	c := opened(t, Options{Settings: contract.RedisSettings{URL: url, CAFile: file}})
	if err := c.Set(t.Context(), "x", 1, 0).Err(); err == nil {
		t.Error("a foreign authority is believed")
	}
	writeFile(t, file, "%s", ca)
	if err := c.Set(t.Context(), "x", 1, 0).Err(); err != nil {
		t.Errorf("the new file is not read: %v", err)
	}
	if err := Check(&contract.RedisSettings{URL: url, CAFile: file}); err != nil {
		t.Error(err)
	}
	for _, s := range []contract.RedisSettings{
		{URL: "redis://r", CA: ca}, {URL: "r:1", CAFile: file}, {URL: "unix:///x", CA: ca}, {URL: url, CA: "none"},
		{URL: url, CAFile: file + ".not"}, {URL: url, CAFile: filepath.Join(dir, "ca.key")}, {URL: "redis+cluster://r", CA: ca},
	} {
		if err := Check(&s); err == nil {
			t.Errorf("good: %+v", s)
		}
		if c, err := Open(Options{Settings: s}); err == nil {
			if _ = c.Close(); s.CAFile == "" {
				t.Errorf("opened %+v", s)
			}
		}
	}
}

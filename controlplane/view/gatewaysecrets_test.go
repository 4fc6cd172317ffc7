package view_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestKeysOfAuthoritiesAreNotPresented: a gateway cannot present the key of an authority, from the
// moment on at which a mesh says that it is one.
func TestKeysOfAuthoritiesAreNotPresented(t *testing.T) {
	f := openMesh(t, memstore.New())
	defer f.close()
	f.commit(t, set(mesh.Meshes, "", mesh.Default, &mesh.Mesh{}))
	cert, key := authorityPair(t)
	f.commit(t, set(mesh.Secrets, mesh.Default, "server", &mesh.Secret{Data: slices.Concat(cert, key)}))
	c := f.commit(t, set(mesh.MeshGateways, mesh.Default, "edge", &mesh.MeshGateway{
		Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "edge"}}},
		Conf: &mesh.MeshGatewayConf{Listeners: []mesh.GatewayListener{{
			Port: 443, Protocol: mesh.ListenerHTTPS, TLS: &mesh.GatewayTLS{Mode: mesh.TLSTerminate, Certificates: []mesh.DataSource{{Secret: "server"}}},
		}}},
	}))
	wrong := func() string { return c.State.Policy(mesh.MeshGateways, "edge").Certificates["server"].Wrong }
	if got := wrong(); got != "" {
		t.Errorf("before: %q", got)
	}
	c = f.commit(t, set(mesh.Trusts, mesh.Default, mesh.Default, &mesh.Trust{Roots: cert}))
	told := slices.ContainsFunc(c.Keys, func(k model.Key) bool { return k.Kind == mesh.MeshGateways.Name })
	if got := wrong(); !strings.Contains(got, "authority") || !told {
		t.Errorf("as an authority: %q; told of %v", got, c.Keys)
	}
	c = f.commit(t, func(tx store.Tx) error { return tx.Delete(mesh.Trusts, mesh.Default, mesh.Default, 0) })
	if got := wrong(); got != "" {
		t.Errorf("afterwards: %q", got)
	}
}

// authorityPair makes a self-signed certificate with its key, both in PEM.
func authorityPair(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

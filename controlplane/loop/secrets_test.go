package loop_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/loop"
	plan "github.com/meshgate/meshgate/xds/plan/gateway"
)

// identities answers with fixed material.
type identities struct {
	server, node loop.Pair
	roots        []byte
}

func (i *identities) Server(context.Context) (loop.Pair, error)       { return i.server, nil }
func (i *identities) Node(context.Context, string) (loop.Pair, error) { return i.node, nil }
func (i *identities) Workload(context.Context, string, string) (loop.Pair, error) {
	return i.node, nil
}
func (i *identities) Roots(context.Context) ([]byte, error) { return i.roots, nil }

func pair(t *testing.T, authority bool, until time.Time) loop.Pair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: until,
		IsCA: authority, BasicConstraintsValid: true, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return loop.Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

func TestSecrets(t *testing.T) {
	later := time.Now().Add(time.Hour)
	ids := &identities{server: pair(t, false, later), node: pair(t, false, later), roots: pair(t, true, later).Certificate}
	r := start(t, ids)
	r.connect(nodeA)
	for name, want := range map[string][]byte{
		plan.SecretServer: ids.server.Certificate, plan.SecretIdentity: ids.node.Certificate, plan.SecretCA: ids.roots,
	} {
		res, err := r.loop.Secret(r.ctx, nodeA, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var s tlsv3.Secret
		if err := proto.Unmarshal(res.Body, &s); err != nil {
			t.Fatal(err)
		}
		got := append(s.GetTlsCertificate().GetCertificateChain().GetInlineBytes(), s.GetValidationContext().GetTrustedCa().GetInlineBytes()...)
		if s.Name != name || res.Name != name || !bytes.Equal(got, want) {
			t.Errorf("secret %s holds %s", name, got)
		}
	}
}

func TestSecretsAreRefused(t *testing.T) {
	later := time.Now().Add(time.Hour)
	one, two := pair(t, false, later), pair(t, false, later)
	ids := &identities{
		server: loop.Pair{Certificate: one.Certificate, Key: two.Key},
		node:   pair(t, false, time.Unix(1, 0)),
		roots:  one.Certificate, // no authority
	}
	r := start(t, ids)
	r.connect(nodeA)
	for _, name := range []string{plan.SecretServer, plan.SecretIdentity, plan.SecretCA} {
		res, err := r.loop.Secret(r.ctx, nodeA, name)
		if err == nil {
			t.Errorf("%s was given out: %v", name, res)
		} else if strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: the error shows a key", name)
		}
	}
	if _, err := r.loop.Secret(r.ctx, nodeA, "other"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a secret that the set does not name: %v", err)
	}
	if _, err := r.loop.Secret(r.ctx, nodeB, plan.SecretCA); !fault.Is(err, fault.NotFound) {
		t.Errorf("a node that is not connected: %v", err)
	}
}

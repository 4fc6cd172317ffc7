package publish_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/publish"
	plan "github.com/meshgate/meshgate/xds/plan/edge"
)

// identities answers with fixed material.
type identities struct {
	server, node publish.Pair
	roots        []byte
	// stored holds the certificates of users by control plane, id and alternative.
	stored map[string]publish.Pair
	// external holds what proxies present, by mesh and ExternalService.
	external map[string]*mesh.Presented
	// listeners holds what gateways present, by mesh and secret.
	listeners map[string]publish.Pair
}

func (i *identities) Certificate(_ context.Context, controlPlane, id string, alternative bool) (publish.Pair, error) {
	p, ok := i.stored[fmt.Sprint(controlPlane, " ", id, " ", alternative)]
	if !ok {
		return p, fault.New(fault.NotFound, "no such certificate")
	}
	return p, nil
}

func (i *identities) Server(context.Context) (publish.Pair, error)       { return i.server, nil }
func (i *identities) Node(context.Context, string) (publish.Pair, error) { return i.node, nil }
func (i *identities) Workload(context.Context, string, string) (publish.Workload, error) {
	return publish.Workload{Pair: i.node}, nil
}
func (i *identities) Egress(context.Context, string, string) (publish.Workload, error) {
	return publish.Workload{Pair: i.node}, nil
}
func (i *identities) External(_ context.Context, meshName, service string) (*mesh.Presented, error) {
	return i.external[meshName+" "+service], nil
}
func (i *identities) Listener(_ context.Context, meshName, secret string) (*mesh.ClientPair, error) {
	p, ok := i.listeners[meshName+" "+secret]
	if !ok {
		return nil, fault.New(fault.NotFound, "no such secret")
	}
	return &mesh.ClientPair{Chain: p.Certificate, Key: p.Key}, nil
}
func (i *identities) Roots(context.Context) ([]byte, error) { return i.roots, nil }

func pair(t *testing.T, authority bool, until time.Time) publish.Pair {
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
	return publish.Pair{
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
		res, err := r.loop.Secret(r.ctx, nodeA, name, "")
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
		server: publish.Pair{Certificate: one.Certificate, Key: two.Key},
		node:   pair(t, false, time.Unix(1, 0)),
		roots:  one.Certificate, // not the certificate of an authority
	}
	r := start(t, ids)
	r.connect(nodeA)
	for _, name := range []string{plan.SecretServer, plan.SecretIdentity, plan.SecretCA} {
		res, err := r.loop.Secret(r.ctx, nodeA, name, "")
		if err == nil {
			t.Errorf("%s was given out: %v", name, res)
		} else if strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("%s: the error shows a key", name)
		}
	}
	if _, err := r.loop.Secret(r.ctx, nodeA, "other", ""); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a secret that the set does not name: %v", err)
	}
	if _, err := r.loop.Secret(r.ctx, nodeB, plan.SecretCA, ""); !fault.Is(err, fault.NotFound) {
		t.Errorf("a node that is not connected: %v", err)
	}
}

func TestStoredCertificates(t *testing.T) {
	const shop, other, id = "00000000-0000-4000-8000-0000000000c1", "00000000-0000-4000-8000-0000000000c2", "00000000-0000-4000-8000-0000000000d1"
	expired, alternative := pair(t, false, time.Unix(1, 0)), pair(t, false, time.Unix(1, 0))
	ids := &identities{stored: map[string]publish.Pair{
		"default " + shop + " false": expired, "default " + shop + " true": alternative, "default " + other + " false": expired,
	}}
	r := start(t, ids)
	r.put(gateway.Certificates, shop, &gateway.Certificate{Cert: "unread", Key: "unread", CertAlt: "unread", KeyAlt: "unread"})
	r.put(gateway.Certificates, other, &gateway.Certificate{Cert: "unread", Key: "unread"})
	r.put(gateway.SNIs, id, &gateway.SNI{Name: "shop.test", Certificate: shop})
	r.connect(nodeA)
	for alt, want := range map[bool]publish.Pair{false: expired, true: alternative} {
		name := plan.SecretCertificate(shop, alt)
		res, err := r.loop.Secret(r.ctx, nodeA, name, "")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var s tlsv3.Secret
		if err := proto.Unmarshal(res.Body, &s); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(s.GetTlsCertificate().GetPrivateKey().GetInlineBytes(), want.Key) {
			t.Errorf("%s holds another key", name)
		}
	}
	if _, err := r.loop.Secret(r.ctx, nodeA, plan.SecretCertificate(other, false), ""); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a certificate that no listener and no cluster names: %v", err)
	}
	ids.stored["default "+shop+" false"] = publish.Pair{Certificate: expired.Certificate, Key: alternative.Key}
	if res, err := r.loop.Secret(r.ctx, nodeA, plan.SecretCertificate(shop, false), ""); err == nil {
		t.Errorf("no pair was given out: %v", res)
	} else if strings.Contains(err.Error(), "PRIVATE KEY") {
		t.Error("the error shows a key")
	}
}

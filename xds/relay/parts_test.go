package relay_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// TestRealEnvoyTakesPartsInAnyOrder publishes random parts of a configuration in random order,
// with clusters that lack assignments or secrets. Whatever the Envoy waited for meanwhile,
// once the configuration is complete it is warm and serves.
func TestRealEnvoyTakesPartsInAnyOrder(t *testing.T) {
	for name, agent := range map[string]bool{"an Envoy": false, "an Envoy with an agent": true} {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "parts") // short enough for a socket path
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			port, one := freePort(t), backend(t, "one")
			client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
			t.Cleanup(client.CloseIdleConnections)
			front := []*resource.Resource{xdstest.Listener("in", port, "r"), xdstest.Routes("r", "c0", 0)}
			secret := identitySecret(t)
			part := func(i, step int) []*resource.Resource {
				name := fmt.Sprintf("c%d", i)
				c := xdstest.Cluster(name, time.Second+time.Duration(step)*time.Millisecond)
				if i%2 == 1 {
					c = secured(t, c)
				}
				return []*resource.Resource{c, xdstest.Endpoints(name, one)}
			}
			p := startPlane(t, "127.0.0.1:0")
			p.publishWith(secret, append(part(0, 0), front...)...)
			if agent {
				startRelay(t, dir, p.addr)
				startEnvoy(t, dir)
			} else {
				startEnvoyOn(t, dir, onTCP(p.addr))
			}
			untilAnswer(t, client, dir, port, "200 one")
			random := mathrand.New(mathrand.NewPCG(1, 2))
			// A proxy that waits for missing parts answers no further clusters, so after a few
			// states the complete configuration follows.
			const rounds, parts = 14, 3
			before, _, _ := p.sent.state()
			for step := range rounds * parts {
				rs := append(part(0, 0), front...)
				for i := 1; i < 6; i++ {
					both := part(i, step%3)
					switch random.IntN(4) {
					case 0:
						rs = append(rs, both...)
					case 1:
						rs = append(rs, both[0])
					case 2:
						rs = append(rs, both[1])
					}
				}
				s := secret
				if random.IntN(2) == 0 {
					s = nil
				}
				p.responds(t, p.publishWith(s, rs...)) // otherwise only the last state would be sent
				if step%parts < parts-1 {
					continue
				}
				all := slices.Clone(front)
				for i := range 6 {
					all = append(all, part(i, 7)...)
				}
				if got := p.settle(t, p.publishWith(secret, all...)); len(got.Acknowledged) != 1 {
					t.Errorf("progress %+v", got)
				}
			}
			if n, _, _ := p.sent.state(); n < before+rounds*(parts+1) {
				t.Errorf("%d responses for %d states", n-before, rounds*(parts+1))
			}
			untilStat(t, dir, "cluster_manager.warming_clusters", 0)
			untilAnswer(t, client, dir, port, "200 one")
		})
	}
}

// secured makes a cluster use mutual TLS with the secret.
func secured(t *testing.T, r *resource.Resource) *resource.Resource {
	t.Helper()
	var c clusterv3.Cluster
	if err := proto.Unmarshal(r.Body, &c); err != nil {
		t.Fatal(err)
	}
	tls, err := anypb.New(&tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: "identity", SdsConfig: &corev3.ConfigSource{
			ResourceApiVersion:    corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			InitialFetchTimeout:   durationpb.New(15 * time.Second),
		}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	c.TransportSocket = &corev3.TransportSocket{Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: tls}}
	return xdstest.Freeze(resource.Cluster, r.Name, &c)
}

// identitySecret returns a secret with a certificate and its key.
func identitySecret(t *testing.T) *resource.Resource {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data := func(kind string, b []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})}}
	}
	return xdstest.Freeze(resource.Secret, "identity", &tlsv3.Secret{Name: "identity", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: data("CERTIFICATE", der), PrivateKey: data("PRIVATE KEY", private),
	}}})
}

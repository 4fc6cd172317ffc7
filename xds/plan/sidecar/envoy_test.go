package sidecar_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// validate requires that an agent and Envoy accept a set.
func validate(t *testing.T, set *resource.Set) {
	t.Helper()
	plantest.Admitted(t, set)
	text, err := protojson.Marshal(static(t, set))
	if err != nil {
		t.Fatal(err)
	}
	plantest.Validate(t, text)
}

// static makes a bootstrap with a set as static resources. Routes, assignments and secrets are
// inline.
func static(t *testing.T, set *resource.Set) *bootstrapv3.Bootstrap {
	t.Helper()
	b := &bootstrapv3.Bootstrap{
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Secrets: secrets()},
		Node:            &corev3.Node{Id: "test", Cluster: "test"},
	}
	for _, r := range set.All(resource.Secret) {
		if r.Name != mesh.SecretCA(meshName) {
			b.StaticResources.Secrets = append(slices.Clone(b.StaticResources.Secrets), load(t, r, new(tlsv3.Secret)))
		}
	}
	for _, name := range set.Secrets() {
		_, client := mesh.ParseExternalClient(name)
		if _, server := mesh.ParseServer(name); client || server {
			own := proto.CloneOf(secrets()[0])
			own.Name = name
			b.StaticResources.Secrets = append(slices.Clone(b.StaticResources.Secrets), own)
		}
	}
	for _, r := range set.All(resource.Listener) {
		l := load(t, r, new(listenerv3.Listener))
		for _, chain := range l.GetFilterChains() {
			for _, f := range chain.GetFilters() {
				edit(t, f.GetTypedConfig(), func(m *hcmv3.HttpConnectionManager) { inline(t, set, m) })
			}
			edit(t, chain.GetTransportSocket().GetTypedConfig(), func(d *tlsv3.DownstreamTlsContext) { local(d.GetCommonTlsContext()) })
		}
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	}
	for _, r := range set.All(resource.Cluster) {
		c := load(t, r, new(clusterv3.Cluster))
		if c.GetType() == clusterv3.Cluster_EDS {
			c.ClusterDiscoveryType, c.EdsClusterConfig = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}, nil
			c.LoadAssignment = load(t, set.Get(resource.Endpoint, c.GetName()), new(endpointv3.ClusterLoadAssignment))
		}
		edit(t, c.GetTransportSocket().GetTypedConfig(), func(u *tlsv3.UpstreamTlsContext) { local(u.GetCommonTlsContext()) })
		for _, m := range c.GetTransportSocketMatches() {
			edit(t, m.GetTransportSocket().GetTypedConfig(), func(u *tlsv3.UpstreamTlsContext) { local(u.GetCommonTlsContext()) })
		}
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
	return b
}

func inline(t *testing.T, set *resource.Set, m *hcmv3.HttpConnectionManager) {
	t.Helper()
	if m.GetRouteConfig() != nil {
		return // that of a template
	}
	table := load(t, set.Get(resource.Route, m.GetRds().GetRouteConfigName()), new(routev3.RouteConfiguration))
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: table}
}

// local makes a TLS context take its secrets from the same file.
func local(c *tlsv3.CommonTlsContext) {
	for _, s := range c.GetTlsCertificateSdsSecretConfigs() {
		s.SdsConfig = nil
	}
	if v := c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(); v != nil {
		v.SdsConfig = nil
	}
}

func load[M proto.Message](t testing.TB, r *resource.Resource, into M) M {
	t.Helper()
	if r == nil {
		t.Fatalf("there is no %T", into)
	}
	if err := proto.Unmarshal(r.Body, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// edit changes a packed message if it has the given type.
func edit[M proto.Message](t *testing.T, a *anypb.Any, fn func(M)) {
	t.Helper()
	if a == nil {
		return
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	if typed, ok := m.(M); ok {
		fn(typed)
		if err := a.MarshalFrom(m); err != nil {
			t.Fatal(err)
		}
	}
}

// secrets returns a self-signed certificate with its key.
var secrets = sync.OnceValue(func() []*tlsv3.Secret {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		URIs: []*url.URL{{Scheme: "spiffe", Host: meshName, Path: "/web"}},
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	private := must(x509.MarshalPKCS8PrivateKey(key))
	data := func(kind string, b []byte) *corev3.DataSource {
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b})}}
	}
	return []*tlsv3.Secret{
		{Name: mesh.SecretIdentity(meshName), Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: data("CERTIFICATE", der), PrivateKey: data("PRIVATE KEY", private),
		}}},
		{Name: mesh.SecretCA(meshName), Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: data("CERTIFICATE", der)}}},
	}
})

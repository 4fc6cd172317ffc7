package explain_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/resource"
)

// authority signs the certificates of all worlds.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	// Roots are its certificate in PEM.
	Roots []byte
}

func newAuthority(t testing.TB) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// issue makes the identity of a proxy.
func (a *authority) issue(t testing.TB, names []string) *tlsv3.TlsCertificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(24 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}
	for _, name := range names {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, u)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tlsv3.TlsCertificate{
		CertificateChain: inline(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		PrivateKey:       inline(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
}

func inline(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}

// fleet is one Envoy that has the listeners of many proxies.
type fleet struct {
	t    testing.TB
	ca   *authority
	boot *bootstrapv3.Bootstrap_StaticResources
}

// host adds the configuration of all proxies of a world. Each has names of its own.
func (f *fleet) host(w *world) {
	for _, name := range w.joined {
		d := &proxyIn{f, w.name + "/" + name + "/", w.planner.Set(name)}
		for _, r := range d.set.All(resource.Listener) {
			f.boot.Listeners = append(f.boot.Listeners, d.listener(r))
		}
		for _, r := range d.set.All(resource.Cluster) {
			f.boot.Clusters = append(f.boot.Clusters, d.cluster(r))
		}
		spec := w.spec(name)
		f.boot.Secrets = append(f.boot.Secrets,
			&tlsv3.Secret{Name: d.prefix + mesh.SecretIdentity(w.name), Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: f.ca.issue(f.t, explain.Names(w.name, spec))}},
			&tlsv3.Secret{Name: d.prefix + mesh.SecretCA(w.name), Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inline(f.ca.Roots)}}})
	}
}

// proxyIn is one proxy of a fleet.
type proxyIn struct {
	f      *fleet
	prefix string
	set    *resource.Set
}

func (p *proxyIn) listener(r *resource.Resource) *listenerv3.Listener {
	l := load(p.f.t, r, new(listenerv3.Listener))
	l.Name = p.prefix + l.GetName()
	for _, chain := range l.GetFilterChains() {
		for _, filter := range chain.GetFilters() {
			edit(p.f.t, filter.GetTypedConfig(), p.http)
			edit(p.f.t, filter.GetTypedConfig(), p.tcp)
		}
		edit(p.f.t, chain.GetTransportSocket().GetTypedConfig(), func(d *tlsv3.DownstreamTlsContext) { p.secrets(d.GetCommonTlsContext()) })
	}
	return l
}

func (p *proxyIn) http(m *hcmv3.HttpConnectionManager) {
	table := load(p.f.t, p.set.Get(resource.Route, m.GetRds().GetRouteConfigName()), new(routev3.RouteConfiguration))
	for _, route := range table.GetVirtualHosts()[0].GetRoutes() {
		a := route.GetRoute()
		if c := a.GetCluster(); c != "" {
			a.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: p.prefix + c}
		}
		for _, c := range a.GetWeightedClusters().GetClusters() {
			c.Name = p.prefix + c.GetName()
		}
	}
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: table}
}

func (p *proxyIn) tcp(m *tcpv3.TcpProxy) {
	if c := m.GetCluster(); c != "" {
		m.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: p.prefix + c}
	}
	for _, c := range m.GetWeightedClusters().GetClusters() {
		c.Name = p.prefix + c.GetName()
	}
}

func (p *proxyIn) cluster(r *resource.Resource) *clusterv3.Cluster {
	c := load(p.f.t, r, new(clusterv3.Cluster))
	if c.GetType() == clusterv3.Cluster_EDS {
		c.ClusterDiscoveryType, c.EdsClusterConfig = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}, nil
		c.LoadAssignment = load(p.f.t, p.set.Get(resource.Endpoint, c.GetName()), new(endpointv3.ClusterLoadAssignment))
	}
	edit(p.f.t, c.GetTransportSocket().GetTypedConfig(), func(u *tlsv3.UpstreamTlsContext) { p.secrets(u.GetCommonTlsContext()) })
	c.Name = p.prefix + c.GetName()
	c.LoadAssignment.ClusterName = c.GetName()
	return c
}

func (p *proxyIn) secrets(c *tlsv3.CommonTlsContext) {
	for _, s := range c.GetTlsCertificateSdsSecretConfigs() {
		s.Name, s.SdsConfig = p.prefix+s.GetName(), nil
	}
	if v := c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(); v != nil {
		v.Name, v.SdsConfig = p.prefix+v.GetName(), nil
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
func edit[M proto.Message](t testing.TB, a *anypb.Any, fn func(M)) {
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

package edge

import (
	"bufio"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// validate requires that an agent and Envoy accept a set.
func validate(t *testing.T, set *resource.Set) {
	t.Helper()
	plantest.Admitted(t, set)
	accepted(t, set)
}

// accepted requires that Envoy accepts a set.
func accepted(t *testing.T, set *resource.Set) {
	t.Helper()
	text, err := os.ReadFile(static(t, set, nil))
	if err != nil {
		t.Fatal(err)
	}
	plantest.Validate(t, text)
}

// static writes a configuration file with a set as static resources. Routes and secrets are
// inline.
func static(t *testing.T, set *resource.Set, admin *bootstrapv3.Admin) string {
	t.Helper()
	b := bare(t)
	b.Admin = admin
	add(t, b, set)
	return write(t, b)
}

// bare returns a bootstrap without listeners. Like the real one it permits regular expressions
// of any size.
func bare(t testing.TB) *bootstrapv3.Bootstrap {
	t.Helper()
	runtime, err := structpb.NewStruct(map[string]any{"re2.max_program_size.error_level": float64(math.MaxUint32)})
	if err != nil {
		t.Fatal(err)
	}
	// The agent writes this one into the bootstrap.
	authz := single("127.0.0.1", 1, time.Second)
	authz.Name = contract.AuthzCluster
	authz.LoadAssignment.ClusterName = authz.Name
	if err := speak(authz, httpOptions(true)); err != nil {
		t.Fatal(err)
	}
	return &bootstrapv3.Bootstrap{
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{Clusters: []*clusterv3.Cluster{authz}},
		Node:            &corev3.Node{Id: "test", Cluster: "test"},
		LayeredRuntime: &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
			Name: "static", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: runtime},
		}}},
	}
}

// add puts the listeners of a set into a bootstrap, together with the clusters that the
// bootstrap does not contain yet.
func add(t testing.TB, b *bootstrapv3.Bootstrap, set *resource.Set) {
	t.Helper()
	for _, s := range secrets(t, set.Secrets()) {
		if !slices.ContainsFunc(b.StaticResources.Secrets, func(o *tlsv3.Secret) bool { return o.Name == s.Name }) {
			b.StaticResources.Secrets = append(b.StaticResources.Secrets, s)
		}
	}
	table := tableOf(t, set)
	table.ResponseHeadersToAdd = append(table.ResponseHeadersToAdd, overwrite("x-route", "%ROUTE_NAME%"))
	for _, res := range set.All(resource.Listener) {
		l := new(listenerv3.Listener)
		load(t, res, l)
		inline(t, l, table)
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	}
	for _, res := range set.All(resource.Cluster) {
		c := new(clusterv3.Cluster)
		load(t, res, c)
		if slices.ContainsFunc(b.StaticResources.Clusters, func(o *clusterv3.Cluster) bool { return o.Name == c.Name }) {
			continue
		}
		settle(t, set, c)
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
}

func write(t testing.TB, b *bootstrapv3.Bootstrap) string {
	t.Helper()
	text, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// settle gives a cluster its assignment, and its secrets from the same file.
func settle(t testing.TB, set *resource.Set, c *clusterv3.Cluster) {
	t.Helper()
	if c.GetType() == clusterv3.Cluster_EDS {
		c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
		c.EdsClusterConfig, c.LoadAssignment = nil, new(endpointv3.ClusterLoadAssignment)
		load(t, set.Get(resource.Endpoint, c.Name), c.LoadAssignment)
	}
	sockets := []*corev3.TransportSocket{c.TransportSocket}
	for _, m := range c.TransportSocketMatches {
		sockets = append(sockets, m.TransportSocket)
	}
	for _, s := range sockets {
		if s.GetName() == "envoy.transport_sockets.tls" {
			edit(t, s.GetTypedConfig(), func(u *tlsv3.UpstreamTlsContext) { local(u.CommonTlsContext) })
		}
	}
}

// inline gives a listener its routes and secrets.
func inline(t testing.TB, l *listenerv3.Listener, table *routev3.RouteConfiguration) {
	t.Helper()
	for _, chain := range l.FilterChains {
		manager := chain.Filters[len(chain.Filters)-1]
		edit(t, manager.GetTypedConfig(), func(m *hcmv3.HttpConnectionManager) {
			m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: table}
		})
		if s := chain.TransportSocket; s != nil {
			edit(t, s.GetTypedConfig(), func(d *tlsv3.DownstreamTlsContext) { local(d.CommonTlsContext) })
		}
	}
}

// local makes a TLS context take its secrets from the same file.
func local(c *tlsv3.CommonTlsContext) {
	for _, s := range c.TlsCertificateSdsSecretConfigs {
		s.SdsConfig = nil
	}
	if s := c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(); s != nil {
		s.SdsConfig = nil
	}
}

func load(t testing.TB, r *resource.Resource, into proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(r.Body, into); err != nil {
		t.Fatal(err)
	}
}

func edit[M proto.Message](t testing.TB, a *anypb.Any, fn func(M)) {
	t.Helper()
	m, err := a.UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	typed, ok := m.(M)
	if !ok {
		t.Fatalf("unexpected %T", m)
	}
	fn(typed)
	if err := a.MarshalFrom(m); err != nil {
		t.Fatal(err)
	}
}

// secrets makes the named secrets. An alternative certificate has a key of another type.
func secrets(t testing.TB, names []string) []*tlsv3.Secret {
	t.Helper()
	var out []*tlsv3.Secret
	for _, name := range names {
		_, alternative, _ := ParseCertificate(name)
		chain, key := selfSigned(t, alternative)
		if name == SecretCA {
			out = append(out, &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{
				ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inlineString(chain)},
			}})
			continue
		}
		out = append(out, &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inlineString(chain), PrivateKey: inlineString(key),
		}}})
	}
	return out
}

func inlineString(text string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}}
}

// selfSigned makes an authority that is also a server certificate, as PEM.
func selfSigned(t testing.TB, rsaKey bool) (chain, key string) {
	t.Helper()
	var signer crypto.Signer
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if rsaKey {
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return text("CERTIFICATE", der), text("PRIVATE KEY", private)
}

// urlTable is the table of upstream URLs.
var urlTable = []struct {
	base  string
	strip bool
	path  string // empty: matched by host alone
	ask   string
	want  string
}{
	{"", true, "/route", "/route", "/"},
	{"", true, "/route", "/route/", "/"},
	{"", true, "/route", "/routereq", "/req"},
	{"/", false, "/route", "/routereq", "/routereq"},
	{"/service", true, "/route", "/route", "/service"},
	{"/service", true, "/route", "/route/", "/service/"},
	{"/service", true, "/route", "/routereq", "/service/req"},
	{"/service", false, "/route", "/route/", "/service/route/"},
	{"/service/", true, "/route", "/route", "/service"},
	{"/service/", true, "/route/", "/route/req", "/service/req"},
	{"/service/", false, "/route", "/route", "/service/route"},
	{"/service", true, "", "/", "/service"},
	{"/service", false, "", "/", "/service"},
	{"/service", true, "/route", "/route../secret", "/service/secret"},
	{"/service", true, "/route", "/route%2e%2E/secret", "/service/secret"},
	{"/service", true, "/route", "/route..", "/service"},
	{"/service", true, "/route", "/route.html?a=%2e", "/service/.html?a=%2e"},
	{"", true, "/route", "/route?", "/?"},
	{"", true, "/route", "/route/a%2Fb", "/a%2Fb"},
}

// TestEnvoyForwardsByTheTable runs the plan in an Envoy in front of an upstream that returns
// what it received.
func TestEnvoyForwardsByTheTable(t *testing.T) {
	for _, mode := range onEnvoy {
		t.Run(mode.String(), func(t *testing.T) { forwardsByTheTable(t, mode) })
	}
}

func forwardsByTheTable(t *testing.T, mode contract.Mode) {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s|%s|%s", r.RequestURI, r.Host, r.Header.Get("X-Forwarded-Prefix"), r.Header.Get("X-Consumer-Id"))
	}))
	defer upstream.Close()
	_, port, err := net.SplitHostPort(upstream.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for i, c := range urlTable {
		s := serviceSpec(c.base)
		s.Port = number
		w.put(gateway.Services, id(1, i), 1, s)
		r := routeSpec(id(1, i))
		r.StripPath, r.Hosts = c.strip, []string{fmt.Sprintf("h%d.test", i)}
		if c.path != "" {
			r.Paths = []string{c.path}
		}
		w.put(gateway.Routes, id(2, i), 1, r)
		// The same with a chain: the module strips.
		chained := *r
		chained.Hosts = []string{fmt.Sprintf("c%d.test", i)}
		w.put(gateway.Routes, id(2, 200+i), 1, &chained)
		passing := passingPlugin()
		passing.Route = id(2, 200+i)
		w.put(gateway.Plugins, id(3, i), 1, passing)
	}
	https := routeSpec(id(1, 0), "/upgrade")
	https.Protocols = []string{"https"}
	w.put(gateway.Routes, id(2, 100), 1, https)
	w.put(gateway.Routes, id(2, 101), 1, routeSpec("", "/nothing"))

	address := serveBy(t, w, mode)
	for i, c := range urlTable {
		prefix := ""
		if c.strip {
			prefix = c.path
		}
		for _, host := range []string{"h%d.test", "c%d.test"} {
			_, body := ask(t, address, fmt.Sprintf(host, i), c.ask)
			if want := c.want + "|" + upstream.Listener.Addr().String() + "|" + prefix + "|"; body != want {
				t.Errorf("%s: base %q strip %t path %q: %s\n got %s\nwant %s", host, c.base, c.strip, c.path, c.ask, body, want)
			}
		}
	}
	for path, want := range map[string]string{
		"/upgrade": `426 {"message":"Please use HTTPS protocol"}`,
		"/nothing": `503 {"message":"no Service found with those values"}`,
		"/other":   `404 {"message":"no Route matched with those values"}`,
	} {
		r, body := ask(t, address, "x.test", path)
		if got := fmt.Sprintf("%d %s", r.StatusCode, body); got != want || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
			t.Errorf("%s: %s (%s)", path, got, r.Header.Get("Content-Type"))
		}
	}
}

// serve runs an Envoy with the plan of a world until the test ends. It returns the address of
// the HTTP listener.
func serve(t *testing.T, w *world) string {
	t.Helper()
	return serveBy(t, w, contract.ModeModule)
}

// patience bounds the wait for what is expected. A busy machine takes long, and no test passes
// because the time is up.
const patience = time.Minute

// serveBy is serve for a mode of the filter.
func serveBy(t *testing.T, w *world, mode contract.Mode) string {
	t.Helper()
	params := Params{Address: "127.0.0.1", HTTPPort: freePort(t), Filter: mode}
	address := fmt.Sprintf("127.0.0.1:%d", params.HTTPPort)
	b := bare(t)
	add(t, b, NewPlanner(params).Plan(w.state()).Set)
	if mode == contract.ModeExtAuthz {
		asking(t, b.StaticResources.Clusters)
	}
	plantest.Run(t, write(t, b))
	// If there are names to resolve or targets to probe, Envoy starts its main loop before it
	// listens.
	for deadline := time.Now().Add(patience); ; {
		conn, err := net.DialTimeout("tcp", address, patience)
		if err == nil {
			_ = conn.Close() // nothing was sent
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func freePort(t testing.TB) uint32 {
	t.Helper()
	return uint32(freePorts(t, 1)[0])
}

// freePorts returns ports that no other test gets.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	free, err := ports.Free(n)
	if err != nil {
		t.Fatal(err)
	}
	return free
}

// ask requests a path unchanged, with identity headers that must not reach the upstream.
func ask(t *testing.T, address, host, path string) (*http.Response, string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // after the answer
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Consumer-ID: spoofed\r\nx_consumer-id: spoofed\r\nConnection: close\r\n\r\n", path, host)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	return r, string(body)
}

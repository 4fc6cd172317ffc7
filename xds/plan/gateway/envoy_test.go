package gateway

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// validate asks Envoy whether it accepts a set.
func validate(t *testing.T, set *resource.Set) {
	t.Helper()
	text, err := os.ReadFile(static(t, set, nil))
	if err != nil {
		t.Fatal(err)
	}
	plantest.Validate(t, text)
}

// static writes a configuration file with a set as static resources: routes and
// secrets inline.
func static(t *testing.T, set *resource.Set, admin *bootstrapv3.Admin) string {
	t.Helper()
	b := &bootstrapv3.Bootstrap{
		Admin: admin, StaticResources: &bootstrapv3.Bootstrap_StaticResources{Secrets: secrets(t)},
		Node: &corev3.Node{Id: "test", Cluster: "test"},
	}
	table := new(routev3.RouteConfiguration)
	load(t, set.Get(resource.Route, TableName), table)
	for _, res := range set.All(resource.Listener) {
		l := new(listenerv3.Listener)
		load(t, res, l)
		inline(t, l, table)
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	}
	for _, res := range set.All(resource.Cluster) {
		c := new(clusterv3.Cluster)
		load(t, res, c)
		if s := c.TransportSocket; s != nil {
			edit(t, s.GetTypedConfig(), func(u *tlsv3.UpstreamTlsContext) { local(u.CommonTlsContext) })
		}
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
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

func inline(t *testing.T, l *listenerv3.Listener, table *routev3.RouteConfiguration) {
	t.Helper()
	chain := l.FilterChains[0]
	edit(t, chain.Filters[0].GetTypedConfig(), func(m *hcmv3.HttpConnectionManager) {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: table}
	})
	if s := chain.TransportSocket; s != nil {
		edit(t, s.GetTypedConfig(), func(d *tlsv3.DownstreamTlsContext) { local(d.CommonTlsContext) })
	}
}

// local takes secrets from the same file.
func local(c *tlsv3.CommonTlsContext) {
	for _, s := range c.TlsCertificateSdsSecretConfigs {
		s.SdsConfig = nil
	}
	if s := c.GetCombinedValidationContext().GetValidationContextSdsSecretConfig(); s != nil {
		s.SdsConfig = nil
	}
}

func load(t *testing.T, r *resource.Resource, into proto.Message) {
	t.Helper()
	if err := proto.Unmarshal(r.Body, into); err != nil {
		t.Fatal(err)
	}
}

func edit[M proto.Message](t *testing.T, a *anypb.Any, fn func(M)) {
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

func secrets(t *testing.T) []*tlsv3.Secret {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"localhost"},
	}
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
	pair := func(name string) *tlsv3.Secret {
		return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: data("CERTIFICATE", der), PrivateKey: data("PRIVATE KEY", private),
		}}}
	}
	return []*tlsv3.Secret{pair(SecretServer), pair(SecretIdentity), {
		Name: SecretCA, Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: data("CERTIFICATE", der)}},
	}}
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

// TestEnvoyForwardsByTheTable runs the plan in an Envoy before an upstream that
// tells what it was asked.
func TestEnvoyForwardsByTheTable(t *testing.T) {
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
	}
	https := routeSpec(id(1, 0), "/upgrade")
	https.Protocols = []string{"https"}
	w.put(gateway.Routes, id(2, 100), 1, https)
	w.put(gateway.Routes, id(2, 101), 1, routeSpec("", "/nothing"))

	address := serve(t, w)
	for i, c := range urlTable {
		_, body := ask(t, address, fmt.Sprintf("h%d.test", i), c.ask)
		prefix := ""
		if c.strip {
			prefix = c.path
		}
		if want := c.want + "|" + upstream.Listener.Addr().String() + "|" + prefix + "|"; body != want {
			t.Errorf("base %q strip %t path %q: %s\n got %s\nwant %s", c.base, c.strip, c.path, c.ask, body, want)
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

// serve runs an Envoy with the plan of a world until the test ends and returns
// the address of its HTTP listener.
func serve(t *testing.T, w *world) string {
	t.Helper()
	params := Params{Address: "127.0.0.1", HTTPPort: freePort(t)}
	address := fmt.Sprintf("127.0.0.1:%d", params.HTTPPort)
	file := static(t, NewPlanner(params).Plan(w.state()).Set, nil)
	c := plantest.Command(t, "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "info")
	log, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(log)
		for started := false; lines.Scan(); {
			if !started && strings.Contains(lines.Text(), "starting main dispatch loop") {
				started = true
				close(ready)
			}
		}
	}()
	t.Cleanup(func() {
		if err := c.Process.Kill(); err != nil {
			t.Error(err)
		}
		<-ended
		_ = c.Wait() // killed
	})
	select {
	case <-ready:
	case <-ended:
		t.Fatal("envoy ended")
	case <-time.After(20 * time.Second):
		t.Fatal("envoy did not start")
	}
	return address
}

func freePort(t *testing.T) uint32 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }() // only its number is wanted
	return uint32(l.Addr().(*net.TCPAddr).Port)
}

// ask sends a path as it is, with an identity header that must not arrive.
func ask(t *testing.T, address, host, path string) (*http.Response, string) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }() // after the answer
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
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

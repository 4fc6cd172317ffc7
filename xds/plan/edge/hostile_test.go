package edge

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/extauthz"
	filterhost "github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/host/hosttest"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// onEnvoy are the modes of the filter that a stock Envoy has.
var onEnvoy = []contract.Mode{contract.ModeModule, contract.ModeExtAuthz}

// asking runs an authorization service that knows no token, and leads an Envoy to it.
func asking(t *testing.T, clusters []*clusterv3.Cluster) {
	t.Helper()
	lis, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := extauthz.New(filterhost.NewLogger(&hosttest.Log{}), func(*filterhost.Host) (filterhost.Tokens, error) { return hosttest.NewTokens("good"), nil })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx, lis) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.Close()
	})
	ledTo(t, clusters, lis.Addr())
}

// ledTo has Envoy ask an authorization service at an address.
func ledTo(t *testing.T, clusters []*clusterv3.Cluster, at net.Addr) {
	t.Helper()
	for _, c := range clusters {
		if c.Name == contract.AuthzCluster {
			c.LoadAssignment.Endpoints[0].LbEndpoints[0].GetEndpoint().Address = socketAddress("127.0.0.1", uint32(at.(*net.TCPAddr).Port))
			return
		}
	}
	t.Fatal("there is no such cluster")
}

// reflecting runs a server that answers with what it has read, one line for each header, in
// order, and the body.
func reflecting(t *testing.T) (port int) {
	t.Helper()
	lis, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := lis.Accept()
			if err != nil {
				return // closed
			}
			reflect(conn)
		}
	}()
	t.Cleanup(func() { _ = lis.Close(); <-done })
	return lis.Addr().(*net.TCPAddr).Port
}

// reflect answers one request.
func reflect(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience)) // it is only for a test that fails
	in := bufio.NewReader(conn)
	var lines []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			break
		}
		lines = append(lines, line)
	}
	slices.Sort(lines[1:])
	text := strings.Join(lines, "\n")
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
}

// issuer is an OAuth server that answers with the headers of requests, one line each.
func issuer(t *testing.T) (at Endpoint, authority string) {
	t.Helper()
	authority, pair := signed(t, contract.DataPlaneURI())
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines := []string{"OAUTH SERVER " + r.RequestURI, "host: " + r.Host}
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			lines = append(lines, strings.ToLower(name)+": "+strings.Join(r.Header[name], "|"))
		}
		_, _ = io.WriteString(w, strings.Join(lines, "\n"))
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.StartTLS()
	t.Cleanup(server.Close)
	return Endpoint{Host: "127.0.0.1", Port: uint32(server.Listener.Addr().(*net.TCPAddr).Port), ServerName: "localhost"}, authority
}

// gateways are listeners of one Envoy for the same world, by mode.
type gateways map[contract.Mode]Params

// beside plans a world for every mode that a stock Envoy has, and runs an Envoy with all of
// them. Clients on 127.0.0.2 are trusted.
func beside(t *testing.T, w *world) gateways {
	t.Helper()
	oauth, authority := issuer(t)
	b, out := bare(t), gateways{}
	for _, m := range onEnvoy {
		p := Params{Address: "127.0.0.1", HTTPPort: freePort(t), Trusted: "127.0.0.2/32", OAuth: oauth, Filter: m}
		result := NewPlanner(p).Plan(w.state())
		for _, f := range result.Failures {
			t.Error(f)
		}
		add(t, b, result.Set)
		out[m] = p
	}
	for _, s := range b.StaticResources.Secrets {
		if v := s.GetValidationContext(); v != nil {
			v.TrustedCa = inlineString(authority)
		}
	}
	asking(t, b.StaticResources.Clusters)
	plantest.Run(t, write(t, b))
	return out
}

// varying are parts of answers that differ from request to request, and between listeners.
var varying = regexp.MustCompile(`(?m)^(?:x-request-id|date): .*\n?`)

// asked sends a request as it is, and returns the status and the body of the answer.
func (g gateways) asked(t *testing.T, m contract.Mode, trusted bool, text string) string {
	t.Helper()
	from := net.IPv4(127, 0, 0, 3)
	if trusted {
		from = net.IPv4(127, 0, 0, 2)
	}
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	conn, err := dialer.DialContext(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", g[m].HTTPPort))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return "no answer"
	}
	body, err := io.ReadAll(res.Body)
	_ = res.Body.Close()
	if err != nil {
		return "half an answer"
	}
	seen := varying.ReplaceAllString(string(body), "")
	return fmt.Sprintf("%d %s\n%s", res.StatusCode, res.Header.Get("X-Route"), strings.ReplaceAll(seen, fmt.Sprint(g[m].HTTPPort), "PORT"))
}

// hostileWorld has a service with a path and one without, and of each a route with a plugin
// that lets pass, and one without plugins. One route issues tokens.
func hostileWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for n, base := range []string{"", "/base"} {
		s := serviceSpec(base)
		s.Port = reflecting(t)
		w.put(gateway.Services, id(1, n), 1, s)
	}
	for n, path := range []string{"/p", "/q", "/open", "/shut"} {
		w.put(gateway.Routes, id(2, n), 1, routeSpec(id(1, n%2), path))
		if n < 2 {
			passes := passingPlugin()
			passes.Route = id(2, n)
			w.put(gateway.Plugins, id(3, n), 1, passes)
		}
	}
	w.put(gateway.Routes, id(2, 4), 1, routeSpec(id(1, 0), "/i"))
	w.put(gateway.Plugins, id(3, 4), 1, pluginSpec(t, id(2, 4), "", nil))
	return w
}

const forged = "192.0.2.66"

// claimedNames are headers that only a gateway may send, or the listener.
func claimedNames() []string {
	names := slices.Concat(contract.IdentityHeaders[:], contract.OAuthHeaders, []string{
		"forwarded", "x-consumer-groups", "x-credential-anything", "x-authenticated-groups", "x-meshgate-anything",
		"x-forwarded-for", "x-forwarded-host", "x-forwarded-path", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-proto", "x-real-ip",
		"x-envoy-external-address", "x-envoy-internal", "x-envoy-original-path", "x-envoy-auth-partial-body", "x-envoy-decorator-operation",
		"x-envoy-max-retries", "x-envoy-upstream-rq-timeout-ms", "x-envoy-expected-rq-timeout-ms", "x-envoy-upstream-alt-stat-name", "x-envoy-force-trace",
		"x-envoy-ip-tags", "x-envoy-hedge-on-per-try-timeout", "x-envoy-attempt-count",
	})
	slices.Sort(names)
	return slices.Compact(names)
}

// spelt returns the ways to write a name that servers may take for the same.
func spelt(name string) []string {
	out := []string{name, strings.ToUpper(name), strings.ReplaceAll(name, "-", "_"), strings.Replace(name, "-", "_", 1)}
	if at := strings.LastIndexByte(name, '-'); at >= 0 {
		out = append(out, name[:at]+"_"+name[at+1:])
	}
	return slices.Compact(out)
}

// hostileHeads are requests, without their first line, that claim something.
func hostileHeads() map[string]string {
	heads := map[string]string{
		"nothing":            "Host: a.test\r\n",
		"an empty host":      "Host: \r\nX-Forwarded-Host: " + forged + "\r\nX-Forwarded-Path: /" + forged + "\r\nX_Forwarded_Host: " + forged + "\r\n",
		"a host with port":   "Host: a.test:99\r\n",
		"two real addresses": "Host: a.test\r\nX-Real-IP: " + forged + "\r\nX-Real-IP: " + forged + "\r\n",
		"two lists":          "Host: a.test\r\nX-Forwarded-For: " + forged + "\r\nX-Forwarded-For: 192.0.2.7, " + forged + "\r\n",
		"no address":         "Host: a.test\r\nX-Forwarded-For: unknown, " + forged + "x\r\n",
		"nominated":          "Host: a.test\r\nConnection: X-Real-IP, X-Forwarded-For, X-Consumer-Id, close\r\nX-Consumer-Id: " + forged + "\r\n",
		"an upgrade":         "Host: a.test\r\nConnection: Upgrade, X-Real-IP, X-Forwarded-For\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
		"another upgrade":    "Host: a.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n",
		"a body":             "Host: a.test\r\nContent-Length: 3\r\nX-Envoy-Auth-Partial-Body: true\r\n\r\nabc",
		"a handed-over one":  "Host: a.test\r\nX-Meshgate-OAuth: " + id(3, 4) + "\r\nX-Meshgate-Scheme: https\r\nX-Meshgate-Proto: https\r\nX-Meshgate-Client: " + forged + "\r\nX-Meshgate-Service: " + id(1, 0) + "\r\nX-Forwarded-Proto: https\r\n",
		"the state":          "Host: a.test\r\nmeshgate.oauth: handed-over\r\nX_Meshgate_OAuth: " + id(3, 4) + "\r\n",
	}
	for _, name := range claimedNames() {
		for _, s := range spelt(name) {
			heads[s] = "Host: a.test\r\n" + s + ": " + forged + "\r\n"
		}
	}
	return heads
}

// hostilePaths are put behind the path of a route.
var hostilePaths = []string{
	"", "/", "//x", "/x?a=/../b", "x", "/../q/x", "/%2e%2e/q/x", "/..%2fx", "%2fx", "/%2fx", "%2F..%2Fx", "/..;/x", "..;/x", "./x", "../x", "%2e%2e/x", "%2E./x", "..", ".",
	"/.", "/..", "/%2e%2E", "/x/..%5cy", "\\..\\x", "/a%2e%2fb", "/%252e%252e/x", "..html", "?..", "/x%00y", "#/x", "/x#y", ";a=b/x", "/./x", "/x/./../y", "%", "/%zz", "/a%2Fb",
}

// TestHostileRequests: what an upstream learns of a request is the same whether the dynamic
// module or an authorization service decides, and no client that is not trusted tells it
// anything that only a gateway may. A real Envoy is asked, on routes with a plugin, without
// one, and on the way to the OAuth server.
func TestHostileRequests(t *testing.T) {
	g := beside(t, hostileWorld(t))
	same := func(name string, trusted bool, text string) string {
		want := g.asked(t, contract.ModeModule, trusted, text)
		if got := g.asked(t, contract.ModeExtAuthz, trusted, text); got != want {
			t.Errorf("%s (trusted %t): with extauthz\n%s\nwith the module\n%s", name, trusted, got, want)
		}
		return want
	}
	reached := map[string]int{}
	heads := hostileHeads()
	for _, name := range slices.Sorted(maps.Keys(heads)) {
		head := heads[name]
		if !strings.Contains(head, "\r\n\r\n") {
			head += "\r\n"
		}
		for _, line := range []string{"GET /p/x?y", "GET /q", "GET /open/x?y", "GET /shut", "POST /i/oauth2/token", "GET /i/x", "GET /none"} {
			for _, trusted := range []bool{false, true} {
				got := same(name+": "+line, trusted, line+" HTTP/1.1\r\n"+head)
				reached[got[:4]+line]++
				if !trusted && strings.Contains(got, forged) && name != "no address" {
					t.Errorf("%s: %s: a stranger has it said\n%s", name, line, got)
				}
				if _, told, _ := strings.Cut(got, "\n"); !strings.HasPrefix(told, "OAUTH SERVER") && strings.Contains(strings.ToLower(told), "x-meshgate-") {
					t.Errorf("%s: %s: it tells of a hand-over\n%s", name, line, got)
				}
			}
		}
	}
	for _, route := range []string{"/p", "/q", "/open", "/shut", "/i/oauth2/token"} {
		for _, path := range hostilePaths {
			for _, version := range []string{"HTTP/1.1", "HTTP/1.0"} {
				got := same(route+path, false, "GET "+route+path+" "+version+"\r\nHost: a.test\r\n\r\n")
				reached[got[:4]+"path"]++
			}
		}
	}
	for _, text := range []string{"OPTIONS * HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET http://b.test/p/x HTTP/1.1\r\nHost: a.test\r\n\r\n", "CONNECT a.test:80 HTTP/1.1\r\nHost: a.test\r\n\r\n", "TRACE /p HTTP/1.1\r\nHost: a.test\r\n\r\n", "GET /p HTTP/1.1\r\n\r\n"} {
		same(text, false, text)
	}
	// Requests that reach nothing prove nothing.
	for _, want := range []string{"200 GET /p/x?y", "200 GET /q", "200 GET /open/x?y", "200 GET /shut", "200 POST /i/oauth2/token", "401 GET /i/x", "404 GET /none", "200 path", "400 path", "404 path"} {
		if reached[want] == 0 {
			t.Errorf("none is %q: %v", want, reached)
		}
	}
}

// TestHostileTrailers is [TestHostileRequests] for trailers, which only HTTP/2 has: those of
// clients that name what only a gateway may say reach no upstream, and others do.
func TestHostileTrailers(t *testing.T) {
	seen := make(chan http.Header, 1)
	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // trailers come behind it
		seen <- r.Trailer
	}))
	up.Config.Protocols = h2c
	up.Start()
	defer up.Close()
	w := newWorld(t)
	s := serviceSpec("")
	s.Protocol, s.Port = "grpc", up.Listener.Addr().(*net.TCPAddr).Port
	w.put(gateway.Services, id(1, 0), 1, s)
	for n, protocol := range []string{"grpc", "http"} { // with a chain and without
		r := routeSpec(id(1, 0), fmt.Sprintf("/%d", n))
		r.Protocols, r.StripPath = []string{protocol}, false
		w.put(gateway.Routes, id(2, n), 1, r)
	}
	g := beside(t, w)
	transport := &http.Transport{Protocols: h2c}
	defer transport.CloseIdleConnections()
	for m, p := range g {
		for n := range 2 {
			for _, name := range claimedNames() {
				got := trailersOf(t, transport, seen, fmt.Sprintf("http://127.0.0.1:%d/%d", p.HTTPPort, n), name)
				if len(got["X-Kept"]) == 0 {
					t.Errorf("%s: route %d: no trailers came", m, n)
				}
				for spelling, values := range got {
					if len(values) > 0 && contract.IsReservedTrailer([]byte(spelling)) {
						t.Errorf("%s: route %d: trailer %s is %v", m, n, spelling, values)
					}
				}
			}
		}
	}
}

// trailersOf sends a request with a trailer in all spellings, and returns what the upstream has
// seen of it.
func trailersOf(t *testing.T, transport *http.Transport, seen <-chan http.Header, url, name string) http.Header {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.MultiReader(strings.NewReader("a body of unknown length")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Trailer = http.Header{"X-Kept": {"kept"}}
	for _, s := range spelt(name) {
		req.Trailer.Set(s, forged)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d", url, res.StatusCode)
	}
	return <-seen
}

// answering is an authorization service with one answer, or with none.
type answering struct {
	authv3.UnimplementedAuthorizationServer
	answer *authv3.CheckResponse
}

func (a *answering) Check(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	if a.answer == nil {
		return nil, status.Error(codes.Internal, "it fails")
	}
	return a.answer, nil
}

// TestServiceThatDoesNotDecide: without a decision of the authorization service no request
// passes a route with a chain, and others go on. A request that it hands over to the OAuth
// server goes nowhere unless the service has recorded that, which a header cannot.
func TestServiceThatDoesNotDecide(t *testing.T) {
	handedOver := &authv3.CheckResponse{HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
		Headers: []*corev3.HeaderValueOption{overwrite(contract.HeaderOAuthPlugin, id(3, 4))},
	}}}
	for name, service := range map[string]*answering{"away": nil, "failing": {}, "recording nothing": {answer: handedOver}} {
		t.Run(name, func(t *testing.T) {
			oauth, authority := issuer(t)
			p := Params{Address: "127.0.0.1", HTTPPort: freePort(t), Trusted: "127.0.0.2/32", OAuth: oauth, Filter: contract.ModeExtAuthz}
			b := bare(t)
			add(t, b, NewPlanner(p).Plan(hostileWorld(t).state()).Set)
			for _, s := range b.StaticResources.Secrets {
				if v := s.GetValidationContext(); v != nil {
					v.TrustedCa = inlineString(authority)
				}
			}
			if service != nil {
				lis, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				server, done := grpc.NewServer(), make(chan error, 1)
				authv3.RegisterAuthorizationServer(server, service)
				go func() { done <- server.Serve(lis) }()
				defer func() { server.Stop(); <-done }()
				ledTo(t, b.StaticResources.Clusters, lis.Addr())
			}
			plantest.Run(t, write(t, b))
			g := gateways{contract.ModeExtAuthz: p}
			for line, want := range map[string]string{"GET /p": "503", "GET /q/x": "503", "POST /i/oauth2/token": "503", "GET /i": "503", "GET /open": "200", "GET /none": "404"} {
				if got := g.asked(t, contract.ModeExtAuthz, false, line+" HTTP/1.1\r\nHost: a\r\n\r\n"); !strings.HasPrefix(got, want+" ") {
					t.Errorf("%s: %s, want %s", line, got, want)
				}
			}
		})
	}
}

package edge

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

const (
	routerTables = 150 // each with its own two listeners, and 40 requests
	routerSeed   = 20
)

// TestEnvoyDecidesByTheRules runs random tables in one Envoy and compares its decisions on
// random requests with the oracle: which route it takes, and what it requests from the
// upstream. Half of the tables have a plugin on every route, which lets all requests pass: the
// filter then does its part of the path. For half of those an authorization service decides.
func TestEnvoyDecidesByTheRules(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.RequestURI)
	}))
	defer upstream.Close()
	port := upstream.Listener.Addr().(*net.TCPAddr).Port
	b := bare(t)
	ports := freePorts(t, 2*routerTables)
	var tables []drawn
	var sets []*resource.Set
	for i := range routerTables {
		mine := [2]int{ports[2*i], ports[2*i+1]}
		d := rapid.Custom(func(rt *rapid.T) drawn { return draw(rt, mine) }).Example(routerSeed + i)
		tables = append(tables, d)
		w := newWorld(t)
		for n, r := range d.routes {
			w.putOracle(r, n)
			if r.spec.Service != "" {
				s := serviceSpec(r.base)
				s.Enabled, s.Port = !r.down, port
				w.put(gateway.Services, id(1, n), 1, s)
			}
		}
		if i/2%2 == 0 {
			w.put(gateway.Plugins, id(3, 0), 1, passingPlugin())
		}
		params := Params{Address: "127.0.0.1", HTTPPort: uint32(mine[0]), HTTPSPort: uint32(mine[1]), Filter: onEnvoy[i/4%2]}
		p := NewPlanner(params)
		p.copies = []int{1, mostCopies}[i%2] // virtual hosts merged, and not
		sets = append(sets, p.Plan(w.state()).Set)
		add(t, b, sets[i])
	}
	asking(t, b.StaticResources.Clusters)
	plantest.Run(t, write(t, b))
	seen := map[string]int{}
	for i, d := range tables {
		c := clients{t: t, open: map[string]*bufio.ReadWriter{}}
		for _, req := range d.requests {
			got := c.decide(req)
			seen[got[:3]]++
			if want := oracle(d.routes, req); got != want {
				t.Errorf("table %d: %+v\n got %s\nwant %s", i, req, got, want)
			}
			if said, known := explained(t, sets[i], req); known && !agrees(said, got) {
				t.Errorf("table %d: %+v\n      got %s\nexplained %s", i, req, got, said)
			} else if known {
				seen["explained"]++
			}
		}
		if t.Failed() {
			for _, r := range d.routes {
				t.Logf("%s created %d down %t base %q: %+v", r.id, r.created, r.down, r.base, *r.spec)
			}
			return
		}
	}
	// Decisions that never happen would prove nothing.
	for _, kind := range []string{"to ", "404", "426", "503", "explained"} {
		if seen[kind] < routerTables {
			t.Errorf("%s: only %d of %v", kind, seen[kind], seen)
		}
	}
}

// passingPlugin runs on every route and lets every request pass that does not ask for an
// answer.
func passingPlugin() *gateway.Plugin {
	return &gateway.Plugin{
		Name: gateway.PluginRequestTermination, Enabled: true, Protocols: []string{"http", "https"},
		Config: []byte(`{"status_code":503,"trigger":"x-never","echo":false}`),
	}
}

// TestEnvoyAcceptsPatterns: every regular expression that the control plane accepts compiles
// in Envoy too, up to the largest.
func TestEnvoyAcceptsPatterns(t *testing.T) {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "/", `\.`, "?", "*", "+", "(", ")", "|", "[^/]", "[a-c]", ".", "$", "^", `\b`, `\z`, "(?i)", "{2}", `\Q`, `\E`, "é", `\w`, `\pL`, "(?<n>a)", "[[:alpha:]]", `\x{e000}`,
	}), 1, 8)
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec("/s"))
	taken := 0
	put := func(path, header string) {
		r := routeSpec(id(1, 0), path)
		r.Headers = map[string][]string{"x-one": {header}}
		if gateway.Matchable(r) == nil {
			w.put(gateway.Routes, id(2, taken), 1, r)
			taken++
		}
	}
	for i := range 2000 {
		text := strings.Join(parts.Example(i), "")
		put("~/"+text, "~*"+text)
	}
	if taken < 200 {
		t.Fatalf("only %d expressions are taken", taken)
	}
	n := taken
	put("~/"+strings.Repeat("a", 990), "~*[^a]{20}")
	put("~/[^a]{150}", "~*a{240}")
	put("~/"+strings.Repeat("a", 200), "~*.{20}")
	if taken != n+3 {
		t.Fatalf("%d of the largest expressions are taken", taken-n)
	}
	validate(t, NewPlanner(testParams).Plan(w.state()).Set)
}

// TestEnvoyRedirects: the location keeps host, path and query.
func TestEnvoyRedirects(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Services, id(1, 0), 1, serviceSpec(""))
	codes := []int{301, 302, 307, 308}
	for n, code := range codes {
		r := routeSpec(id(1, 0), fmt.Sprintf("~/%d/[ab]", code))
		r.Protocols, r.HTTPSRedirectStatusCode = []string{"https"}, code
		w.put(gateway.Routes, id(2, n), 1, r)
	}
	address := serve(t, w)
	for _, code := range codes {
		path := fmt.Sprintf("/%d/a%%2Fb?x=%%2f&y", code)
		r, _ := ask(t, address, "Some.test:1", path)
		if got := r.Header.Get("Location"); r.StatusCode != code || got != "https://Some.test:1"+path {
			t.Errorf("%d: %d to %s", code, r.StatusCode, got)
		}
	}
}

// clients keeps one connection per listener and server name.
type clients struct {
	t    *testing.T
	open map[string]*bufio.ReadWriter
}

func (c clients) connect(r request) *bufio.ReadWriter {
	c.t.Helper()
	key := fmt.Sprint(r.port, r.sni)
	if rw := c.open[key]; rw != nil {
		return rw
	}
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(r.port)))
	if err != nil {
		c.t.Fatal(err)
	}
	if r.scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: r.sni, InsecureSkipVerify: true})
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(3 * time.Minute)); err != nil {
		c.t.Fatal(err)
	}
	c.open[key] = bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	return c.open[key]
}

// decide sends a request and describes the result in the words of the oracle.
func (c clients) decide(r request) string {
	c.t.Helper()
	rw := c.connect(r)
	fmt.Fprintf(rw, "%s %s HTTP/1.1\r\nHost: %s\r\nContent-Length: 0\r\n", r.method, r.path, r.host)
	for _, name := range slices.Sorted(maps.Keys(r.headers)) {
		fmt.Fprintf(rw, "%s: %s\r\n", name, r.headers[name])
	}
	fmt.Fprint(rw, "\r\n")
	if err := rw.Flush(); err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.ReadResponse(rw.Reader, nil)
	if err != nil {
		c.t.Fatalf("%+v: %v", r, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if resp.Close {
		delete(c.open, fmt.Sprint(r.port, r.sni))
	}
	name := strings.TrimSuffix(resp.Header.Get("X-Route"), "-")
	if resp.StatusCode == http.StatusOK {
		return "to " + name + " " + string(body)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, name)
}

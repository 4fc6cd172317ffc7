package sidecar_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/policy/all"
)

const (
	doors     = 120 // each with a port of its own
	doorAsked = 80  // requests of each
	doorSeed  = 38
)

// TestEnvoyLeadsByTheDocuments runs random gateways in one Envoy and compares what it does with random
// requests with a naive reading of the documents: which rule takes one, or that none does.
func TestEnvoyLeadsByTheDocuments(t *testing.T) {
	free, err := ports.Free(doors)
	if err != nil {
		t.Fatal(err)
	}
	var drawn []*door
	var b *bootstrapv3.Bootstrap
	for i, port := range free {
		d := rapid.Custom(func(rt *rapid.T) *door { return drawDoor(rt, uint32(port)) }).Example(doorSeed + i)
		drawn = append(drawn, d)
		next := static(t, stored(t, d).joined("edge-1"))
		if b == nil {
			b = next
			continue
		}
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, next.GetStaticResources().GetListeners()...)
	}
	text, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	plantest.Run(t, file)
	seen := map[string]int{}
	for i, d := range drawn {
		for n := range doorAsked {
			r := rapid.Custom(drawRequest).Example(doorSeed + i*doorAsked + n)
			want, chosen := "404", d.chooses(r)
			if chosen != nil {
				want = ruleHost(chosen.route, chosen.rule)
			}
			if got := passed(t, free[i], r); got != want {
				t.Fatalf("gateway %d, %+v: got %s, want %s\n%s", i, r, got, want, described(t, d))
			}
			note(seen, chosen)
		}
	}
	// What never decided would prove nothing.
	for _, what := range []string{
		"404", "path EXACT", "path PREFIX", "path REGEX", "method", "header EXACT", "header REGEX", "header ABSENT", "header PRESENT", "query EXACT", "query REGEX",
	} {
		if seen[what] < doors/2 {
			t.Errorf("%s: only %d of %v", what, seen[what], seen)
		}
	}
}

// stored is a world with a gateway and its routes.
func stored(t *testing.T, d *door) *world {
	t.Helper()
	w := newWorldOf(t, all.Policies())
	w.put(mesh.Dataplanes, meshName, "edge-1", entrance("127.0.0.1"))
	w.document(t, mesh.MeshGateways, "g", marshalled(t, &mesh.MeshGateway{
		Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "edge"}}}, Conf: &mesh.MeshGatewayConf{Listeners: d.listeners},
	}))
	for i, route := range d.routes {
		w.document(t, mesh.MeshGatewayRoutes, fmt.Sprintf("r%d", i), marshalled(t, route))
	}
	return w
}

func marshalled(t *testing.T, spec any) string {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func described(t *testing.T, d *door) string {
	t.Helper()
	lines := []string{marshalled(t, d.listeners)}
	for _, route := range d.routes {
		lines = append(lines, marshalled(t, route))
	}
	return strings.Join(lines, "\n")
}

// passed sends a request and returns the host that it is redirected to, or the status.
func passed(t *testing.T, port int, r request) string {
	t.Helper()
	asked := fmt.Sprintf("http://127.0.0.1:%d%s", port, r.path)
	if r.query != "" {
		asked += "?" + r.query
	}
	out, err := http.NewRequestWithContext(t.Context(), r.method, asked, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	out.Host = r.host
	for name, value := range r.headers {
		out.Header.Set(name, value)
	}
	client := &http.Client{Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(out)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusFound {
		return fmt.Sprint(resp.StatusCode)
	}
	to, err := url.Parse(resp.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	return to.Hostname()
}

// note counts what decided about a request.
func note(seen map[string]int, c *choice) {
	if c == nil {
		seen["404"]++
		return
	}
	if c.match.Path != nil {
		seen["path "+c.match.Path.Match]++
	}
	if c.match.Method != "" {
		seen["method"]++
	}
	for _, h := range c.match.Headers {
		seen["header "+h.Match]++
	}
	for _, q := range c.match.QueryParameters {
		seen["query "+q.Match]++
	}
}

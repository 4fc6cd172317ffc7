package sidecar_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
)

// bound is a transparent proxy that reaches some services alone.
func bound(address, service string, reachable ...string) *mesh.Dataplane {
	d := transparent(address, service, "http")
	d.Networking.TransparentProxying.ReachableServices = reachable
	return d
}

// TestTransparentProxiesReachWhateverThereIs: a destination beyond the mesh has an address
// for transparent proxies like a service of it. One that comes or goes is a matter of
// those who may reach it; one that the mesh also serves moves nobody.
func TestTransparentProxiesReachWhateverThereIs(t *testing.T) {
	w := abroad(t)
	w.put(mesh.Dataplanes, meshName, "any-1", transparent("127.0.0.41", "any", "http"))
	w.put(mesh.Dataplanes, meshName, "few-1", bound("127.0.0.42", "few", "news", "backend"))
	w.joined("any-1", "few-1")
	at := func(service string) string { return "outbound:" + w.virtual(t, service) }
	w.hold(t, []string{"backend-1", "web-1", "jobs-1", "any-1", "few-1"}, []step{
		{"what one reaches", func() { w.put(outsideKind, meshName, "chat", outside("chat.example:80", "chat", "")) },
			map[string][]string{"any-1": {"+@names", "+chat@by-name", "+" + at("chat"), "+outbound:chat"}}},
		{"what both reach", func() { w.put(outsideKind, meshName, "news", outside("news.example:80", "news", "")) },
			map[string][]string{
				"any-1": {"+@names", "+news@by-name", "+" + at("news"), "+outbound:news"}, "few-1": {"+@names", "+news@by-name", "+" + at("news"), "+outbound:news"},
			}},
		{"another name of its host", func() { w.put(outsideKind, meshName, "news", outside("paper.example:80", "news", "")) },
			map[string][]string{"any-1": {"+news@by-name", "+outbound:news"}, "few-1": {"+news@by-name", "+outbound:news"}}},
		{"another port of it", func() { w.put(outsideKind, meshName, "news", outside("paper.example:81", "news", "")) },
			map[string][]string{"any-1": {"+news@by-name"}, "few-1": {"+news@by-name"}}},
		{"the mesh serves it, too", func() { w.put(mesh.Dataplanes, meshName, "news-1", dataplane("127.0.0.13", "news", "http")) },
			map[string][]string{
				"any-1": {"+news", "-news@by-name", "+news", "+outbound:news"}, "few-1": {"+news", "-news@by-name", "+news", "+outbound:news"},
			}},
		{"the mesh alone serves it", func() { w.drop(outsideKind, "news") }, nil},
		{"nobody does", func() { w.drop(mesh.Dataplanes, "news-1") },
			map[string][]string{
				"any-1": {"+@names", "-news", "-news", "-" + at("news"), "-outbound:news"}, "few-1": {"+@names", "-news", "-news", "-" + at("news"), "-outbound:news"},
			}},
	})
}

// TestNobodyElseIsPlannedAgain: of proxies that reach different services, those are looked
// at that reach what came.
func TestNobodyElseIsPlannedAgain(t *testing.T) {
	w := abroad(t)
	w.put(mesh.Dataplanes, meshName, "any-1", transparent("127.0.0.41", "any", "http"))
	w.put(mesh.Dataplanes, meshName, "other-1", transparent("127.0.0.43", "other", "http"))
	w.put(mesh.Dataplanes, meshName, "few-1", bound("127.0.0.42", "few", "news", "backend"))
	w.joined("any-1", "other-1", "few-1")
	for service, want := range map[string]int{"chat": 1, "news": 2} {
		w.put(outsideKind, meshName, service, outside(service+".example:80", service, ""))
		change := w.take()
		w.planner.Update(change.State, change.Keys, change.All)
		if got := w.planner.Moved(); got != want {
			t.Errorf("%s: %d lists of outbounds are looked at, not %d", service, got, want)
		}
		w.planner.Plan()
		a, b := w.planner.Set("any-1").Table(resource.Cluster).Root(), w.planner.Set("other-1").Table(resource.Cluster).Root()
		if a != b {
			t.Error("who reaches the same does not share")
		}
	}
}

// virtual is where a transparent proxy listens for a service, asked of a mesh in which it
// is the only one.
func (w *world) virtual(t *testing.T, service string) string {
	t.Helper()
	other := newWorldBeyond(t)
	other.put(outsideKind, meshName, "x", outside("x.example:80", service, ""))
	other.put(mesh.Dataplanes, meshName, "any-1", bound("127.0.0.41", "any", service))
	for _, r := range other.joined("any-1").All(resource.Listener) {
		var host string
		if n, _ := fmt.Sscanf(r.Name, "outbound:%s", &host); n == 1 && host != "passthrough:ipv4" {
			return host
		}
	}
	t.Fatalf("there is no listener for %s", service)
	return ""
}

// answering is a server, of HTTP/2 too, that answers with its name and the host that it
// was asked for.
func answering(t *testing.T, name string) (port uint32) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(rw, name+" "+r.Host)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return uint32(s.Listener.Addr().(*net.TCPAddr).Port)
}

// answer is that to a request for a host at a port of this machine.
func answer(t *testing.T, port int, host, path string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+strconv.Itoa(port)+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestHostsBeyondTheMeshAreAskedByTheirNames: what leads to one asks for its name, a share
// of a split too, while the other share asks what the caller asked; and what a route
// demands itself stays. Asked of a real Envoy.
func TestHostsBeyondTheMeshAreAskedByTheirNames(t *testing.T) {
	free, err := ports.Free(4)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorldBeyond(t)
	backend := dataplane("127.0.0.1", "backend", "http")
	backend.Networking.Inbound[0].Port = answering(t, "backend")
	w.put(mesh.Dataplanes, meshName, "backend-1", backend)
	w.put(outsideKind, meshName, "maps", outside(fmt.Sprintf("localhost:%d", answering(t, "maps")), "maps", ""))
	w.put(outsideKind, meshName, "news", outside(fmt.Sprintf("localhost:%d", answering(t, "news")), "news", ""))
	web := dataplane("127.0.0.1", "web", "http", "backend", "maps", "news")
	web.Networking.Inbound[0].Port = uint32(free[0])
	for i := range web.Networking.Outbound {
		web.Networking.Outbound[i].Port = uint32(free[i+1])
	}
	w.put(mesh.Dataplanes, meshName, "web-1", web)
	w.put(trafficroute.Kind, meshName, "halves", halves("backend", "maps"))
	w.raw(`
type: TrafficRoute
mesh: demo
name: own
sources: [{match: {mesh.io/service: "*"}}]
destinations: [{match: {mesh.io/service: news}}]
conf:
  destination: {mesh.io/service: news}
  http:
  - match: {path: {prefix: /own}}
    modify: {host: {value: demanded.example}}
    destination: {mesh.io/service: news}
`)
	text, err := protojson.Marshal(static(t, w.joined("web-1")))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	plantest.Run(t, file)
	if got := answer(t, free[2], "a.example", "/"); got != "maps localhost" {
		t.Errorf("a host beyond the mesh is asked as %q", got)
	}
	if got := answer(t, free[3], "a.example", "/own"); got != "news demanded.example" {
		t.Errorf("what a route demands becomes %q", got)
	}
	got := map[string]bool{}
	for range 64 { // that one of two gets none of these happens once in 2^63 runs
		got[answer(t, free[1], "a.example", "/")] = true
	}
	if len(got) != 2 || !got["backend a.example"] || !got["maps localhost"] {
		t.Errorf("the two of a split are asked as %v", got)
	}
}

package agent

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/xds/scraping"
)

// TestPage: the agent of a sidecar shows what its Envoy and its applications count at a socket that
// nobody else can connect to, and asks no application that is not of its machine.
func TestPage(t *testing.T) {
	dir := shortTemp(t)
	envoy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "# TYPE envoy_asked gauge\nenvoy_asked{path=\""+r.URL.String()+"\"} 1\n")
	})}
	lis, err := net.Listen("unix", filepath.Join(dir, "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = envoy.Serve(lis) }()
	defer func() { _ = envoy.Close() }()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "app 1\n") }))
	defer app.Close()
	a := &Agent{
		Options: Options{Sidecar: &Sidecar{Mesh: "default"}, Log: slog.New(slog.DiscardHandler)},
		dir:     &runDir{metrics: filepath.Join(dir, metricsSocket)}, Envoy: &Process{Admin: NewAdmin(filepath.Join(dir, "admin.sock"))},
	}
	a.newPage()
	a.showing(&scraping.Settings{UsedOnly: true, Applications: []scraping.Application{
		{Name: "app", At: netip.MustParseAddrPort(app.Listener.Addr().String()), Path: "/"}, {Name: "far", At: netip.MustParseAddrPort("192.0.2.1:80"), Path: "/"},
	}})
	ctx, stop := context.WithCancel(t.Context())
	serve, err := a.openPage(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx) }()
	if info, err := os.Stat(a.dir.metrics); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	text, err := NewAdmin(a.dir.metrics).Do(ctx, http.MethodGet, "/metrics")
	for _, want := range []string{`envoy_asked{path="/stats/prometheus?usedonly="} 1`, "\napp 1\n", `meshgate_scrape_up{application="far"} 0`} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%q is missing: %v\n%s", want, err, text)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNoPageOfGateways: a gateway has its metrics at its status port, and no socket of this sort.
func TestNoPageOfGateways(t *testing.T) {
	a := &Agent{dir: &runDir{metrics: "/nowhere"}}
	a.newPage()
	a.showing(&scraping.Settings{})
	serve, err := a.openPage(t.Context())
	if err != nil || serve(t.Context()) != nil {
		t.Error(err)
	}
}

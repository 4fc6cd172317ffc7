package relay_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/meshgate/meshgate/e2e/ports"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
)

// bootstrap is the minimal configuration of an Envoy that takes everything from the relay.
const bootstrap = `
node: {id: %s, cluster: test}
admin: {address: {pipe: {path: %s, mode: 384}}}
dynamic_resources:
  ads_config: {api_type: DELTA_GRPC, transport_api_version: V3, set_node_on_first_message_only: true, grpc_services: [{initial_metadata: [{key: authorization, value: "Bearer ` + password + `"}], envoy_grpc: {cluster_name: relay, retry_policy: {retry_back_off: {base_interval: 0.1s, max_interval: 1s}}}}]}
  cds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 15s}
  lds_config: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 15s}
static_resources:
  clusters:
  - name: relay
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: relay, endpoints: [{lb_endpoints: [{endpoint: {address: {%s}}}]}]}
`

func envoyPath(t *testing.T) string {
	t.Helper()
	if p := os.Getenv("ENVOY_PATH"); p != "" {
		return p
	}
	p, err := filepath.Abs("../../.tools/envoy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p); err != nil {
		t.Fatalf("no Envoy: set ENVOY_PATH or run make build (%v)", err)
	}
	return p
}

// startEnvoy runs an Envoy on the relay's socket. The returned function ends it.
func startEnvoy(t *testing.T, dir string) func() {
	t.Helper()
	return startEnvoyOn(t, dir, fmt.Sprintf("pipe: {path: %s}", filepath.Join(dir, "run", "xds.sock")))
}

// startEnvoyOn runs an Envoy that takes everything from an address.
func startEnvoyOn(t *testing.T, dir, address string) func() {
	t.Helper()
	return startEnvoyWith(t, dir, fmt.Sprintf(bootstrap, node, filepath.Join(dir, "admin.sock"), address))
}

// startEnvoyWith runs an Envoy with a bootstrap.
func startEnvoyWith(t *testing.T, dir, text string) func() {
	t.Helper()
	file := filepath.Join(dir, "envoy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(envoyPath(t), "-c", file, "--disable-hot-restart", "--concurrency", "1", "-l", "warning")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	stop := func() {
		if ended {
			return
		}
		ended = true
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
		_ = os.Remove(filepath.Join(dir, "admin.sock"))
		if t.Failed() {
			t.Logf("envoy: %s", out.String())
		}
	}
	t.Cleanup(stop)
	return stop
}

// address is one on which a control plane can begin once more after it has ended: nobody gets its port meanwhile, as
// somebody may get a port that the system has chosen.
func address(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", freePort(t))
}

func freePort(t *testing.T) int {
	t.Helper()
	free, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	return free[0]
}

// backend serves its name and returns its port.
func backend(t *testing.T, name string) int {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func get(client *http.Client, port int) (string, error) {
	status, body, err := read(client, fmt.Sprintf("http://127.0.0.1:%d/", port))
	return fmt.Sprintf("%d %s", status, body), err
}

func read(client *http.Client, url string) (status int, body string, err error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	return resp.StatusCode, string(raw), err
}

// over dials a Unix socket, whatever the address.
func over(path string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
}

func TestRealEnvoy(t *testing.T) {
	dir, err := os.MkdirTemp("", "relay") // short enough for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	port, one, two := freePort(t), backend(t, "one"), backend(t, "two")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	in := xdstest.Listener("in", port, "r")

	p := startPlane(t, "127.0.0.1:0")
	rev := p.publish(xdstest.Cluster("one", s), xdstest.Endpoints("one", one), in, xdstest.Routes("r", "one", 0))
	_, stopRelay := startRelay(t, dir, p.addr)
	stopEnvoy := startEnvoy(t, dir)
	p.settle(t, rev)
	untilAnswer(t, client, dir, port, "200 one") // workers accept on a new listener a moment after its routes arrive

	// A cluster is renamed under load, several times. No request fails.
	failures := load(t, port, func() {
		for i := range 40 {
			name, to := fmt.Sprintf("c%d", i%3), []int{one, two}[i%2]
			p.settle(t, p.publish(xdstest.Cluster(name, s), xdstest.Endpoints(name, to), in, xdstest.Routes("r", name, 0)))
		}
		p.settle(t, p.publish(xdstest.Cluster("three", s), xdstest.Endpoints("three", two), in, xdstest.Routes("r", "three", 0)))
		// The same cluster with other bytes warms and takes over.
		p.settle(t, p.publish(xdstest.Cluster("three", 2*s), xdstest.Endpoints("three", two), in, xdstest.Routes("r", "three", 0)))
	})
	if len(failures) > 0 {
		t.Fatalf("%d requests failed, first: %s", len(failures), failures[0])
	}
	expectAnswer(t, client, port, "200 two")

	// A listener that cannot bind is refused upstream with Envoy's reason.
	got := p.settle(t, p.publish(xdstest.Cluster("three", 2*s), xdstest.Endpoints("three", two), in,
		xdstest.Listener("bad", port, "r"), xdstest.Routes("r", "three", 0)))
	if len(got.Rejected) != 1 || got.Rejected[0].Type != resource.Listener || got.Rejected[0].Error == "" {
		t.Fatalf("progress %+v", got)
	}
	got = p.settle(t, p.publish(xdstest.Cluster("three", 2*s), xdstest.Endpoints("three", two), in, xdstest.Routes("r", "", 418)))
	if len(got.Rejected) != 0 {
		t.Fatalf("progress %+v", got)
	}
	expectAnswer(t, client, port, "418 ")

	// The control plane is gone. A restarted agent and a restarted Envoy are live.
	p.kill()
	client.CloseIdleConnections()
	stopEnvoy()
	stopRelay()
	second, _ := startRelay(t, dir, p.addr)
	startEnvoy(t, dir)
	untilAnswer(t, client, dir, port, "418 ")
	// Envoy is live because of what the relay has. An Envoy that had got no answer would be
	// empty, and its port closed.
	if st := second.Status(); st.Connected || !st.Ready {
		t.Fatalf("the relay is %+v", st)
	}
}

func expectAnswer(t *testing.T, client *http.Client, port int, want string) {
	t.Helper()
	if got, err := get(client, port); err != nil || got != want {
		t.Fatalf("answer %q, %v; want %q", got, err, want)
	}
}

// untilAnswer retries at short intervals until the new Envoy answers as expected.
func untilAnswer(t *testing.T, client *http.Client, dir string, port int, want string) {
	t.Helper()
	brief := *client
	brief.Timeout = attempt
	untilTrue(t, fmt.Sprintf("answer %q (%s)", want, dir), func() bool {
		got, err := get(&brief, port)
		return err == nil && got == want
	})
}

// attempt bounds one of several attempts.
const attempt = 3 * time.Second

// untilTrue checks a condition at short intervals, because an Envoy does not signal that it is
// ready.
func untilTrue(t *testing.T, what string, cond func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	beat := time.NewTicker(10 * time.Millisecond)
	defer beat.Stop()
	for !cond() {
		select {
		case <-beat.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}

// load sends requests on four connections while work runs.
func load(t *testing.T, port int, work func()) []string {
	t.Helper()
	var (
		mu       sync.Mutex
		failures []string
		wg       sync.WaitGroup
		total    int
	)
	ctx, cancel := context.WithCancel(context.Background())
	warm := make(chan struct{}, 4)
	for range 4 {
		wg.Go(func() {
			client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
			defer client.CloseIdleConnections()
			for i := 0; ctx.Err() == nil; i++ {
				got, err := get(client, port)
				mu.Lock()
				total++
				if err != nil || len(got) < 3 || got[:3] != "200" {
					failures = append(failures, fmt.Sprintf("%q %v", got, err))
				}
				mu.Unlock()
				if i == 20 {
					warm <- struct{}{}
				}
			}
		})
	}
	for range 4 {
		<-warm
	}
	work()
	cancel()
	wg.Wait()
	t.Logf("%d requests", total)
	return failures
}

package module

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/filtertest"
)

// Ids of the chain in envoy.yaml.
const (
	serviceID = "0b9d7c4e-2f4b-4d0a-9a52-8f0a6f1f3c11"
	pluginID  = "2c1f8e7a-5b6d-4c3e-8f90-a1b2c3d4e5f6"
	goodToken = "good-token"
)

// object is a piece of Envoy's configuration.
type object = map[string]any

// world is one Envoy with its Redis and its upstream.
type world struct {
	base   string // of the gateway's URL
	admin  string
	envoy  *process
	redis  *process
	db     *redis.Client
	client *http.Client
	lib    string
	plane  *plane // nil without one
}

// options of a world.
type options struct {
	lib         string // directory of the library; plainDir if empty
	env         []string
	edit        func(config object)
	concurrency int
	oauth       http.Handler // OAuth server; none if nil
	args        []string     // of Envoy
	stderr      *os.File     // of Envoy; read by the test if nil
	faultless   bool         // the library could be told to fail, and is not
	authz       bool         // ask an authorization service, in the place of the library
	away        bool         // whose Redis does not answer
	linked      bool         // ask a control plane in the place of Redis
}

// echoed is what the upstream saw.
type echoed struct {
	Path    string
	URI     string
	Headers http.Header
	Trailer http.Header
	Body    int64
	Sum     string
	Text    string
}

// echoAs answers with what it got and the name of who got it.
func echoAs(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		var text strings.Builder
		n, err := io.Copy(io.MultiWriter(h, &text), r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		seen, err := json.Marshal(echoed{
			Path: r.URL.Path, URI: r.RequestURI, Headers: r.Header, Trailer: r.Trailer, Body: n, Sum: hex.EncodeToString(h.Sum(nil)), Text: text.String(),
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if r.Header.Get("Upgrade") != "" {
			upgrade(w, name, seen)
			return
		}
		w.Header().Set("x-upstream", name)
		_, _ = w.Write(seen) // the client sees a broken answer
	}
}

// upgrade completes an opening handshake, with the echo in a header, and ends the
// connection.
func upgrade(w http.ResponseWriter, name string, seen []byte) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Upstream: %s\r\nX-Echo: %s\r\n\r\n", name, seen)
	_ = conn.Close() // the client sees a broken answer
}

// newWorld starts everything and puts one good token into Redis.
func newWorld(t *testing.T, o options) *world {
	t.Helper()
	up := server(t, echoAs("echo"))
	w := &world{lib: filepath.Join(plainDir, "libmeshgate.so")}
	if o.lib != "" {
		w.lib = filepath.Join(o.lib, "libmeshgate.so")
	}
	redisPort, port, adminPort := freePort(t), freePort(t), freePort(t)
	w.redis = start(t, "Ready to accept connections", exec.Command("redis-server", "--port", strconv.Itoa(redisPort),
		"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()))
	w.db = redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", redisPort)})
	t.Cleanup(func() { closing(t, w.db) })

	ports := map[string]int{"6379": redisPort, "8000": port, "9901": adminPort, "8080": portOf(up)}
	file := "envoy.yaml"
	if o.authz {
		file = authzExample
	}
	if o.away {
		redisPort = freePort(t)
	}
	config := shipped(t, file, ports)
	if o.authz {
		at(config, "static_resources", "clusters", 0, "load_assignment", "endpoints", 0, "lb_endpoints", 0, "endpoint", "address", "pipe").(object)["path"] = startAuthz(t, redisPort)
	}
	if o.oauth != nil && !o.authz {
		exampleChain(config)["issues"] = true
	}
	if o.oauth != nil {
		addOAuth(config, portOf(server(t, o.oauth)))
	}
	if o.oauth != nil && o.authz {
		at(manager(config), "http_filters", 1, "typed_config").(object)["clear_route_cache"] = true
	}
	if o.linked {
		w.plane = startPlane(t)
		filterConfig(config)["settings"] = w.plane.settings
	}
	if o.edit != nil {
		o.edit(config)
	}
	w.base, w.admin = fmt.Sprintf("http://127.0.0.1:%d", port), fmt.Sprintf("http://127.0.0.1:%d", adminPort)
	w.startEnvoy(t, config, o)
	w.client = newClient(t, new(http.Transport))
	w.put(t, goodToken, record())
	return w
}

func (w *world) startEnvoy(t *testing.T, config object, o options) {
	t.Helper()
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "envoy.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(envoyPath, "-c", file, "--disable-hot-restart", "--concurrency", strconv.Itoa(max(o.concurrency, 1)),
		"-l", "warning", "--component-log-level", "main:info,dynamic_modules:debug")
	cmd.Args = append(cmd.Args, o.args...)
	if o.stderr != nil {
		cmd.Stderr = o.stderr
		cmd.Args = append(cmd.Args, "--log-path", "/dev/stdout", "--file-flush-interval-msec", "20")
	}
	cmd.Env = append(append(os.Environ(), "ENVOY_DYNAMIC_MODULES_SEARCH_PATH="+filepath.Dir(w.lib)), o.env...)
	w.envoy = start(t, "starting main dispatch loop", cmd)
	w.envoy.mayPanic = o.lib == faultDir && !o.faultless
}

// shipped reads a configuration of Envoy and moves its ports.
func shipped(t *testing.T, file string, ports map[string]int) object {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "0.0.0.0", "127.0.0.1")
	for from, to := range ports {
		text = strings.ReplaceAll(text, "port_value: "+from, "port_value: "+strconv.Itoa(to))
		text = strings.ReplaceAll(text, "127.0.0.1:"+from, "127.0.0.1:"+strconv.Itoa(to))
	}
	var config object
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// at walks down a configuration: strings are keys, ints are indexes.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(object)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

func manager(config object) object {
	return at(config, "static_resources", "listeners", 0, "filter_chains", 0, "filters", 0, "typed_config").(object)
}

func virtualHost(config object) object {
	return at(manager(config), "route_config", "virtual_hosts", 0).(object)
}

func filterConfig(config object) object {
	return at(manager(config), "http_filters", 0, "typed_config", "filter_config", "value").(object)
}

// exampleChain is the chain of the one protected route.
func exampleChain(config object) object {
	routes := virtualHost(config)["routes"].([]any)
	return at(routes[len(routes)-1], "typed_per_filter_config", contract.FilterName, "filter_config", "value").(object)
}

// addRoute puts a route before all others.
func addRoute(config object, route object) {
	vh := virtualHost(config)
	vh["routes"] = append([]any{route}, vh["routes"].([]any)...)
}

// chained is the per-route configuration with the given bytes as its chain.
func chained(chain string) object {
	return object{contract.FilterName: object{
		"@type":                 "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilterPerRoute",
		"dynamic_module_config": object{"name": "meshgate", "do_not_close": true},
		"filter_name":           contract.FilterName,
		"filter_config":         object{"@type": "type.googleapis.com/google.protobuf.StringValue", "value": chain},
	}}
}

func addOAuth(config object, port int) {
	addRoute(config, object{
		"match": object{"prefix": "/", "headers": []any{object{"name": contract.HeaderOAuthPlugin, "present_match": true}}},
		"route": object{"cluster": contract.OAuthCluster},
	})
	resources := config["static_resources"].(object)
	resources["clusters"] = append(resources["clusters"].([]any), object{
		"name": contract.OAuthCluster, "connect_timeout": "2s",
		"load_assignment": object{"cluster_name": contract.OAuthCluster, "endpoints": []any{object{"lb_endpoints": []any{object{
			"endpoint": object{"address": object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}}}}}}},
	})
}

func server(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func portOf(s *httptest.Server) int {
	port, _ := strconv.Atoi(s.URL[strings.LastIndexByte(s.URL, ':')+1:])
	return port
}

func newClient(t *testing.T, tr *http.Transport) *http.Client {
	t.Helper()
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience}
}

func closing(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func record() *contract.Record {
	return &contract.Record{
		Version: contract.RecordVersion, Revision: 1, Service: serviceID,
		Credential: contract.Credential{ID: "credential-1", ClientID: "client-1"},
		Consumer:   &contract.Consumer{ID: "consumer-1", Username: "alice", CustomID: "customer-42"},
		Scope:      "email profile", UserID: "user-1",
	}
}

func (w *world) put(t *testing.T, token string, r *contract.Record) {
	t.Helper()
	data, err := r.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	presented := filtertest.Token{Value: token, Record: *r}
	if w.plane != nil {
		w.plane.put(&presented)
		return
	}
	if err := w.db.Set(t.Context(), contract.RedisRecordKey("", presented.Hash()), data, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

// request makes a request to the gateway; header is pairs of name and value.
func (w *world) request(ctx context.Context, t *testing.T, method, path string, body io.Reader, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, w.base+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// answer is a response that has been read.
type answer struct {
	status  int
	header  http.Header
	trailer http.Header
	body    string
}

func (w *world) do(t *testing.T, r *http.Request) answer {
	t.Helper()
	resp, err := w.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return readAnswer(t, resp)
}

// readAnswer reads a response; nil is one that did not come.
func readAnswer(t *testing.T, resp *http.Response) answer {
	t.Helper()
	if resp == nil {
		t.Fatal("no answer")
	}
	defer closing(t, resp.Body)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, resp.Trailer, string(body)}
}

func (w *world) get(t *testing.T, path string, header ...string) answer {
	t.Helper()
	return w.do(t, w.request(t.Context(), t, http.MethodGet, path, nil, header...))
}

// seen decodes what the upstream saw.
func (a answer) seen(t *testing.T) echoed {
	t.Helper()
	if a.status == http.StatusSwitchingProtocols {
		a.status, a.body = http.StatusOK, a.header.Get("X-Echo")
	}
	if a.status != http.StatusOK {
		t.Fatalf("status %d: %s", a.status, a.body)
	}
	var e echoed
	if err := json.Unmarshal([]byte(a.body), &e); err != nil {
		t.Fatalf("not an echo: %v: %s", err, a.body)
	}
	return e
}

// stat returns one of Envoy's statistics.
func (w *world) stat(t *testing.T, name string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.admin+"/stats?filter=^"+name+"$", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(strings.TrimSpace(w.do(t, r).body), ": ")
	n, err := strconv.Atoi(value)
	if err != nil {
		return -1
	}
	return n
}

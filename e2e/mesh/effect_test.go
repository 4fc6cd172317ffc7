package mesh_test

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// roundsVariable is how often each change is made, for the figures of docs/performance.md.
const roundsVariable = "MESHGATE_E2E_EFFECT_ROUNDS"

// effect is one kind of change between two states that a caller can tell apart. Each change
// leads to the other state, so that no round finds what the round before left.
type effect struct {
	what string
	// change writes the state n, which is 0 or 1.
	change func(n int)
	// seen reports whether one more request is answered as in the state n.
	seen func(n int) bool
	// at returns when the first request was sent that shows the state. It is nil if seen
	// returns true for that request.
	at func() time.Time
	// after removes what would disturb the next effect; it may be nil.
	after func()
}

// effects is a mesh on which changes are timed.
type effects struct {
	*world
	web *member
	one *member // an endpoint of backend with the version v1; another one has v2
	dir string  // of access logs
	// tried counts the requests to the service fails, checked the last path of a health check.
	tried   atomic.Int64
	checked atomic.Value
	far     [2]string // addresses outside the mesh
	plugin  string
}

// From before a change is sent to the API until the first request that is answered by it.
// Requests follow each other without a pause.
var _ = Describe("time to effect", Ordered, func() {
	e := &effects{}
	table := &strings.Builder{}

	BeforeAll(func() {
		e.start()
		fmt.Fprintf(table, "\n| what changes | median ms | 95 %% within | slowest |\n|---|---|---|---|\n")
	})
	AfterAll(func() {
		AddReportEntry("time to effect", table.String(), ReportEntryVisibilityNever)
		if os.Getenv(roundsVariable) != "" {
			fmt.Println(table)
		}
	})

	for _, group := range []struct {
		name string
		of   func(*effects) []effect
	}{
		{"of what decides who may call", (*effects).permissions},
		{"of what decides where requests go", (*effects).routing},
		{"of what requests meet", (*effects).behaviour},
		{"of what is told about requests", (*effects).observation},
	} {
		It(group.name, func() {
			for _, x := range group.of(e) {
				fmt.Fprintln(table, x.timed(rounds()))
			}
		})
	}
})

// rounds is how often each change is made. It is even, so that effects end in the state 0.
func rounds() int {
	n, err := strconv.Atoi(os.Getenv(roundsVariable))
	if err != nil || n < 2 {
		return 2
	}
	return n + n%2
}

// seenBy makes an effect that is seen by the request that is answered.
func seenBy(what string, change func(n int), seen func(n int) bool, after func()) effect {
	return effect{what: what, change: change, seen: seen, after: after}
}

// sent says when the first request was sent that shows the state, if that is not the last one.
func (x effect) sent(at func() time.Time) effect {
	x.at = at
	return x
}

// timed makes a change back and forth and returns its line of the table. The first change is
// not counted: it creates what the others change.
func (x effect) timed(rounds int) string {
	GinkgoHelper()
	var took []time.Duration
	for i := range rounds + 1 {
		n, since := i%2, time.Now()
		x.change(n)
		for !x.seen(n) {
			if time.Since(since) > patience {
				Fail(fmt.Sprintf("%s: state %d is not seen after %s", x.what, n, patience))
			}
		}
		until := time.Now()
		if x.at != nil {
			until = x.at()
		}
		if i > 0 {
			took = append(took, until.Sub(since))
		}
	}
	if x.after != nil {
		x.after()
	}
	slices.Sort(took)
	at := func(part float64) string {
		i := max(0, int(math.Ceil(part*float64(len(took))))-1)
		return fmt.Sprintf("%.1f", float64(took[i].Microseconds())/1000)
	}
	return fmt.Sprintf("| %s | %s | %s | %s |", x.what, at(0.5), at(0.95), at(1))
}

// start starts the mesh: a proxy web with all callers, and the services that it calls.
func (e *effects) start() {
	e.dir = GinkgoT().TempDir()
	cp := framework.NewControlPlane("standalone")
	if envoy := otherEnvoy(); envoy != "" {
		cp.Args = append(cp.Args, "--envoy-path", envoy)
	}
	e.world = adopt(cp.Start(), "STRICT")
	e.plugin = framework.NewFixture(cp).Plugin
	e.configure("STRICT")
	e.Delete(shop, "retries", "retry-all-"+shop)
	fails := serveAt("127.0.0.1", func(rw http.ResponseWriter, _ *http.Request) {
		e.tried.Add(1)
		rw.WriteHeader(http.StatusServiceUnavailable)
	})
	watched := serveAt("127.0.0.1", func(_ http.ResponseWriter, r *http.Request) { e.checked.Store(r.URL.Path) })
	for n := range e.far {
		s := serveAt(outward(), func(rw http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(rw, n) })
		e.far[n] = s.Listener.Addr().String()
	}
	e.external(0)
	e.one = e.world.start("backend-1", tags{service: "backend", "version": "v1"})
	members := []*member{
		e.one, e.world.start("backend-2", tags{service: "backend", "version": "v2"}),
		e.join(e.around("fails-1", nil, portOf(fails), tags{service: "fails", protocol: "http"})),
		e.join(e.around("watched-1", nil, portOf(watched), tags{service: "watched", protocol: "http"})),
	}
	e.web = e.describe("web-1", tags{service: "web"}, "backend", "fails", "watched", "far")
	e.Put("dataplanes", e.web.doc)
	e.web.Sidecar = framework.NewSidecar(e.cp, shop, "web-1", "", "--access-log-dir", e.dir).Start()
	e.ready(append(members, e.web)...)
	answers(e.web.to("backend"), 200)
}

// serveAt starts a server at an address of this machine.
func serveAt(host string, h http.HandlerFunc) *httptest.Server {
	ln, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	Expect(err).NotTo(HaveOccurred())
	s := &httptest.Server{Listener: ln, Config: &http.Server{Handler: h, ReadHeaderTimeout: patience}}
	s.Start()
	DeferCleanup(func() { framework.EndServer(s) })
	return s
}

func portOf(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }

// configure writes the mesh with all backends that the effects use.
func (e *effects) configure(mode string) {
	e.Put("meshes", framework.Document{
		"type": "Mesh", "name": shop,
		"mtls":    map[string]any{"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin", "mode": mode}}},
		"logging": map[string]any{"backends": []any{toFile("log-0", "log-0", logFormat), toFile("log-1", "log-1", logFormat)}},
		"tracing": map[string]any{"backends": []any{
			map[string]any{"name": "trace-0", "type": "zipkin", "sampling": 0, "conf": map[string]any{"url": "http://127.0.0.1:9/api/v2/spans"}},
			map[string]any{"name": "trace-1", "type": "zipkin", "sampling": 100, "conf": map[string]any{"url": "http://127.0.0.1:9/api/v2/spans"}},
		}},
	})
}

// external writes the service outside the mesh, with one of its two addresses.
func (e *effects) external(n int) {
	e.Put("external-services", framework.Document{
		"type": "ExternalService", "mesh": shop, "name": "far", "tags": tags{service: "far", protocol: "http"},
		"networking": map[string]any{"address": e.far[n]},
	})
}

// status is what a request to backend is answered with, in the states 0 and 1.
func (e *effects) status(zero, one int) func(int) bool {
	return func(n int) bool { return called(e.web.to("backend")) == []int{zero, one}[n] }
}

// between writes a policy from web to a service.
func (e *effects) between(kind, path, to string, conf any) {
	e.Put(path, policy(kind, "effect", tags{service: "web"}, tags{service: to}, conf))
}

// without returns what deletes a policy.
func (e *effects) without(path string) func() {
	return func() {
		e.Delete(shop, path, "effect")
		e.Converged()
	}
}

func (e *effects) permissions() []effect {
	allowed := func(n int) string { return []string{"nobody", "web"}[n] }
	return []effect{
		seenBy("Mesh: PERMISSIVE and STRICT, new connections", func(n int) { e.configure([]string{"STRICT", "PERMISSIVE"}[n]) }, func(n int) bool {
			return called("http://"+e.one.inbound()) == []int{0, 200}[n]
		}, func() { e.configure("STRICT"); e.Converged() }),
		seenBy("TrafficPermission", func(n int) {
			e.Put("traffic-permissions", policy("TrafficPermission", allowAll, tags{service: allowed(n)}, tags{service: "*"}, nil))
		}, e.status(403, 200), func() {
			e.Put("traffic-permissions", policy("TrafficPermission", allowAll, tags{service: "*"}, tags{service: "*"}, nil))
			e.Converged()
		}),
		seenBy("MeshTrafficPermission", func(n int) {
			e.Put("meshtrafficpermissions", aimed("MeshTrafficPermission", "effect", ref("backend", nil), item(ref("", nil), map[string]any{"action": []string{"Deny", "Allow"}[n]})))
		}, e.status(403, 200), e.without("meshtrafficpermissions")),
		seenBy("MeshTokenAuth, written and deleted", func(n int) {
			if n == 1 {
				e.Delete(shop, "meshtokenauths", "effect")
				return
			}
			e.Put("meshtokenauths", aimed("MeshTokenAuth", "effect", ref("backend", nil), item(ref("", nil), map[string]any{"plugin": map[string]any{"controlPlane": "default", "id": e.plugin}})))
		}, e.status(401, 200), e.without("meshtokenauths")),
	}
}

func (e *effects) routing() []effect {
	version := func(n int) string { return []string{"v1", "v2"}[n] }
	to := func(of tags) {
		e.between("TrafficRoute", "traffic-routes", "backend", map[string]any{"destination": of})
	}
	return []effect{
		seenBy("TrafficRoute: the destination", func(n int) { to(tags{service: "backend", "version": version(n)}) }, func(n int) bool {
			r, err := get(e.web.to("backend"))
			return err == nil && r.Status == 200 && r.Received().Name == []string{"backend-1", "backend-2"}[n]
		}, func() { to(tags{service: "backend", "version": "v3"}) }),
		seenBy("Dataplane: a tag of an endpoint", func(n int) {
			e.one.doc["networking"].(map[string]any)["inbound"].([]any)[0].(map[string]any)["tags"].(tags)["version"] = []string{"v1", "v3"}[n]
			e.Put("dataplanes", e.one.doc)
		}, e.status(503, 200), e.without("traffic-routes")),
		seenBy("ExternalService: its address", e.external, func(n int) bool {
			r, err := get(e.web.to("far"))
			return err == nil && r.Body == strconv.Itoa(n)
		}, nil),
		seenBy("HealthCheck: a check arrives at the new path", func(n int) {
			e.between("HealthCheck", "health-checks", "watched", map[string]any{
				"interval": "10s", "timeout": "2s", "unhealthyThreshold": 1, "healthyThreshold": 1, "http": map[string]any{"path": fmt.Sprint("/check-", n)},
			})
		}, func(n int) bool { return e.checked.Load() == fmt.Sprint("/check-", n) }, e.without("health-checks")),
	}
}

func (e *effects) behaviour() []effect {
	slow := func() {
		e.Put("fault-injections", policy("FaultInjection", "slow", tags{service: "web"}, tags{service: "backend", protocol: "http"},
			map[string]any{"delay": map[string]any{"percentage": 100, "value": "10ms"}}))
	}
	return []effect{
		seenBy("FaultInjection", func(n int) {
			e.Put("fault-injections", policy("FaultInjection", "effect", tags{service: "web"}, tags{service: "backend", protocol: "http"},
				map[string]any{"abort": map[string]any{"percentage": 100, "httpStatus": 501 + n}}))
		}, e.status(501, 502), e.without("fault-injections")),
		seenBy("RateLimit", func(n int) { e.between("RateLimit", "rate-limits", "backend", limit(1, 423+n)) }, e.status(423, 424), func() {
			e.without("rate-limits")()
			slow()
			e.Converged()
		}),
		seenBy("Timeout, beside a delay of 10 ms", func(n int) {
			e.between("Timeout", "timeouts", "backend", map[string]any{"http": map[string]any{"requestTimeout": []string{"1h", "1ms"}[n]}})
		}, e.status(200, 504), e.without("timeouts")),
		seenBy("CircuitBreaker, by two requests at once", func(n int) {
			e.between("CircuitBreaker", "circuit-breakers", "backend", map[string]any{"thresholds": map[string]any{"maxRequests": []int{1000, 1}[n]}})
		}, func(n int) bool { return slices.Contains(e.atOnce(2), 503) == (n == 1) }, func() {
			e.without("circuit-breakers")()
			e.Delete(shop, "fault-injections", "slow")
		}),
		seenBy("Retry: the number of tries", func(n int) {
			e.between("Retry", "retries", "fails", map[string]any{"http": map[string]any{"numRetries": 1 + n, "backOff": map[string]any{"baseInterval": "1ms", "maxInterval": "1ms"}}})
		}, func(n int) bool {
			before := e.tried.Load()
			called(e.web.to("fails"))
			return int(e.tried.Load()-before) == 2+n
		}, e.without("retries")),
		seenBy("ProxyTemplate: a header", func(n int) {
			e.Put("proxytemplates", framework.Document{"type": "ProxyTemplate", "mesh": shop, "name": "effect", "selectors": []any{map[string]any{"match": tags{service: "web"}}}, "conf": map[string]any{
				"imports": []any{"default-proxy"}, "modifications": []any{map[string]any{"virtualHost": map[string]any{
					"operation": "patch", "match": map[string]any{"origin": "outbound"}, "value": fmt.Sprintf("request_headers_to_add: [{header: {key: x-state, value: s%d}}]", n),
				}}},
			}})
		}, func(n int) bool { return e.header("X-State") == fmt.Sprint("s", n) }, e.without("proxytemplates")),
	}
}

func (e *effects) observation() []effect {
	log, mesh := &lines{effects: e, name: "log"}, &lines{effects: e, name: "mesh"}
	return []effect{
		seenBy("TrafficLog: a request is in another file", func(n int) {
			log.begin()
			e.between("TrafficLog", "traffic-logs", "backend", map[string]any{"backend": fmt.Sprint("log-", n)})
		}, log.seen, e.without("traffic-logs")).sent(log.at),
		seenBy("MeshAccessLog: a request is in another file", func(n int) {
			mesh.begin()
			file := map[string]any{"type": "File", "file": map[string]any{"path": fmt.Sprint("mesh-", n), "format": map[string]any{"type": "Plain", "plain": logFormat}}}
			e.Put("meshaccesslogs", framework.Document{"type": "MeshAccessLog", "mesh": shop, "name": "effect", "spec": map[string]any{
				"targetRef": ref("web", nil), "to": []any{item(ref("backend", nil), map[string]any{"backends": []any{file}})},
			}})
		}, mesh.seen, e.without("meshaccesslogs")).sent(mesh.at),
		seenBy("TrafficTrace: another backend", func(n int) {
			e.Put("traffic-traces", framework.Document{
				"type": "TrafficTrace", "mesh": shop, "name": "effect", "selectors": []any{map[string]any{"match": tags{service: "*"}}}, "conf": map[string]any{"backend": fmt.Sprint("trace-", n)},
			})
		}, func(n int) bool { return e.header("X-B3-Sampled") == []string{"", "1"}[n] }, e.without("traffic-traces")),
		seenBy("MeshTrace: the share of requests", func(n int) {
			e.Put("meshtraces", framework.Document{"type": "MeshTrace", "mesh": shop, "name": "effect", "spec": map[string]any{"targetRef": ref("", nil), "default": map[string]any{
				"backends": []any{map[string]any{"type": "Zipkin", "zipkin": map[string]any{"url": "http://127.0.0.1:9/api/v2/spans"}}},
				"sampling": map[string]any{"random": 100 * n},
			}}})
		}, func(n int) bool { return e.header("X-B3-Sampled") == strconv.Itoa(n) }, e.without("meshtraces")),
	}
}

// header is a header of a request as its workload receives it.
func (e *effects) header(name string) string {
	r, err := get(e.web.to("backend"))
	if err != nil || r.Status != http.StatusOK {
		return "no answer"
	}
	return r.Received().Headers.Get(name)
}

// logFormat is a line with the path of its request.
const logFormat = "%REQ(:PATH)%"

// lines are two access logs. Envoys send lines once a second, so lines count by when their
// requests were sent, which their paths say.
type lines struct {
	*effects
	name         string
	since, first time.Time
}

// begin forgets what was logged so far.
func (l *lines) begin() { l.since = time.Now() }

func (l *lines) at() time.Time { return l.first }

func (l *lines) seen(n int) bool {
	_, _ = get(fmt.Sprint(l.web.to("backend"), "/", time.Now().UnixNano()))
	text, _ := os.ReadFile(filepath.Join(l.dir, fmt.Sprint(l.name, "-", n)))
	for line := range strings.Lines(string(text)) {
		nanos, err := strconv.ParseInt(strings.Trim(line, "/\n"), 10, 64)
		if sent := time.Unix(0, nanos); err == nil && sent.After(l.since) {
			l.first = sent
			return true
		}
	}
	return false
}

// atOnce sends requests at the same time and returns their statuses.
func (e *effects) atOnce(requests int) []int {
	statuses := make([]int, requests)
	var all sync.WaitGroup
	for i := range statuses {
		all.Go(func() { statuses[i] = called(e.web.to("backend")) })
	}
	all.Wait()
	return statuses
}

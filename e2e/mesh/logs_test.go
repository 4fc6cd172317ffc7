package mesh_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	logsv1 "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/grpc"

	"github.com/meshgate/meshgate/e2e/framework"
)

// logging gives the mesh logging backends, of which the first is the default.
func (w *world) logging(backends ...map[string]any) {
	var list []any
	for _, b := range backends {
		list = append(list, b)
	}
	w.Put("meshes", framework.Document{
		"type": "Mesh", "name": shop, "mtls": map[string]any{"enabledBackend": "ca-1", "backends": []any{map[string]any{"name": "ca-1", "type": "builtin"}}},
		"logging": map[string]any{"defaultBackend": backends[0]["name"], "backends": list},
	})
}

func toFile(name, path, format string) map[string]any {
	return map[string]any{"name": name, "type": "file", "format": format, "conf": map[string]any{"path": path}}
}

func toServer(name, address, format string) map[string]any {
	return map[string]any{"name": name, "type": "tcp", "format": format, "conf": map[string]any{"address": address}}
}

// everyPlaceholder has each placeholder of the mesh.
const everyPlaceholder = "%MESH_NAME% %MESH_SOURCE_SERVICE% %MESH_DESTINATION_SERVICE% %MESH_SOURCE_ADDRESS% %MESH_SOURCE_ADDRESS_WITHOUT_PORT% %MESH_TRAFFIC_DIRECTION%"

// sinkServer keeps the lines that it is sent.
type sinkServer struct {
	net.Listener
	mu    sync.Mutex
	lines []string
	conns []net.Conn
}

func startSink(address string) *sinkServer {
	GinkgoHelper()
	lis, err := net.Listen("tcp", address)
	Expect(err).NotTo(HaveOccurred())
	s := &sinkServer{Listener: lis}
	go func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			go func() {
				for in := bufio.NewScanner(c); in.Scan(); {
					s.mu.Lock()
					s.lines = append(s.lines, in.Text())
					s.mu.Unlock()
				}
			}()
		}
	}()
	DeferCleanup(s.stop)
	return s
}

// stop closes the server and its connections.
func (s *sinkServer) stop() {
	_ = s.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
}

func (s *sinkServer) all() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// records is a collector that keeps the attributes of what it is sent, as key=value.
type records struct {
	logsv1.UnimplementedLogsServiceServer
	address string
	mu      sync.Mutex
	said    []string
}

// Export implements the LogsService of OTLP.
func (r *records) Export(_ context.Context, in *logsv1.ExportLogsServiceRequest) (*logsv1.ExportLogsServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, of := range in.GetResourceLogs() {
		for _, scope := range of.GetScopeLogs() {
			for _, record := range scope.GetLogRecords() {
				for _, a := range record.GetAttributes() {
					r.said = append(r.said, a.GetKey()+"="+a.GetValue().GetStringValue())
				}
			}
		}
	}
	return &logsv1.ExportLogsServiceResponse{}, nil
}

func (r *records) all() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.said, " ")
}

func startRecords() *records {
	GinkgoHelper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	r, g := &records{address: lis.Addr().String()}, grpc.NewServer()
	logsv1.RegisterLogsServiceServer(g, r)
	go func() { _ = g.Serve(lis) }()
	DeferCleanup(g.Stop)
	return r
}

var _ = Describe("access logs", Ordered, func() {
	var (
		w                  *world
		web, server, plain *member
		dir, received      string
	)

	BeforeAll(func() {
		dir = GinkgoT().TempDir()
		w = newWorld("STRICT")
		received = GinkgoT().TempDir()
		server = w.join(w.describe("backend-1", tags{service: "backend"}), "--access-log-dir", received)
		plain = w.start("plain-1", tags{service: "plain", protocol: "tcp"})
		web = w.describe("web-1", tags{service: "web"}, "backend", "plain")
		w.Put("dataplanes", web.doc)
		web.Sidecar = framework.NewSidecar(w.cp, shop, "web-1", "", "--access-log-dir", dir).Start()
		w.ready(web, server, plain)
		answers(web.to("backend"), 200)
		w.Put("traffic-logs", policy("TrafficLog", "all", tags{service: "*"}, tags{service: "*"}, nil))
	})

	file := func(name string) func() string {
		return func() string {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return ""
			}
			return string(text)
		}
	}
	// logged asks until a log has what is wanted.
	logged := func(log func() string, service, path, want string) {
		GinkgoHelper()
		Eventually(func() string {
			_, _ = get(web.to(service) + path)
			return log()
		}, patience, 50*time.Millisecond).Should(ContainSubstring(want))
	}

	It("HTTP and TCP to a file, with every placeholder", func() {
		w.logging(toFile("f", filepath.Join(dir, "sub", "mesh.log"), `%REQ(:METHOD)% %PROTOCOL% %REQ(:PATH)% `+everyPlaceholder+` %%`))
		w.Converged()
		log := file("sub/mesh.log")
		logged(log, "backend", "/orders", "GET HTTP/1.1 /orders shop web backend 127.0.0.1:0 127.0.0.1 OUTBOUND %\n")
		logged(log, "plain", "/", "- - - shop web plain 127.0.0.1:0 127.0.0.1 OUTBOUND %\n")
		Expect(log()).NotTo(MatchRegexp(`MESH_`))
	})

	It("only the proxy of the caller logs", func() {
		w.logging(toFile("f", "sides.log", everyPlaceholder+" %REQ(:PATH)%"))
		w.Converged()
		logged(file("sides.log"), "backend", "/first", "OUTBOUND /first\n")
		Expect(file("sides.log")()).NotTo(ContainSubstring("INBOUND"))
		// When the other proxy writes what it is told to, it would have written these before.
		mark := filepath.Join(received, "mark.log")
		w.Put("meshaccesslogs", framework.Document{"type": "MeshAccessLog", "mesh": shop, "name": "mark", "spec": map[string]any{
			"targetRef": ref("backend", nil),
			"from": []any{item(ref("", nil), map[string]any{"backends": []any{
				map[string]any{"type": "File", "file": map[string]any{"path": "mark.log", "format": map[string]any{"type": "Plain", "plain": everyPlaceholder}}},
			}})},
		}})
		w.Converged()
		logged(func() string {
			text, _ := os.ReadFile(mark)
			return string(text)
		}, "backend", "/second", "INBOUND\n")
		Expect(filepath.Glob(filepath.Join(received, "*"))).To(Equal([]string{mark}))
		w.Delete(shop, "meshaccesslogs", "mark")
		w.Converged()
	})

	It("another format takes effect, and the default ones", func() {
		began := time.Now()
		w.logging(toFile("f", "own.log", "second %REQ(X-REQUEST-ID)%"))
		logged(file("own.log"), "backend", "/", "second ")
		AddReportEntry("a changed format took effect after", time.Since(began).Round(time.Millisecond).String(), ReportEntryVisibilityFailureOrVerbose)
		w.logging(toFile("f", "default.log", ""))
		w.Converged()
		logged(file("default.log"), "backend", "/a?b=c", `shop "GET /a?b=c HTTP/1.1" 200 - 0 `)
		Expect(file("default.log")()).To(MatchRegexp(`"web" "backend" "127\.0\.0\.1" "127\.0\.0\.1:\d+"\n`))
		logged(file("default.log"), "plain", "/", "- shop 127.0.0.1(web)->127.0.0.1:")
	})

	It("a value of a request stays within its line", func() {
		w.logging(toFile("f", "lines.log", `<%REQ(X-NAME)%>`))
		w.Converged()
		Eventually(func() string {
			client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
			_, _ = framework.Do(client, http.MethodGet, web.to("backend"), http.Header{"X-Name": {"a\tb\u0085c\u2028d"}}, "")
			return file("lines.log")()
		}, patience, 50*time.Millisecond).Should(ContainSubstring(`<a\tb\u0085c\u2028d>` + "\n"))
	})

	It("to a server, which goes away and comes back", func() {
		address := fmt.Sprintf("127.0.0.1:%d", framework.FreePorts(1)[0]) // nobody gets it while the server is away
		sink := startSink(address)
		w.logging(toServer("t", address, `%REQ(:PATH)% `+everyPlaceholder))
		w.Converged()
		logged(sink.all, "backend", "/first", "/first shop web backend 127.0.0.1:0 127.0.0.1 OUTBOUND")
		sink.stop()
		Eventually(func() string {
			_, _ = get(web.to("backend") + "/lost")
			return web.Output()
		}, patience, 50*time.Millisecond).Should(ContainSubstring("access logs cannot be written"))
		Expect(called(web.to("backend")+"/kept")).To(Equal(200), "requests do not wait for their log")
		again := startSink(address)
		Eventually(again.all, patience, 20*time.Millisecond).Should(ContainSubstring("/kept"))
		Eventually(web.Output, patience, 20*time.Millisecond).Should(ContainSubstring("access logs are written again"))
	})

	refusal := func(all map[string]node) bool {
		for _, c := range all[shop+".web-1"].Conditions {
			if c.Name == "access_logs" {
				return c.Reason == "sink_refused" && strings.Contains(c.Text, "not below a directory that the proxy's agent may write logs to")
			}
		}
		return false
	}

	It("a file outside the directories of the agent is refused, and its condition says so", func() {
		outside := filepath.Join(GinkgoT().TempDir(), "a.log")
		w.logging(toFile("f", outside, ""))
		w.Converged()
		w.nodes("the file is refused", func(all map[string]node) bool { return refusal(all) })
		Expect(called(web.to("backend"))).To(Equal(200))
		Expect(outside).NotTo(BeAnExistingFile())
		for _, refused := range []string{"/logs/../etc/passwd", "/logs/a.log.1", "/logs/a\nb"} {
			r := w.Mesh(http.MethodPut, "/meshes/"+shop, framework.Document{"type": "Mesh", "name": shop, "logging": map[string]any{"backends": []any{toFile("f", refused, "")}}})
			Expect(r.Status).To(Equal(http.StatusBadRequest), refused)
		}
		w.logging(toFile("f", "good.log", ""))
		w.Converged()
		logged(file("good.log"), "backend", "/", "GET")
		w.nodes("the condition is over", func(all map[string]node) bool { return !refusal(all) })
	})

	It("connections that leave the mesh are those of pass_through", func() {
		client := w.describe("client-1", tags{service: "client"})
		port := framework.FreePorts(1)[0]
		client.doc["networking"].(map[string]any)["transparentProxying"] = map[string]any{"redirectPortOutbound": port}
		w.Put("dataplanes", client.doc)
		client.Sidecar = framework.NewSidecar(w.cp, shop, "client-1", "", "--access-log-dir", dir).Start()
		w.logging(toFile("f", "passed.log", "%RESPONSE_FLAGS% "+everyPlaceholder))
		w.ready(client)
		Eventually(func() string {
			// Nobody redirected it, so it leads nowhere. It is logged all the same.
			if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
				_ = conn.Close()
			}
			return file("passed.log")()
		}, patience, 50*time.Millisecond).Should(ContainSubstring("shop client pass_through 127.0.0.1:0 127.0.0.1 OUTBOUND\n"))
	})

	It("a MeshAccessLog logs what is sent and what is received, as JSON and to a collector", func() {
		collector := startRecords()
		w.Put("meshaccesslogs", framework.Document{"type": "MeshAccessLog", "mesh": shop, "name": "both", "spec": map[string]any{
			"targetRef": map[string]any{"kind": "MeshService", "name": "web"},
			"to": []any{map[string]any{"targetRef": map[string]any{"kind": "MeshService", "name": "backend"}, "default": map[string]any{"backends": []any{
				map[string]any{"type": "File", "file": map[string]any{"path": "sent.log", "format": map[string]any{"type": "Json", "json": []any{
					map[string]any{"key": "method", "value": "%REQ(:METHOD)%"}, map[string]any{"key": "from", "value": "%MESH_SOURCE_SERVICE% at %MESH_SOURCE_ADDRESS%"},
				}}}},
				map[string]any{"type": "OpenTelemetry", "openTelemetry": map[string]any{
					"endpoint": collector.address, "attributes": []any{map[string]any{"key": "to", "value": "%MESH_DESTINATION_SERVICE%"}},
				}},
			}}}},
			"from": []any{map[string]any{"targetRef": map[string]any{"kind": "Mesh"}, "default": map[string]any{"backends": []any{
				map[string]any{"type": "File", "file": map[string]any{"path": "received.log", "format": map[string]any{"type": "Plain", "plain": everyPlaceholder + " %RESPONSE_CODE%"}}},
			}}}},
		}})
		w.Converged()
		logged(file("sent.log"), "backend", "/", `{"method":"GET","from":"web at 127.0.0.1:0"}`+"\n")
		Eventually(func() string { _, _ = get("http://" + web.inbound()); return file("received.log")() + collector.all() }, patience, 50*time.Millisecond).
			Should(ContainSubstring("to=backend"))
		w.secure("PERMISSIVE")
		Eventually(func() string { _, _ = get("http://" + web.inbound()); return file("received.log")() }, patience, 50*time.Millisecond).
			Should(MatchRegexp(`shop unknown web 127\.0\.0\.1:\d+ 127\.0\.0\.1 INBOUND \d+\n`))
		r := w.Mesh(http.MethodGet, "/meshes/"+shop+"/dataplanes/web-1/rules", nil)
		Expect(r.Body).To(And(ContainSubstring("destinationSubset"), ContainSubstring("clientSubset"), ContainSubstring("sent.log")))
		w.Delete(shop, "meshaccesslogs", "both")
	})

	It("a MeshAccessLog logs to a server that takes lines", func() {
		sink := startSink("127.0.0.1:0")
		to := func(format map[string]any) any {
			return map[string]any{"backends": []any{map[string]any{"type": "Tcp", "tcp": map[string]any{"address": sink.Addr().String(), "format": format}}}}
		}
		w.Put("meshaccesslogs", framework.Document{"type": "MeshAccessLog", "mesh": shop, "name": "lines", "spec": map[string]any{
			"targetRef": ref("web", nil),
			"to": []any{
				item(ref("backend", nil), to(map[string]any{"type": "Plain", "plain": "%REQ(:METHOD)% %REQ(:PATH)% " + everyPlaceholder + " %RESPONSE_CODE%"})),
				item(ref("plain", nil), to(map[string]any{"type": "Json", "json": []any{map[string]any{"key": "to", "value": "%MESH_DESTINATION_SERVICE%"}, map[string]any{"key": "path", "value": "%REQ(:PATH)%"}}})),
			},
		}})
		w.Converged()
		logged(sink.all, "backend", "/paid", "GET /paid shop web backend 127.0.0.1:0 127.0.0.1 OUTBOUND 200")
		logged(sink.all, "plain", "/", `{"to":"plain","path":"-"}`)
		w.Delete(shop, "meshaccesslogs", "lines")
		w.Converged()
	})

	It("inspection shows the services, and the one of what leaves the mesh", func() {
		r := w.Mesh(http.MethodGet, "/meshes/"+shop+"/traffic-logs/all/dataplanes", nil)
		Expect(r.Status).To(Equal(200))
		for _, s := range []string{"backend", "plain", "pass_through"} {
			Expect(r.Body).To(MatchRegexp(`"type": ?"service",\s*"name": ?%q`, s))
		}
	})

	It("an agent that does not take what is logged costs no request", func() {
		w.logging(toFile("f", "paused.log", "%REQ(:PATH)%"))
		w.Converged()
		logged(file("paused.log"), "backend", "/before", "/before\n")
		web.Signal(syscall.SIGSTOP)
		DeferCleanup(web.Signal, syscall.SIGCONT)
		for i := range 300 { // more than fits into the connection to the agent and what waits for it
			Expect(called(fmt.Sprintf("%s/%d/%s", web.to("backend"), i, strings.Repeat("a", 8000)))).To(Equal(200))
		}
		Expect(file("paused.log")()).NotTo(ContainSubstring("/299/"), "the agent is away")
		web.Signal(syscall.SIGCONT)
		logged(file("paused.log"), "backend", "/after", "/after\n")
	})

	// The agent that is started here ends with its spec, which is therefore the last one.
	It("an agent that is back after a restart goes on", func() {
		w.logging(toFile("f", "restart.log", "%REQ(:PATH)%"))
		w.Converged()
		logged(file("restart.log"), "backend", "/before", "/before\n")
		web.Stop()
		web.Sidecar.Start()
		web.WaitReady()
		answers(web.to("backend"), 200)
		logged(file("restart.log"), "backend", "/after", "/after\n")
	})
})

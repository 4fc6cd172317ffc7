package mesh_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// notes is a server that keeps what it was asked, and answers with headers of its own.
type notes struct {
	port int
	seen chan framework.Received
}

// startNotes starts one on an address.
func startNotes(name, address string) *notes {
	GinkgoHelper()
	ln, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	Expect(err).NotTo(HaveOccurred())
	n := &notes{ln.Addr().(*net.TCPAddr).Port, make(chan framework.Received, 1000)}
	s := &httptest.Server{Listener: ln, Config: &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		got := framework.Received{Name: name, Host: r.Host, Path: r.URL.RequestURI(), Headers: r.Header}
		n.seen <- got
		for _, header := range []string{"X-Set", "X-Add", "X-Gone", "X-Left"} {
			rw.Header().Set(header, "old")
		}
		_ = json.NewEncoder(rw).Encode(got)
	})}}
	s.Start()
	DeferCleanup(func() { framework.EndServer(s) })
	return n
}

// Everything that a rule of a MeshGatewayRoute can say, seen by clients and services.
var _ = Describe("rules of a gateway of the mesh", Ordered, ContinueOnFailure, core, func() {
	var (
		w     *world
		door  entry
		noted *notes
		rules []any
	)
	say := func(match any, filters []any, backends ...any) {
		rules = append(rules, gatewayRule(match, filters, backends...))
	}
	// at is a match of a path and below, with one more demand.
	at := func(path, member string, demand any) map[string]any {
		m := pathPrefix(path)
		m[member] = demand
		return m
	}
	one := func(name, kind, value string) []any {
		d := map[string]any{"name": name, "match": kind}
		if value != "" {
			d["value"] = value
		}
		return []any{d}
	}
	header := func(name, value string) any { return map[string]any{"name": name, "value": value} }
	filter := func(name string, conf any) []any { return []any{map[string]any{name: conf}} }
	edits := map[string]any{
		"set": []any{header("x-set", "new"), header("x-literal", "100% %REQ(x-add)%")}, "add": []any{header("x-add", "new")}, "remove": []any{"x-gone"},
	}
	// send asks with a method and headers, on a connection of its own.
	send := func(method, path string, with http.Header) *framework.Response {
		GinkgoHelper()
		e := door
		e.header = with
		c := e.client(nil)
		defer c.CloseIdleConnections()
		r, err := e.ask(c, method, path)
		Expect(err).NotTo(HaveOccurred())
		return r
	}
	store := func() {
		GinkgoHelper()
		w.Put("meshgatewayroutes", framework.Document{
			"type": "MeshGatewayRoute", "mesh": shop, "name": "all", "selectors": []any{map[string]any{"match": tags{service: "edge"}}},
			"conf": map[string]any{"http": map[string]any{"rules": rules}},
		})
		w.Converged()
	}

	BeforeAll(func() {
		w = newWorld("STRICT")
		door = entry{port: framework.FreePorts(1)[0], host: "any.example"}
		noted = startNotes("notes-1", "127.0.0.1")
		ledger := backendOf("ledger")
		say(map[string]any{"path": map[string]any{"match": "REGEX", "value": "/.*"}}, nil, backendOf("backend"))
		say(at("/query", "queryParameters", one("v", "EXACT", "1")), nil, ledger)
		say(at("/query", "queryParameters", one("v", "REGEX", "2[0-9]+")), nil, ledger)
		say(map[string]any{"path": map[string]any{"match": "REGEX", "value": "/item/[0-9]+"}}, nil, ledger)
		say(at("/method", "method", "POST"), nil, ledger)
		say(at("/absent", "headers", one("x-no", "ABSENT", "")), nil, ledger)
		say(at("/present", "headers", one("x-yes", "PRESENT", "")), nil, ledger)
		say(at("/like", "headers", one("x-id", "REGEX", "[a-z]+")), nil, ledger)
		say(pathPrefix("/share"), nil, share(3, tags{service: "backend"}), share(1, tags{service: "ledger"}))
		say(pathPrefix("/idle"), nil, share(0, tags{service: "backend"}), share(1, tags{service: "ledger"}))
		for path, percentage := range map[string]int{"/mirrored": 100, "/alone": 0} {
			say(pathPrefix(path), filter("mirror", map[string]any{"percentage": percentage, "backend": backendOf("notes")}), backendOf("backend"))
		}
		say(pathPrefix("/full"), filter("rewrite", map[string]any{"replaceFull": "/whole"}), backendOf("backend"))
		say(pathPrefix("/requests"), filter("requestHeader", edits), backendOf("backend"))
		say(pathPrefix("/answers"), filter("responseHeader", edits), backendOf("notes"))
		for _, code := range []int{301, 302, 303, 307, 308} {
			say(pathPrefix(fmt.Sprintf("/to/%d", code)), filter("redirect", map[string]any{
				"statusCode": code, "scheme": "https", "hostname": "new.example", "port": 8443, "path": map[string]any{"replaceFull": "/all"},
			}))
		}
		w.Put("meshgateways", framework.Document{
			"type": "MeshGateway", "mesh": shop, "name": "edge", "selectors": []any{map[string]any{"match": tags{service: "edge"}}},
			"conf": map[string]any{"listeners": []any{map[string]any{"port": door.port, "protocol": "HTTP"}}},
		})
		w.Put("dataplanes", framework.Document{"type": "Dataplane", "mesh": shop, "name": "edge-1", "networking": map[string]any{
			"address": "127.0.0.1", "gateway": map[string]any{"type": "BUILTIN", "tags": tags{service: "edge"}},
		}})
		gateway := framework.NewSidecar(w.cp, shop, "edge-1", "", "--proxy-type", "gateway").Start()
		members := []*member{w.start("backend-1", tags{service: "backend"}), w.start("ledger-1", tags{service: "ledger"})}
		members = append(members, w.join(w.around("notes-1", nil, noted.port, tags{service: "notes", protocol: "http"})))
		w.ready(members...)
		gateway.WaitReady()
		store()
		Eventually(func() string {
			if door.status("/") != 200 || door.status("/idle") != 200 || door.status("/answers") != 200 {
				return ""
			}
			return door.get("/idle").Received().Name
		}, patience).Should(Equal("ledger-1"))
	})

	It("match by parameters, expressions, methods, and headers that are there or not", func() {
		for _, c := range []struct {
			method, path string
			header       http.Header
			want         string
		}{
			{"GET", "/query?v=1", nil, "ledger-1"},
			{"GET", "/query?v=1&v=3", nil, "ledger-1"},
			{"GET", "/query?v=3&v=1", nil, "backend-1"},
			{"GET", "/query?v=27", nil, "ledger-1"},
			{"GET", "/query?v=2", nil, "backend-1"},
			{"GET", "/query?v=270x", nil, "backend-1"},
			{"GET", "/query", nil, "backend-1"},
			{"GET", "/item/12?x", nil, "ledger-1"},
			{"GET", "/item/12x", nil, "backend-1"},
			{"POST", "/method", nil, "ledger-1"},
			{"PUT", "/method", nil, "backend-1"},
			{"GET", "/absent", nil, "ledger-1"},
			{"GET", "/absent", http.Header{"X-No": {""}}, "backend-1"},
			{"GET", "/present", nil, "backend-1"},
			{"GET", "/present", http.Header{"X-Yes": {""}}, "ledger-1"},
			{"GET", "/like", http.Header{"X-Id": {"abc"}}, "ledger-1"},
			{"GET", "/like", http.Header{"X-Id": {"abc1"}}, "backend-1"},
			{"GET", "/like", nil, "backend-1"},
		} {
			Expect(send(c.method, c.path, c.header).Received().Name).To(Equal(c.want), "%s %s %v", c.method, c.path, c.header)
		}
	})

	It("share requests by weights", func() {
		c := door.client(nil)
		defer c.CloseIdleConnections()
		counted := func(path string, n int) int {
			GinkgoHelper()
			backends := 0
			for range n {
				r, err := door.ask(c, http.MethodGet, path)
				Expect(err).NotTo(HaveOccurred())
				if r.Received().Name == "backend-1" {
					backends++
				}
			}
			return backends
		}
		const n = 600
		// Five standard deviations: one run in two million fails by chance.
		Expect(counted("/share", n)).To(BeNumerically("~", n*3/4, 5*math.Sqrt(n*0.75*0.25)))
		Expect(counted("/idle", 100)).To(BeZero())
	})

	It("mirror requests to a service whose answers nobody gets", func() {
		for len(noted.seen) > 0 {
			<-noted.seen
		}
		for range 20 {
			Expect(send(http.MethodGet, "/alone", nil).Received().Name).To(Equal("backend-1"))
		}
		for i := range 20 {
			r := send(http.MethodGet, fmt.Sprintf("/mirrored/%d?a=b", i), nil)
			Expect(r.Received().Name).To(Equal("backend-1"))
			Expect(r.Header).NotTo(HaveKey("X-Left"))
			var copied framework.Received
			Eventually(noted.seen, patience).Should(Receive(&copied))
			Expect(copied.Path).To(Equal(fmt.Sprintf("/mirrored/%d?a=b", i)), "one copy of each, and of no other request")
			Expect(strings.Join(copied.Headers["X-Forwarded-Client-Cert"], " ")).To(ContainSubstring("spiffe://shop/edge"), "by mutual TLS")
		}
	})

	It("rewrite whole paths", func() {
		Expect(send(http.MethodGet, "/full/a/b?q=1", nil).Received().Path).To(Equal("/whole?q=1"))
	})

	It("set, add and remove headers of requests and answers", func() {
		old := http.Header{"X-Set": {"old"}, "X-Add": {"old"}, "X-Gone": {"old"}, "X-Left": {"old"}}
		for what, got := range map[string]http.Header{
			"request": send(http.MethodGet, "/requests", old).Received().Headers,
			"answer":  send(http.MethodGet, "/answers", nil).Header,
		} {
			Expect(got["X-Set"]).To(Equal([]string{"new"}), what)
			Expect(got["X-Literal"]).To(Equal([]string{"100% %REQ(x-add)%"}), "%s: it is no command of Envoy", what)
			Expect(got["X-Add"]).To(Equal([]string{"old", "new"}), what)
			Expect(got).NotTo(HaveKey("X-Gone"), what)
			Expect(got["X-Left"]).To(Equal([]string{"old"}), what)
		}
	})

	It("redirect with another scheme, host, port and path, and with each status", func() {
		for _, code := range []int{301, 302, 303, 307, 308} {
			r := send(http.MethodGet, fmt.Sprintf("/to/%d/a?q=1", code), nil)
			Expect(r.Status).To(Equal(code))
			Expect(r.Header.Get("Location")).To(Equal("https://new.example:8443/all?q=1"))
		}
	})

	It("lead to services outside the mesh, by their own host or by that of the request, with a permission", func() {
		name := namedHere()
		outside := startNotes("outside", "")
		w.Put("external-services", framework.Document{
			"type": "ExternalService", "mesh": shop, "name": "outside", "tags": tags{service: "outside", protocol: "http"},
			"networking": map[string]any{"address": fmt.Sprintf("%s:%d", name, outside.port)},
		})
		say(pathPrefix("/own"), filter("rewrite", map[string]any{"hostToBackendHostname": true}), backendOf("outside"))
		say(pathPrefix("/kept"), nil, backendOf("outside"))
		store()
		Eventually(func() int { return door.status("/kept") }, patience).Should(Equal(200))
		Eventually(func() string { return door.get("/kept").Received().Name }, patience).Should(Equal("outside"), "another rule takes it until then")
		for path, host := range map[string]string{"/own/a": name, "/kept/a": "any.example"} {
			got := door.get(path).Received()
			Expect([]string{got.Name, got.Host, got.Path}).To(Equal([]string{"outside", host, path}))
		}
		w.Put("traffic-permissions", policy("TrafficPermission", allowAll, tags{service: "web"}, tags{service: "*"}, nil))
		w.Converged()
		for _, path := range []string{"/own", "/kept"} {
			follow(func() int { return door.status(path) }, 403)
		}
		w.Put("traffic-permissions", policy("TrafficPermission", "door", tags{service: "edge"}, tags{service: "outside"}, nil))
		w.Converged()
		Eventually(func() int { return door.status("/own") }, patience).Should(Equal(200))
		Expect(door.status("/")).To(Equal(403), "services inside the mesh are not permitted with it")
	})
})

// namedHere returns a host name of this machine, which an ExternalService may have. Specs that need one
// are left out on a machine that does not know its own name.
func namedHere() string {
	GinkgoHelper()
	name, err := os.Hostname()
	Expect(err).NotTo(HaveOccurred())
	name = strings.ToLower(name)
	if _, err := net.DefaultResolver.LookupHost(bounded(""), name); err != nil || strings.HasPrefix(name, "localhost") {
		Skip("this machine does not resolve its own host name")
	}
	return name
}

package mesh_test

import (
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// ref refers to proxies by a service, by tags or by both; to all without either.
func ref(name string, of tags) map[string]any {
	out := map[string]any{"kind": "Mesh"}
	switch {
	case name != "" && of != nil:
		out["kind"] = "MeshServiceSubset"
	case name != "":
		out["kind"] = "MeshService"
	case of != nil:
		out["kind"] = "MeshSubset"
	}
	if name != "" {
		out["name"] = name
	}
	if of != nil {
		out["tags"] = of
	}
	return out
}

// item is what holds for those to whom a reference refers.
func item(to map[string]any, conf any) any { return map[string]any{"targetRef": to, "default": conf} }

// aimed is a document with a target.
func aimed(kind, name string, at map[string]any, from ...any) framework.Document {
	return framework.Document{"type": kind, "mesh": shop, "name": name, "spec": map[string]any{"targetRef": at, "from": from}}
}

var _ = Describe("permissions by target", Ordered, core, func() {
	var (
		w                                *world
		web, canary, jobs, backend, till *member
	)

	does := func(action string) any { return map[string]any{"action": action} }
	permit := func(name string, at map[string]any, from ...any) {
		w.Put("meshtrafficpermissions", aimed("MeshTrafficPermission", name, at, from...))
		w.Converged()
	}

	BeforeAll(func() {
		w = newWorld("STRICT")
		backend = w.start("backend-1", tags{service: "backend"})
		till = w.join(w.around("till-1", nil, framework.StartEcho("till-1"), tags{service: "till", protocol: "tcp"}))
		web = w.start("web-1", tags{service: "web", "version": "v1"}, "backend", "till")
		canary = w.start("web-2", tags{service: "web", "version": "v2"}, "backend", "till")
		jobs = w.start("jobs-1", tags{service: "jobs"}, "backend", "till")
		w.ready(web, canary, jobs, backend, till)
		for _, m := range []*member{web, canary, jobs} {
			answers(m.to("backend"), 200) // by the TrafficPermission that a mesh begins with
		}
	})

	// statuses are what the three callers get.
	statuses := func() []int {
		return []int{called(web.to("backend")), called(canary.to("backend")), called(jobs.to("backend"))}
	}
	// says reports whether a caller is heard over a new connection to the TCP service.
	says := func(m *member) bool {
		c, lines := dialEcho(m.port2("till"))
		defer func() { _ = c.Close() }()
		return c.say(lines, "hello") != ""
	}

	It("decides alone where it is chosen, on connections that are open", func() {
		open := keepAlive(jobs.port2("backend"))
		Expect(open.get()).To(Equal(200))
		permit("backend", ref("backend", nil), item(ref("web", nil), does("Allow")))
		Expect(open.get()).To(Equal(403), "who is in no item may not call")
		Expect(open.reconnected()).To(BeFalse())
		Expect(statuses()).To(Equal([]int{200, 200, 403}))
		Expect(says(jobs)).To(BeTrue(), "elsewhere the TrafficPermission counts")
	})

	It("a later item says otherwise for a part of those before", func() {
		open := keepAlive(canary.port2("backend"))
		Expect(open.get()).To(Equal(200))
		permit("backend", ref("backend", nil), item(ref("", nil), does("ALLOW")), item(ref("web", tags{"version": "v2"}), does("Deny")))
		Expect(statuses()).To(Equal([]int{200, 403, 200}))
		Expect(open.get()).To(Equal(403))
		Expect(open.reconnected()).To(BeFalse())
		rules := w.Get("/meshes/" + shop + "/dataplanes/backend-1/rules")
		Expect(rules["total"]).To(BeEquivalentTo(3), "%v", rules)
		for i, of := range []map[string]any{{service: "web", "version": "v2"}, {service: "web", "version": "!v2"}, {service: "!web"}} {
			Expect(rules["items"].([]any)[i]).To(And(HaveKeyWithValue("type", "clientSubset"), HaveKeyWithValue("policyType", "MeshTrafficPermission"),
				HaveKeyWithValue("subset", Equal(of)), HaveKeyWithValue("conf", HaveKeyWithValue("action", []string{"Deny", "Allow", "Allow"}[i]))))
		}
		proxies := w.Get("/meshes/" + shop + "/meshtrafficpermissions/backend/dataplanes")
		Expect(proxies["total"]).To(BeEquivalentTo(1), "%v", proxies)
	})

	It("the policy with the narrower target is stronger", func() {
		permit("all", ref("", nil), item(ref("", nil), does("Deny")))
		Expect(statuses()).To(Equal([]int{200, 403, 200}))
		Expect(says(web)).To(BeFalse(), "the one for everything counts here")
		w.Delete(shop, "meshtrafficpermissions", "backend")
		w.Converged()
		Expect(statuses()).To(Equal([]int{403, 403, 403}))
		w.Delete(shop, "meshtrafficpermissions", "all")
		w.Converged()
		Expect(statuses()).To(Equal([]int{200, 200, 200}), "the TrafficPermission counts again")
	})

	It("a shadow counts and refuses nobody", func() {
		permit("backend", ref("backend", nil), item(ref("web", nil), does("Allow")), item(ref("jobs", nil), does("AllowWithShadowDeny")))
		shadows := func() (n int) {
			for name, value := range backend.Stats() {
				if len(name) > 13 && name[len(name)-13:] == "shadow_denied" {
					n += value
				}
			}
			return n
		}
		before := shadows()
		Expect(statuses()).To(Equal([]int{200, 200, 200}))
		Expect(shadows()).To(Equal(before + 1))
	})

	It("a TCP service is closed to those who are denied, and open connections end", func() {
		permit("till", ref("till", nil), item(ref("web", nil), does("Allow")), item(ref("web", tags{"version": "v2"}), does("Deny")))
		Expect(says(web)).To(BeTrue())
		Expect(says(canary)).To(BeFalse(), "it passes the handshake as web, and no further")
		Expect(says(jobs)).To(BeFalse())
		conn, lines := dialEcho(web.port2("till"))
		Expect(conn.say(lines, "one")).To(Equal("till-1 one"))
		since := time.Now()
		permit("till", ref("till", nil), item(ref("jobs", nil), does("Allow")))
		Expect(says(web)).To(BeFalse())
		Expect(says(jobs)).To(BeTrue())
		measured("open TCP connection ended after", since, func() bool { return conn.say(lines, "still") == "" })
	})
})

var _ = Describe("tokens by caller", Ordered, core, func() {
	It("MeshTokenAuth: each caller needs its own token, and who is in no item is refused", func() {
		cp := framework.NewControlPlane("standalone")
		if envoy := otherEnvoy(); envoy != "" {
			cp.Args = append(cp.Args, "--envoy-path", envoy)
		}
		w := adopt(cp.Start(), "STRICT")
		f := framework.NewFixture(cp)
		backend := w.start("backend-1", tags{service: "backend"})
		web := w.start("web-1", tags{service: "web"}, "backend")
		jobs := w.start("jobs-1", tags{service: "jobs"}, "backend")
		other := w.start("other-1", tags{service: "other"}, "backend")
		w.ready(backend, web, jobs, other)
		for _, m := range []*member{web, jobs, other} {
			answers(m.to("backend"), 200)
		}
		call := func(m *member, header, token string) int {
			r, err := framework.Do(http.DefaultClient, http.MethodGet, m.to("backend"), http.Header{header: {"Bearer " + token}}, "")
			Expect(err).NotTo(HaveOccurred())
			return r.Status
		}
		plugin := map[string]any{"plugin": map[string]any{"id": f.Plugin}}
		inline := map[string]any{"config": map[string]any{"global_credentials": true, "auth_header_name": "x-token"}}
		demand := func(from ...any) {
			w.Put("meshtokenauths", aimed("MeshTokenAuth", "tokens", ref("backend", nil), from...))
			w.Converged()
		}
		token := f.MustMint(cp.HTTPS)

		demand(item(ref("web", nil), plugin), item(ref("jobs", nil), inline))
		Expect(call(web, "Authorization", token)).To(Equal(200))
		Expect(call(web, "Authorization", "x")).To(Equal(401))
		Expect(call(jobs, "Authorization", token)).To(Equal(401), "it is asked in another header")
		Expect(call(jobs, "X-Token", token)).To(Equal(401), "the token is bound to a service")
		Expect(call(other, "Authorization", token)).To(Equal(403), "no tokens of this caller are accepted")

		demand(item(ref("", nil), inline), item(ref("web", nil), plugin))
		Expect(call(web, "Authorization", token)).To(Equal(200))
		Expect(call(other, "Authorization", token)).To(Equal(401))

		// What a caller says about itself is no proof.
		r, err := framework.Do(http.DefaultClient, http.MethodGet, other.to("backend"), http.Header{
			"Authorization": {"Bearer " + token}, "X-Forwarded-Client-Cert": {"By=x;URI=mesh://mesh.io/service/web;URI=spiffe://shop/web"},
		}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(401))

		// The items of all policies count; the narrower target is stronger.
		w.Put("meshtokenauths", aimed("MeshTokenAuth", "all", ref("", nil), item(ref("other", nil), plugin)))
		w.Converged()
		Expect(call(other, "Authorization", token)).To(Equal(401))
		demand(item(ref("web", nil), plugin))
		Expect(call(other, "Authorization", token)).To(Equal(200))
		Expect(call(jobs, "Authorization", token)).To(Equal(403))
	})
})

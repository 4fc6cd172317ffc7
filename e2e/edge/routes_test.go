package edge_test

import (
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// visit calls a path at a listener without following redirects.
func visit(method, scheme, host, path string) *framework.Response {
	port := map[string]int{"http": c.HTTP, "https": c.HTTPS}[scheme]
	client := *f.HTTP
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, err := http.NewRequest(method, fmt.Sprintf("%s://localhost:%d%s", scheme, port, path), http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	if host != "" {
		req.Host = host
	}
	resp, err := client.Do(req)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	return read(resp)
}

// service makes an unprotected service that leads to the open upstream.
func service(name string, more map[string]any) {
	doc := map[string]any{"name": name, "host": "127.0.0.1", "port": open.port()}
	for k, v := range more {
		doc[k] = v
	}
	f.Must(201, http.MethodPost, "/services", doc)
}

// route adds a route to a service and returns its id.
func route(service, name string, doc map[string]any) string {
	doc["name"] = name
	id, _ := f.Must(201, http.MethodPost, "/services/"+service+"/routes", doc).JSON()["id"].(string)
	return id
}

var _ = Describe("routes", Ordered, func() {
	BeforeAll(func() {
		// The service's path tells which route was taken.
		for _, name := range []string{"short", "long", "method", "host", "host-method"} {
			service("r-"+name, map[string]any{"path": "/" + name})
		}
		route("r-short", "r-short", map[string]any{"paths": []string{"/r"}})
		route("r-long", "r-long", map[string]any{"paths": []string{"/r/long"}})
		route("r-method", "r-method", map[string]any{"paths": []string{"/r"}, "methods": []string{"PUT", "DELETE"}})
		route("r-host", "r-host", map[string]any{"paths": []string{"/r"}, "hosts": []string{"host.example"}})
		route("r-host-method", "r-host-method", map[string]any{"paths": []string{"/r"}, "hosts": []string{"host.example"}, "methods": []string{"PUT"}})
		f.Converged()
	})

	It("win by their attributes first, then by the length of their path", func() {
		for _, t := range []struct{ method, host, path, want string }{
			{"GET", "", "/r/x", "/short/x"},
			{"GET", "", "/r", "/short"},
			{"GET", "", "/r/long/x", "/long/x"},
			{"PUT", "", "/r/x", "/method/x"},
			{"DELETE", "", "/r/long/x", "/method/long/x"},
			{"GET", "host.example", "/r/x", "/host/x"},
			{"GET", "HOST.example:1234", "/r/x", "/host/x"},
			{"GET", "host.example", "/r/long/x", "/host/long/x"},
			{"PUT", "host.example", "/r/x", "/host-method/x"},
			{"GET", "host.example.", "/r/x", "/short/x"},
			{"GET", "sub.host.example", "/r/x", "/short/x"},
		} {
			for _, scheme := range []string{"http", "https"} {
				r := visit(t.method, scheme, t.host, t.path)
				Expect(r.Status).To(Equal(200), "%+v: %s", t, r.Body)
				Expect(decode(r.Body).URI).To(Equal(t.want), "%+v", t)
			}
		}
	})

	It("can be changed, and the change is there when its revision is", func() {
		for i := range 10 {
			path := fmt.Sprintf("/moving-%d", i)
			if i == 0 {
				route("r-short", "moving", map[string]any{"paths": []string{path}})
			} else {
				f.Must(200, http.MethodPatch, "/routes/moving", map[string]any{"paths": []string{path}})
			}
			f.Converged()
			Expect(visit("GET", "http", "", path).Status).To(Equal(200))
			if i > 0 {
				Expect(visit("GET", "http", "", fmt.Sprintf("/moving-%d", i-1)).Status).To(Equal(404))
			}
		}
		f.Must(204, http.MethodDelete, "/routes/moving", nil)
		f.Converged()
		Expect(visit("GET", "http", "", "/moving-9").Status).To(Equal(404))
	})

	It("rewrite path and Host as they say", func() {
		service("r-target", map[string]any{"path": "/base"})
		route("r-target", "r-target", map[string]any{"paths": []string{"/strip"}})
		target := fmt.Sprintf("127.0.0.1:%d", open.port())
		for _, t := range []struct {
			strip, preserve bool
			path, uri, host string
		}{
			{true, false, "/strip", "/base", target},
			{true, false, "/strip/", "/base/", target},
			{true, false, "/stripx?a=%2f&b", "/base/x?a=%2f&b", target},
			{true, false, "/strip/a%20b%2Fc", "/base/a%20b%2Fc", target},
			{false, false, "/strip", "/base/strip", target},
			{false, true, "/strip/x?", "/base/strip/x?", "asked.example"},
			{true, true, "/strip/x", "/base/x", "asked.example"},
		} {
			f.Must(200, http.MethodPatch, "/routes/r-target", map[string]any{"strip_path": t.strip, "preserve_host": t.preserve})
			f.Converged()
			got := decode(visit("GET", "http", "asked.example", t.path).Body)
			Expect(got.URI).To(Equal(t.uri), "%+v", t)
			Expect(got.Host).To(Equal(t.host), "%+v", t)
			Expect(got.Header.Get("X-Forwarded-Host")).To(Equal("asked.example"))
			if t.strip {
				Expect(got.Header.Get("X-Forwarded-Prefix")).To(Equal("/strip"))
			} else {
				Expect(got.Header).NotTo(HaveKey("X-Forwarded-Prefix"))
			}
		}
	})

	It("for https only refuse or redirect plain HTTP, before the plugins", func() {
		name := "r-secure"
		protect(name, nil)
		f.Must(200, http.MethodPatch, "/routes/"+name, map[string]any{"protocols": []string{"https"}})
		f.Converged()
		r := visit("GET", "http", "", "/"+name+"/x")
		Expect(r.Status).To(Equal(426))
		Expect(r.JSON()["message"]).To(Equal("Please use HTTPS protocol"))
		Expect(r.Header.Get("Content-Type")).To(Equal("application/json; charset=utf-8"))
		Expect(visit("GET", "https", "", "/"+name+"/x").Status).To(Equal(401))
		// Nor does a client's word, or an issuing path, make it https.
		spoofed := exchange(listeners["plain TCP"], get("/"+name+"/x", "X-Forwarded-Proto: https", ":scheme: https"))
		Expect(statuses(spoofed)).To(HaveExactElements(BeElementOf(400, 426)))
		Expect(visit("POST", "http", "", "/"+name+"/oauth2/token").Status).To(Equal(426))
		for _, code := range []int{301, 302, 307, 308} {
			f.Must(200, http.MethodPatch, "/routes/"+name, map[string]any{"https_redirect_status_code": code})
			f.Converged()
			r := visit("GET", "http", fmt.Sprintf("gateway.example:%d", c.HTTP), "/"+name+"/x?a=%2f")
			Expect(r.Status).To(Equal(code))
			Expect(r.Header.Get("Location")).To(Equal(fmt.Sprintf("https://gateway.example:%d/%s/x?a=%%2f", c.HTTPS, name)))
			Expect(r.Body).To(BeEmpty())
			Expect(visit("GET", "http", "gateway.example", "/"+name+"/x").Header.Get("Location")).To(Equal("https://gateway.example/" + name + "/x"))
		}
	})

	It("say in JSON why nothing is served", func() {
		for _, r := range []*framework.Response{visit("GET", "http", "", "/nowhere"), visit("POST", "https", "nobody.example", "/nowhere?a")} {
			Expect(r.Status).To(Equal(404))
			Expect(r.JSON()["message"]).To(Equal("no Route matched with those values"))
			Expect(r.Header.Get("Content-Type")).To(Equal("application/json; charset=utf-8"))
		}
		f.Must(201, http.MethodPost, "/routes", map[string]any{"name": "r-serviceless", "paths": []string{"/serviceless"}})
		f.Converged()
		r := visit("GET", "http", "", "/serviceless/x")
		Expect(r.Status).To(Equal(503))
		Expect(r.JSON()["message"]).To(Equal("no Service found with those values"))
		// A plugin of a route without a service decides all the same.
		f.Must(201, http.MethodPost, "/routes/r-serviceless/plugins", map[string]any{"name": "oauth2", "config": map[string]any{"enable_client_credentials": true}})
		f.Converged()
		Expect(visit("GET", "http", "", "/serviceless/x").Status).To(Equal(401))
		f.Must(204, http.MethodDelete, "/routes/r-serviceless", nil)
	})

	It("of a disabled service are not matched", func() {
		service("r-disabled", map[string]any{"path": "/disabled"})
		route("r-disabled", "r-disabled", map[string]any{"paths": []string{"/r/long/disabled"}})
		f.Converged()
		for _, enabled := range []bool{true, false, true} {
			f.Must(200, http.MethodPatch, "/services/r-disabled", map[string]any{"enabled": enabled})
			f.Converged()
			want := "/long/disabled/x" // the next best route
			if enabled {
				want = "/disabled/x"
			}
			Expect(decode(visit("GET", "http", "", "/r/long/disabled/x").Body).URI).To(Equal(want))
		}
	})

	It("carry their plugins with them when these change", func() {
		_, plugin := protect("r-plugin", nil)
		Expect(visit("GET", "http", "", "/r-plugin/x").Status).To(Equal(401))
		for _, enabled := range []bool{false, true} {
			f.Must(200, http.MethodPatch, "/plugins/"+plugin, map[string]any{"enabled": enabled})
			f.Converged()
			Expect(visit("GET", "http", "", "/r-plugin/x").Status).To(Equal(map[bool]int{true: 401, false: 200}[enabled]))
		}
		f.Must(200, http.MethodPatch, "/plugins/"+plugin, map[string]any{"config": map[string]any{"realm": "edge"}})
		f.Converged()
		Expect(visit("GET", "http", "", "/r-plugin/x").Header.Get("Www-Authenticate")).To(Equal(`Bearer realm="edge"`))
		f.Must(204, http.MethodDelete, "/plugins/"+plugin, nil)
		f.Converged()
		Expect(visit("GET", "http", "", "/r-plugin/x").Status).To(Equal(200))
	})
})

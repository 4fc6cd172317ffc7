package edge_test

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// protect makes a service with a route and an oauth2 plugin, all of one name,
// that leads to the guarded upstream. It returns the ids of service and plugin.
func protect(name string, config map[string]any) (service, plugin string) {
	f.Must(201, http.MethodPost, "/services", map[string]any{"name": name, "host": "127.0.0.1", "port": guarded.port()})
	f.Must(201, http.MethodPost, "/services/"+name+"/routes", map[string]any{"name": name, "paths": []string{"/" + name + "/"}})
	full := map[string]any{"enable_client_credentials": true}
	for k, v := range config {
		full[k] = v
	}
	p := f.Must(201, http.MethodPost, "/services/"+name+"/plugins", map[string]any{"name": "oauth2", "config": full})
	service, _ = f.Must(200, http.MethodGet, "/services/"+name, nil).JSON()["id"].(string)
	plugin, _ = p.JSON()["id"].(string)
	f.Converged()
	return service, plugin
}

// migrate stores a token of the fixture's application.
func migrate(token string, more map[string]any) {
	app := f.Must(200, http.MethodGet, "/oauth2/"+framework.ClientID, nil).JSON()
	doc := map[string]any{"credential": map[string]any{"id": app["id"]}, "expires_in": 600, "access_token": token}
	for k, v := range more {
		doc[k] = v
	}
	f.Must(201, http.MethodPost, "/oauth2_tokens", doc)
}

// call calls a path at the HTTP listener with a value of Authorization, or none.
func call(path, authorization string) *framework.Response {
	h := http.Header{}
	if authorization != "" {
		h.Set("Authorization", authorization)
	}
	r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", c.HTTP, path), h, "")
	ExpectWithOffset(1, err).NotTo(HaveOccurred())
	return r
}

var _ = Describe("tokens of two services", Ordered, func() {
	var first, second, firstPlugin string

	BeforeAll(func() {
		first, firstPlugin = protect("tokens-first", nil)
		second, _ = protect("tokens-second", nil)
		protect("tokens-global", map[string]any{"global_credentials": true})
	})

	bound := func(service string) map[string]any {
		return map[string]any{"service": map[string]any{"id": service}}
	}

	It("hold at their own service only, also after they were tried at the wrong one first", func() {
		migrate("bound-first", bound(first))
		migrate("bound-second", bound(second))
		for token, right := range map[string]string{"bound-first": "/tokens-first/x", "bound-second": "/tokens-second/x"} {
			for range 3 {
				for _, path := range []string{"/tokens-second/x", "/tokens-global/x", "/tokens-first/x", "/api/x"} {
					want := 401
					if path == right {
						want = 200
					}
					r := call(path, "Bearer "+token)
					Expect(r.Status).To(Equal(want), "%s at %s: %s", token, path, r.Body)
				}
			}
		}
	})

	It("hold at global plugins only if they are bound to none", func() {
		migrate("unbound", nil)
		Expect(call("/tokens-global/x", "Bearer unbound").Status).To(Equal(200))
		r := call("/tokens-first/x", "Bearer unbound")
		Expect(r.Status).To(Equal(401))
		Expect(r.JSON()).To(Equal(map[string]any{"error": "invalid_token", "error_description": "The access token is global, but the current plugin is configured without 'global_credentials'"}))
		Expect(r.Header.Values("Www-Authenticate")).To(Equal([]string{`Bearer error="invalid_token", error_description="The access token is invalid or has expired"`}))
		f.Must(200, http.MethodPatch, "/plugins/"+firstPlugin, map[string]any{"config": map[string]any{"global_credentials": true}})
		f.Converged()
		Expect(call("/tokens-first/x", "Bearer unbound").Status).To(Equal(200), "the plugin is global now")
		Expect(call("/tokens-first/x", "Bearer bound-first").Status).To(Equal(200))
		Expect(call("/tokens-first/x", "Bearer bound-second").Status).To(Equal(401))
	})

	It("end with the second in which they expire", func() {
		const life = 5
		// The boundary second is still valid. A try counts if it began and ended in that
		// second, however slow the machine is.
		judged := ""
		for try := 0; judged == ""; try++ {
			Expect(try).To(BeNumerically("<", 50), "no try fits into a second")
			at, key := time.Now().Unix(), fmt.Sprintf("brief-%d", try)
			migrate(key, map[string]any{"expires_in": life, "created_at": (at - life) * 1000, "service": map[string]any{"id": second}})
			if status := call("/tokens-second/x", "Bearer "+key).Status; time.Now().Unix() == at {
				Expect(status).To(Equal(200), "refused in the boundary second")
				judged = key
			}
		}
		Eventually(func() int { return call("/tokens-second/x", "Bearer "+judged).Status }, "30s", "2ms").Should(Equal(401))
		at := time.Now().Unix()
		migrate("over", map[string]any{"expires_in": life, "created_at": (at - life - 1) * 1000, "service": map[string]any{"id": second}})
		Expect(call("/tokens-second/x", "Bearer over").Status).To(Equal(401), "accepted after the boundary second")

		migrate("past", map[string]any{"expires_in": 5, "created_at": time.Now().Add(-10 * time.Second).UnixMilli(), "service": map[string]any{"id": second}})
		Expect(call("/tokens-second/x", "Bearer past").Status).To(Equal(401))
		migrate("endless", map[string]any{"expires_in": 0, "created_at": time.Now().Add(-24 * time.Hour).UnixMilli(), "service": map[string]any{"id": second}})
		Expect(call("/tokens-second/x", "Bearer endless").Status).To(Equal(200))
	})
})

var _ = Describe("hide_credentials", func() {
	It("removes what was accepted, and nothing else", func() {
		service, plugin := protect("hidden", map[string]any{"hide_credentials": true})
		migrate("hidden-token", map[string]any{"service": map[string]any{"id": service}})
		for _, value := range []string{"Bearer hidden-token", "token hidden-token", "hidden-token"} {
			r := call("/hidden/x?access_token=kept", value)
			Expect(r.Status).To(Equal(200), value)
			got := decode(r.Body)
			Expect(got.Header).NotTo(HaveKey("Authorization"), value)
			Expect(got.Header.Get("X-Credential-Identifier")).To(Equal(framework.ClientID))
		}
		f.Must(200, http.MethodPatch, "/plugins/"+plugin, map[string]any{"config": map[string]any{"hide_credentials": false, "auth_header_name": "X-Token"}})
		f.Converged()
		r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/hidden/x", c.HTTP), http.Header{"X-Token": {"bearer hidden-token"}, "Authorization": {"Basic upstream"}}, "")
		Expect(err).NotTo(HaveOccurred())
		got := decode(r.Body)
		Expect(got.Header.Get("X-Token")).To(Equal("bearer hidden-token"))
		Expect(got.Header.Get("Authorization")).To(Equal("Basic upstream"))
		Expect(call("/hidden/x", "Bearer hidden-token").Status).To(Equal(401), "Authorization is not the plugin's header any more")
	})
})

var _ = Describe("anonymous", func() {
	It("is a consumer that may be missing and come later", func() {
		service, plugin := protect("anon", map[string]any{"anonymous": "nobody", "hide_credentials": true})
		migrate("anon-token", map[string]any{"service": map[string]any{"id": service}})
		migrate("anon-unbound", nil)
		refused := call("/anon/x", "")
		Expect(refused.Status).To(Equal(500))
		Expect(refused.JSON()["message"]).To(Equal("anonymous consumer nobody is configured but doesn't exist"))
		Expect(call("/anon/x", "Bearer anon-token").Status).To(Equal(200))

		nobody := f.Must(201, http.MethodPost, "/consumers", map[string]any{"username": "nobody", "custom_id": "n-1"}).JSON()["id"]
		f.Converged()
		for _, value := range []string{"", "Bearer unknown", "Basic eDp5"} {
			r, err := framework.Do(f.HTTP, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/anon/x", c.HTTP), http.Header{
				"Authorization": {value}, "X-Authenticated-Scope": {"all"}, "X-Authenticated-Userid": {"root"}, "X-Credential-Identifier": {"root"}, "x_consumer_id": {"root"},
			}, "")
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).To(Equal(200), r.Body)
			h := decode(r.Body).Header
			Expect(h.Get("X-Anonymous-Consumer")).To(Equal("true"))
			Expect(h.Get("X-Consumer-Id")).To(Equal(nobody))
			Expect(h.Get("X-Consumer-Username")).To(Equal("nobody"))
			Expect(h.Get("X-Consumer-Custom-Id")).To(Equal("n-1"))
			for _, name := range []string{"X-Authenticated-Scope", "X-Authenticated-Userid", "X-Credential-Identifier", "x_consumer_id", "X_consumer_id"} {
				Expect(h).NotTo(HaveKey(name))
			}
		}
		h := decode(call("/anon/x", "Bearer anon-token").Body).Header
		Expect(h).NotTo(HaveKey("X-Anonymous-Consumer"))
		Expect(h.Get("X-Consumer-Username")).To(Equal("alice"))
		Expect(call("/anon/x", "Bearer anon-unbound").Status).To(Equal(401), "a global token at a plugin that is not is refused all the same")

		f.Must(200, http.MethodPatch, "/plugins/"+plugin, map[string]any{"config": map[string]any{"anonymous": nobody}})
		f.Converged()
		Expect(call("/anon/x", "").Status).To(Equal(200), "by id")
		f.Must(400, http.MethodDelete, "/consumers/nobody", nil)
		f.Must(200, http.MethodPatch, "/plugins/"+plugin, map[string]any{"config": map[string]any{"anonymous": "not-there"}})
		f.Must(204, http.MethodDelete, "/consumers/nobody", nil)
		f.Converged()
		Expect(call("/anon/x", "").Status).To(Equal(500), "missing again")

		// Issuing endpoints come before the fallback.
		r, err := framework.Do(f.HTTP, http.MethodPost, fmt.Sprintf("https://localhost:%d/anon/oauth2/token", c.HTTPS), http.Header{"Content-Type": {formType}}, url.Values{}.Encode())
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(400), r.Body)
	})
})

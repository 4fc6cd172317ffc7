package edge_test

import (
	"fmt"
	"net/http"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// paths are spellings of paths with the route that they must reach: guarded
// demands a token, open does not, none is 404, bad is 400. upstream is what the
// service sees, where it is not the request's own path.
var paths = []struct{ raw, route, upstream string }{
	{"/api", "guarded", "/"},
	{"/api/x", "guarded", "/x"},
	{"/open/x", "open", "/open/x"},
	{"/public/x", "open", "/public/x"},
	{"/other", "none", ""},
	{"/", "none", ""},
	// Dot segments and repeated slashes are resolved before anything decides.
	{"/public/../api/x", "guarded", "/x"},
	{"/public/./../api/x", "guarded", "/x"},
	{"/public/%2e%2e/api/x", "guarded", "/x"},
	{"/public/%2E./api/x", "guarded", "/x"},
	{"/public/a/b/../../../api/x", "guarded", "/x"},
	{"/api/../open/x", "open", "/open/x"},
	{"/api/%2e%2e/open/x", "open", "/open/x"},
	{"//api/x", "guarded", "/x"},
	{"/./api/x", "guarded", "/x"},
	{"///./api//x", "guarded", "/x"},
	// An empty segment is a segment until slashes are merged.
	{"/open//..//api/x", "open", "/open/api/x"},
	{"/../api/x", "guarded", "/x"},
	{"/%61pi/x", "guarded", "/x"},
	// A backslash is a slash, for the router as for browsers.
	{`/public\..\api/x`, "guarded", "/x"},
	{`\api\x`, "bad", ""},
	// What is escaped is no separator, but where a server that takes it for one
	// would read a dot segment.
	{"/public/..%2fapi/x", "bad", ""},
	{"/public%2f..%2fapi/x", "bad", ""},
	{"/public/..%5Capi/x", "bad", ""},
	{"/public/%252e%252e/api/x", "bad", ""},
	{"/%2fapi/x", "none", ""},
	{"/api%2fx", "guarded", "/%2fx"},
	{"/api%2f..%2fopen", "bad", ""},
	{"/open%00/x", "bad", ""},
	// Path parameters are part of a segment, but do not hide a dot segment.
	{"/api;a=b/x", "guarded", "/;a=b/x"},
	{"/public/..;/api/x", "guarded", "/x"},
	{"/public/..;a=b/api/x", "guarded", "/x"},
	{"/public/%2e%2e;/api/x", "bad", ""},
	{"/api/..;/open/x", "open", "/open/x"},
	{"/public/;/../api/x", "open", "/public/api/x"},
	{"/api/x;/../../open/y", "open", "/open/y"},
	// The rest of a path that is stripped cannot lead out of the service's.
	{"/api../x", "guarded", "/x"},
	{"/api..;a/admin", "bad", ""},
	{"/api..;/admin", "bad", ""},
	{"/api..%2fadmin", "bad", ""},
	{"/api/..%2fadmin", "bad", ""},
	{"/api/..%5cadmin", "bad", ""},
	{"/api/a/..%252f..%252fadmin", "bad", ""},
	{"/api/%252e%252e/admin", "bad", ""},
	{"/api/.%252e", "bad", ""},
	{"/api%2f../admin", "bad", ""},
	// Dots and slashes in more bytes than they need are none, but to lax decoders.
	{"/api/%c0%ae%c0%ae/admin", "bad", ""},
	{"/api/%E0%80%AE./admin", "bad", ""},
	{"/api/..%C0%AFadmin", "bad", ""},
	{"/api/%f0%80%80%ae%25c0%25ae/admin", "bad", ""},
	{"/api/.%u002e/admin", "bad", ""},
	{"/api/a%c0%aeb/%c3%a4", "guarded", "/a%c0%aeb/%c3%a4"},
	{"/api/v1...v2?file=..%2fx", "guarded", "/v1...v2?file=..%2fx"},
	{"/api/a%2fb/100%25", "guarded", "/a%2fb/100%25"},
	// A query is not part of the path, a fragment is not part of a request.
	{"/api?/../open", "guarded", "/?/../open"},
	{"/api/x?a=/open", "guarded", "/x?a=/open"},
	{"/open?/../../api", "open", "/open?/../../api"},
	{"/api/x#/../../open", "bad", ""},
	{"/open#/api", "bad", ""},
	{"/open/x?a#b", "bad", ""},
	// Absolute form: the target names the host and the path.
	{"http://gateway.example/api/x", "guarded", "/x"},
	{"http://gateway.example/public/../api/x", "guarded", "/x"},
	{"http://evil.example/api/x", "guarded", "/x"},
	{"http://gateway.example", "none", ""},
	// Prefixes are not aware of segments, and they know upper from lower case.
	{"/apix", "guarded", "/x"},
	{"/API/x", "none", ""},
	{"api/x", "bad", ""},
	{"*", "bad", ""},
	// Only the end of the path makes an issuing endpoint, on the route's own plugin.
	{"/open/oauth2/token", "open", "/open/oauth2/token"},
	{"/open/../api/oauth2/tokens", "guarded", "/oauth2/tokens"},
	{"/api/oauth2/token;x", "guarded", "/oauth2/token;x"},
	{"/api/oauth2%2ftoken", "guarded", "/oauth2%2ftoken"},
	{"/api/x?/oauth2/token", "guarded", "/x?/oauth2/token"},
	{"/api/oauth2/token/x", "guarded", "/oauth2/token/x"},
}

// expectPaths sends every spelling with and without a token.
func expectPaths() {
	auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
	codes := map[string][2]int{"guarded": {401, 200}, "open": {200, 200}, "none": {404, 404}, "bad": {400, 400}}
	for name, dial := range listeners {
		for _, p := range paths {
			By(fmt.Sprintf("%s over %s", p.raw, name))
			for i, lines := range [][]string{nil, {auth}, {"x-envoy-original-path: /open/x", "X-Original-URL: /open/x", "X-Rewrite-URL: /open/x"}} {
				with := i == 1
				want := codes[p.route][0]
				if with {
					want = codes[p.route][1]
				}
				var got []answer
				var atOpen []received
				atGuarded := guarded.during(func() {
					atOpen = open.during(func() { got = exchange(dial, get(p.raw, lines...)) })
				})
				Expect(statuses(got)).To(HaveExactElements(want), "%q %v", p.raw, got)
				switch {
				case want != 200:
					Expect(atGuarded).To(BeEmpty(), p.raw)
					Expect(atOpen).To(BeEmpty(), p.raw)
				case p.route == "guarded":
					Expect(atOpen).To(BeEmpty(), p.raw)
					Expect(atGuarded).To(HaveLen(1), p.raw)
					Expect(atGuarded[0].URI).To(Equal(p.upstream), p.raw)
				default:
					Expect(atGuarded).To(BeEmpty(), p.raw)
					Expect(atOpen).To(HaveLen(1), p.raw)
					Expect(atOpen[0].URI).To(Equal(p.upstream), p.raw)
				}
			}
		}
	}
}

var _ = Describe("the path of a request", Ordered, func() {
	It("is the same for the route and for the plugins in a list of routes", func() {
		expectPaths()
	})

	It("is the same for both in a tree of routes", func() {
		const fillers = 70 // more than fit a list
		for i := range fillers {
			f.Must(201, http.MethodPost, "/services/open/routes", map[string]any{"name": fmt.Sprintf("filler-%d", i), "paths": []string{fmt.Sprintf("/filler/%d/", i)}})
		}
		DeferCleanup(func() {
			for i := range fillers {
				f.Must(204, http.MethodDelete, fmt.Sprintf("/routes/filler-%d", i), nil)
			}
			f.Converged()
		})
		f.Converged()
		expectPaths()
	})

	It("can come with a scheme, which does not change that of the connection", func() {
		const raw = "https://gateway.example/api/x"
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		for _, lines := range [][]string{nil, {auth}} {
			Expect(guarded.during(func() {
				Expect(statuses(exchange(listeners["plain TCP"], get(raw, lines...)))).To(Equal([]int{403}), "https on plain TCP is refused")
			})).To(BeEmpty())
		}
		Expect(statuses(exchange(listeners["TLS"], get(raw)))).To(Equal([]int{401}))
		Expect(statuses(exchange(listeners["TLS"], get(raw, auth)))).To(Equal([]int{200}))
	})

	It("is that of the token endpoint in each of its spellings", func() {
		form := "grant_type=client_credentials&client_id=fixture-app&client_secret=fixture-secret"
		post := func(path string) []int {
			return statuses(exchange(listeners["TLS"], request("POST", path, []string{
				"Host: localhost", "Content-Type: application/x-www-form-urlencoded", fmt.Sprintf("Content-Length: %d", len(form)),
			}, form)))
		}
		for _, path := range []string{"/api/oauth2/token", "/api/oauth2/token/", "/api//oauth2/./token", "/open/../api/x/oauth2/token", "/api/oauth2/token?a=b"} {
			Expect(guarded.during(func() { Expect(post(path)).To(Equal([]int{200}), path) })).To(BeEmpty())
		}
		for _, path := range []string{"/api/OAuth2/token", "/api/oauth2/token//x", "/api/oauth2/token%2f", "/api/oauth2/token.", "/api/oauth2/token;"} {
			Expect(guarded.during(func() { Expect(post(path)).To(Equal([]int{401}), path) })).To(BeEmpty())
		}
	})
})

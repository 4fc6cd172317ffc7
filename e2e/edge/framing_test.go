package edge_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/meshgate/meshgate/e2e/framework"
)

// smuggled is a request that must never be seen as one of its own.
const smuggled = "GET /api/smuggled HTTP/1.1\r\nHost: gateway.example\r\n\r\n"

// framing are requests without a token whose end, header or target is in doubt,
// with every status that is right for them. None is an empty list of answers.
var framing = []struct {
	name, raw string
	want      []int
}{
	{"Content-Length and Transfer-Encoding", request("POST", "/api/x", []string{"Host: gateway.example", fmt.Sprintf("Content-Length: %d", 5+len(smuggled)), "Transfer-Encoding: chunked"}, "0\r\n\r\n"+smuggled), []int{400}},
	{"the same on an open route", request("POST", "/open/x", []string{"Host: gateway.example", fmt.Sprintf("Content-Length: %d", 5+len(smuggled)), "Transfer-Encoding: chunked"}, "0\r\n\r\n"+smuggled), []int{400}},
	{"Transfer-Encoding twice", request("POST", "/open/x", []string{"Host: gateway.example", "Transfer-Encoding: chunked", "Transfer-Encoding: identity"}, "0\r\n\r\n"+smuggled), []int{400, 501}},
	{"an unknown Transfer-Encoding", request("POST", "/open/x", []string{"Host: gateway.example", "Transfer-Encoding: xchunked"}, "0\r\n\r\n"+smuggled), []int{400, 501}},
	{"two lengths", request("POST", "/open/x", []string{"Host: gateway.example", "Content-Length: 0", fmt.Sprintf("Content-Length: %d", len(smuggled))}, smuggled), []int{400}},
	{"two equal lengths", request("POST", "/open/x", []string{"Host: gateway.example", "Content-Length: 2", "Content-Length: 2"}, "hi"), []int{400}},
	{"a list of lengths", request("POST", "/open/x", []string{"Host: gateway.example", "Content-Length: 2, 2"}, "hi"), []int{400}},
	{"a negative length", request("POST", "/open/x", []string{"Host: gateway.example", "Content-Length: -1"}, "hi"), []int{400}},
	{"a signed length", request("POST", "/open/x", []string{"Host: gateway.example", "Content-Length: +2"}, "hi"), []int{400}},
	{"a chunk size that is no number", request("POST", "/open/x", []string{"Host: gateway.example", "Transfer-Encoding: chunked"}, "zz\r\nhi\r\n0\r\n\r\n"), []int{400}},
	{"two hosts", get("/api/x", "Host: other.example"), []int{400, 401}},
	{"no host", request("GET", "/api/x", nil, ""), []int{400}},
	{"a folded header", get("/api/x", "X-A: 1\r\n continued"), []int{400, 401}},
	{"a folded Authorization", get("/api/x", "Authorization: Bearer\r\n nothing"), []int{400, 401}},
	{"NUL in a value", get("/api/x", "X-A: a\x00b"), []int{400}},
	{"CR in a value", get("/api/x", "X-A: a\rX-Consumer-ID: spoofed"), []int{400, 401}},
	{"LF in a value", get("/api/x", "X-A: a\nX-B: b"), []int{400, 401}},
	{"a blank before the colon", get("/api/x", "X-A : a"), []int{400}},
	{"no colon", get("/api/x", "X-A"), []int{400}},
	{"a blank in the path", get("/api/x y"), []int{400}},
	{"NUL in the path", get("/api/\x00"), []int{400}},
	{"a header of 100 kB", get("/api/x", "X-A: "+strings.Repeat("a", 100<<10)), []int{431}},
	{"a path of 100 kB", get("/api/" + strings.Repeat("a", 100<<10)), []int{414, 431}},
	{"300 headers", get("/api/x", strings.Repeat("X-A: a\r\n", 300)+"X-B: b"), []int{431}},
	{"an Upgrade with a body", request("POST", "/api/x", []string{"Host: gateway.example", "Connection: Upgrade", "Upgrade: websocket", "Content-Length: 2"}, "hi"), []int{400, 401, 403}},
	{"an Upgrade to something unknown", get("/api/x", "Upgrade: foo"), []int{400, 401, 403}},
	{"an Upgrade to HTTP/2", get("/api/x", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"), []int{400, 401, 403}},
	{"CONNECT to a host", "CONNECT gateway.example:80 HTTP/1.1\r\nHost: gateway.example:80\r\n\r\n" + smuggled, []int{400, 404}},
	{"CONNECT with a path", "CONNECT /api/x HTTP/1.1\r\nHost: gateway.example\r\n\r\n", []int{400, 404}},
	{"HTTP/1.0 in chunks", "POST /open/x HTTP/1.0\r\nHost: gateway.example\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled, []int{400, 426}},
	{"HTTP/0.9", "GET /api/x\r\n\r\n", []int{400, 426}},
	{"an unknown version", "GET /api/x HTTP/9.9\r\nHost: gateway.example\r\n\r\n", []int{400, 426, 505}},
	{"bytes that are no HTTP", "\x16\x03\x01\x00\x00\r\n\r\n", []int{400}},
}

var _ = Describe("a request that two parsers could read differently", func() {
	for name, dial := range listeners {
		for _, t := range framing {
			It("gets nothing: "+t.name+", over "+name, func() {
				var got []answer
				Expect(guarded.during(func() { got = exchange(dial, t.raw) })).To(BeEmpty(), "it passed without a token")
				Expect(got).NotTo(BeEmpty())
				Expect(t.want).To(ContainElement(got[0].Status), "%v %v", statuses(got), got[0].Body)
				for _, a := range got[1:] {
					// What follows was read as a request of its own, and refused as one.
					Expect(a.Status).To(Equal(401), "%v", statuses(got))
				}
			})
		}
	}

	It("is not repaired by a good token", func() {
		token := f.MustMint(c.HTTPS)
		for _, raw := range []string{
			request("POST", "/api/x", []string{"Host: gateway.example", "Authorization: Bearer " + token, "Content-Length: 5", "Transfer-Encoding: chunked"}, "0\r\n\r\n"+smuggled),
			request("POST", "/api/x", []string{"Host: gateway.example", "Authorization: Bearer " + token, "Content-Length: 0", "Content-Length: 50"}, smuggled),
			get("/api/x", "Authorization: Bearer "+token, "X-A: a\x00b"),
		} {
			Expect(guarded.during(func() {
				Expect(statuses(exchange(listeners["plain TCP"], raw))).To(Equal([]int{400}))
			})).To(BeEmpty())
		}
	})
})

var _ = Describe("credentials", func() {
	both := func(check func(dial func() net.Conn)) {
		for name, dial := range listeners {
			By(name)
			check(dial)
		}
	}

	// Envoy shows repeated headers joined by a comma. The filter then sees no
	// token that anybody issued, whatever the order: the request is refused
	// rather than decided by one of them.
	It("in two Authorization headers are refused in any order", func() {
		good := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		both(func(dial func() net.Conn) {
			Expect(statuses(exchange(dial, get("/api/x", good)))).To(Equal([]int{200}))
			for _, lines := range [][]string{
				{good, "Authorization: Bearer bad"}, {"Authorization: Bearer bad", good}, {good, good},
				{good, "authorization: Basic eDp5"}, {"AUTHORIZATION: x", good},
			} {
				Expect(guarded.during(func() {
					Expect(statuses(exchange(dial, get("/api/x", lines...)))).To(Equal([]int{401}), "%v", lines)
				})).To(BeEmpty())
			}
			// An empty one adds nothing to the other.
			Expect(statuses(exchange(dial, get("/api/x", good, "Authorization:")))).To(Equal([]int{200}))
		})
	})

	It("are compared byte by byte", func() {
		token := f.MustMint(c.HTTPS)
		flipped := strings.ToUpper(token)
		if flipped == token {
			flipped = strings.ToLower(token)
		}
		both(func(dial func() net.Conn) {
			for _, value := range []string{
				"", " ", "Bearer", "Bearer ", "Bearer " + token + "x", "Bearer " + token[1:], "Bearer " + flipped, "Bearer " + token + " x",
				"Bearer\x85" + token, "Bearer \xff" + token, "Bearer " + token + "\xe2\x80\x8b", "Bearer %" + token, "Bearer \"" + token + "\"", "Bearer " + token + ",",
			} {
				Expect(guarded.during(func() {
					Expect(statuses(exchange(dial, get("/api/x", "Authorization: "+value)))).To(HaveExactElements(BeElementOf(400, 401)), "%q", value)
				})).To(BeEmpty(), "%q", value)
			}
		})
	})

	It("leave no header of a client's own invention", func() {
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		names := []string{}
		for _, h := range []string{
			"X-Consumer-ID", "X-Consumer-Custom-ID", "X-Consumer-Username", "X-Credential-Identifier", "X-Authenticated-Scope",
			"X-Authenticated-Userid", "X-Anonymous-Consumer", "X-Consumer-Groups", "X-Credential-Username", "X-Authenticated-Groups", "X-Meshgate-OAuth", "X-Meshgate-Anything", "X-Forwarded-Prefix", "X-Envoy-Original-Path",
		} {
			names = append(names, h, strings.ToUpper(h), strings.ReplaceAll(h, "-", "_"), strings.Replace(h, "-", "_", 1), "x-"+strings.ReplaceAll(h[2:], "-", "_"))
		}
		lines := []string{auth}
		for _, n := range names {
			lines = append(lines, n+": spoofed")
		}
		both(func(dial func() net.Conn) {
			for _, path := range []string{"/api/x", "/open/x"} {
				got := exchange(dial, get(path, lines...))
				Expect(statuses(got)).To(Equal([]int{200}))
				Expect(got[0].Body).NotTo(ContainSubstring("spoofed"), path)
			}
		})
	})

	// A parser may join a folded line or pass a lone CR on as a blank, but what
	// follows is never a header.
	It("cannot hide a header behind a lone CR or LF or in a folded line", func() {
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		both(func(dial func() net.Conn) {
			for _, sep := range []string{"\r", "\n ", "\r\n ", "\r\n\t", "\r\r", "\v", "\f"} {
				for _, path := range []string{"/api/x", "/open/x"} {
					got := exchange(dial, get(path, auth, "X-A: a"+sep+"X-Consumer-ID: spoofed"))
					Expect(got).To(HaveLen(1))
					Expect(got[0].Status).To(BeElementOf(200, 400), "%q", sep)
					if got[0].Status == 200 {
						Expect(decode(got[0].Body).Header.Get("X-Consumer-Id")).NotTo(ContainSubstring("spoofed"), "%q", sep)
					}
				}
			}
			for _, line := range []string{"\nX-Consumer-ID: spoofed", "\r\nx_consumer-id : spoofed"} {
				got := exchange(dial, get("/open/x", "X-A: a"+line))
				Expect(got).To(HaveLen(1))
				Expect(got[0].Body).NotTo(ContainSubstring("spoofed"), "%q", line)
			}
		})
	})

	It("may be surrounded by bytes that are no UTF-8", func() {
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		both(func(dial func() net.Conn) {
			got := exchange(dial, get("/api/x", auth, "X-A: \xff\xfe\x80"))
			Expect(statuses(got)).To(Equal([]int{200}))
			Expect(guarded.during(func() {
				Expect(statuses(exchange(dial, get("/api/x", "X-A: \xff\xfe\x80", "Authorization: \xff\xfe")))).To(Equal([]int{401}))
			})).To(BeEmpty())
		})
	})

	It("do not make the gateway believe who the client is", func() {
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		got := exchange(listeners["plain TCP"], get("/api/x", auth, "X-Forwarded-For: 10.9.8.7", "X-Real-IP: 10.9.8.7", "X-Forwarded-Proto: https",
			"x_forwarded_for: 10.9.8.7", "X_Real-IP: 10.9.8.7", "X-Forwarded-Host: evil.example", "X-Forwarded-Port: 1", "X-Forwarded-Path: /evil", "X-Envoy-External-Address: 10.9.8.7", "X-Envoy-Internal: true"))
		Expect(statuses(got)).To(Equal([]int{200}))
		h := decode(got[0].Body).Header
		Expect(h.Get("X-Real-Ip")).To(Equal("127.0.0.1"))
		Expect(h.Get("X-Forwarded-Proto")).To(Equal("http"))
		Expect(h.Get("X-Forwarded-Host")).To(Equal("gateway.example"))
		Expect(h.Get("X-Forwarded-Port")).To(Equal(fmt.Sprint(c.HTTP)))
		Expect(h.Get("X-Forwarded-Path")).To(Equal("/api/x"))
		// For a peer on loopback Envoy writes the machine's address.
		Expect(h.Values("X-Forwarded-For")).To(HaveLen(1))
		Expect(net.ParseIP(h.Get("X-Forwarded-For"))).NotTo(BeNil(), "one address and no list")
		for name, values := range h {
			Expect(values).NotTo(ContainElement(ContainSubstring("10.9.8.7")), name)
		}
	})

	It("do not lend a client on a private address Envoy's trust", func() {
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		both(func(dial func() net.Conn) {
			for _, path := range []string{"/api/x", "/open/x"} {
				got := exchange(dial, get(path, auth, "x-envoy-upstream-rq-timeout-ms: 1", "x-envoy-max-retries: 9", "x-envoy-retry-on: 5xx",
					"x-envoy-original-path: /spoofed", "x-envoy-decorator-operation: spoofed", "x-envoy-force-trace: 1", "x-envoy-internal: true",
					"x_envoy_internal: true", "x-envoy_internal: true", "x-envoy-external-address: 10.9.8.7"))
				Expect(statuses(got)).To(Equal([]int{200}))
				for name, values := range decode(got[0].Body).Header {
					if name == "X-Envoy-External-Address" { // the one that Envoy says itself
						Expect(values).NotTo(ContainElement("10.9.8.7"))
						continue
					}
					Expect(strings.ToLower(strings.ReplaceAll(name, "_", "-"))).NotTo(HavePrefix("x-envoy-"))
				}
			}
		})
	})

	// A gateway that believed this would ask the upstream again.
	It("do not buy a second attempt", func() {
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		both(func(dial func() net.Conn) {
			for path, u := range map[string]*upstream{"/api/" + failing: guarded, "/open/" + failing: open} {
				Expect(u.during(func() {
					Expect(statuses(exchange(dial, get(path, auth, "x-envoy-retry-on: 5xx", "x-envoy-max-retries: 9", "x-envoy-retriable-status-codes: 503",
						"x-envoy-retry-grpc-on: unavailable", "x_envoy_retry_on: 5xx", "x-envoy-hedge-on-per-try-timeout: true")))).To(Equal([]int{503}))
				})).To(HaveLen(1), path)
			}
		})
	})

	It("are for no TRACE, on no route", func() {
		auth := "Authorization: Bearer " + f.MustMint(c.HTTPS)
		both(func(dial func() net.Conn) {
			for _, path := range []string{"/api/x", "/open/x", "/api/oauth2/token"} {
				for _, method := range []string{"TRACE", "trace"} {
					Expect(guarded.during(func() {
						Expect(open.during(func() {
							got := exchange(dial, request(method, path, []string{"Host: gateway.example", auth, "Cookie: secret"}, ""))
							Expect(statuses(got)).To(HaveExactElements(BeElementOf(405, 400)), "%s %s", method, path)
							Expect(got[0].Body).NotTo(ContainSubstring("secret"))
						})).To(BeEmpty())
					})).To(BeEmpty())
				}
			}
		})
		got := exchange(listeners["plain TCP"], request("TRACE", "/open/x", []string{"Host: gateway.example"}, ""))
		Expect(got[0].Status).To(Equal(405))
		Expect(got[0].Header.Get("Allow")).To(ContainSubstring("GET"))
	})

	It("are needed for every method", func() {
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "PROPFIND", "get"} {
			Expect(guarded.during(func() {
				Expect(statuses(exchange(listeners["plain TCP"], request(method, "/api/x", []string{"Host: gateway.example"}, "")))).
					To(HaveExactElements(BeElementOf(400, 401)), method)
			})).To(BeEmpty(), method)
		}
		r, err := framework.Do(f.HTTP, http.MethodOptions, fmt.Sprintf("http://127.0.0.1:%d/api/x", c.HTTP), http.Header{"Origin": {"https://a.example"}, "Access-Control-Request-Method": {"GET"}}, "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(401), "a preflight is no exception")
	})
})

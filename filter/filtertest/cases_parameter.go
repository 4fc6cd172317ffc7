package filtertest

import "strings"

const (
	formType = "application/x-www-form-urlencoded"
	multi    = "multipart/form-data; boundary=b-1"
)

// sending returns a POST with a body.
func sending(path, contentType, body string, headers ...string) Request {
	r := request(path, headers...)
	r.Method, r.Body = "POST", body
	if contentType != "" {
		r.Headers = append(r.Headers, [2]string{"content-type", contentType})
	}
	return r
}

// by changes how a request is sent.
func by(r Request, change func(*Request)) Request {
	change(&r)
	return r
}

// part returns one part of a body of type multi.
func part(name, value string) string {
	return "--b-1\r\ncontent-disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n"
}

// padding fills a body up to a size, such as the largest size that is searched.
func padding(rest string, size int) string { return rest + strings.Repeat("x", size-len(rest)) }

// parameterCases: tokens in the query and in the body.
var parameterCases = []Case{
	{Name: "query", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full"), Want: wantFull},
	{Name: "query-among-others", Chain: chainPlain, Tokens: everyToken, Request: request("/a?b=c&access_token=token-full&d"), Want: wantFull},
	{Name: "query-encoded", Chain: chainPlain, Tokens: everyToken, Request: request("/?access%5ftoken=token%2Dfull"), Want: wantFull},
	{Name: "query-decoded", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=a+b%26c%3dd%25"), Want: wantGlobal},
	{Name: "query-post", Chain: chainPlain, Tokens: everyToken, Request: by(request("/?access_token=token-full"), func(r *Request) { r.Method = "DELETE" }), Want: wantFull},
	{Name: "query-unknown", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=nobody-knows"), Want: wantInvalid},
	{Name: "query-empty", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token="), Want: wantMissing},
	{Name: "query-valueless", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token"), Want: wantMissing},
	{Name: "query-repeated", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full&access_token=token-full"), Want: wantMissing},
	{Name: "query-repeated-encoded", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full&%61ccess_token=x"), Want: wantMissing},
	{Name: "query-bad-escape", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full%2"), Want: wantMissing},
	{Name: "query-semicolon", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full;x=1"), Want: wantMissing},
	{Name: "query-case", Chain: chainPlain, Tokens: everyToken, Request: request("/?Access_Token=token-full"), Want: wantMissing},
	{Name: "query-bearer-is-no-scheme", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=Bearer%20token-full"), Want: wantInvalid},
	{Name: "query-too-long", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=" + strings.Repeat("x", 5000)), Want: wantInvalid},
	{Name: "query-too-many", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full" + strings.Repeat("&a=1", 1000)), Want: wantMissing},
	{Name: "query-second-question-mark", Chain: chainPlain, Tokens: everyToken, Request: request("/??access_token=token-full"), Want: wantMissing},
	{Name: "header-beats-query", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full", "authorization", "Bearer nobody-knows"), Want: wantInvalid},
	{Name: "empty-header-beats-query", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full", "authorization", ""), Want: wantMissing},
	{Name: "custom-header-query", Chain: chainCustom, Tokens: everyToken, Request: request("/?access_token=token-full", "authorization", "Basic x"), Want: wantFull},
	{Name: "query-authority-down", Chain: chainPlain, Down: true, Request: request("/?access_token=token-full"), Want: wantUnavailable},
	{Name: "websocket-query", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=nobody-knows", handshake...), Want: wantInvalid},

	{Name: "form", Chain: chainPlain, Tokens: everyToken, Request: sending("/", formType, "a=b&access_token=token-full"), Want: wantFull},
	{Name: "form-charset", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "Application/X-WWW-Form-URLencoded; charset=utf-8", "access_token=token-full"), Want: wantFull},
	{Name: "form-put", Chain: chainPlain, Tokens: everyToken, Request: by(sending("/", formType, "access_token=token-full"), func(r *Request) { r.Method = "PUT" }), Want: wantFull},
	{Name: "form-patch", Chain: chainPlain, Tokens: everyToken, Request: by(sending("/", formType, "access_token=token-full"), func(r *Request) { r.Method = "PATCH" }), Want: wantFull},
	{Name: "form-delete", Chain: chainPlain, Tokens: everyToken, Request: by(sending("/", formType, "access_token=token-full"), func(r *Request) { r.Method = "DELETE" }), Want: wantMissing},
	{Name: "form-upgrade", Chain: chainPlain, Tokens: everyToken, Request: by(sending("/", formType, "access_token=token-full"),
		func(r *Request) {
			r.Headers = append(r.Headers, [2]string{"connection", "upgrade"}, [2]string{"upgrade", "websocket"})
		}), Want: wantMissing},
	{Name: "form-chunked", Chain: chainPlain, Tokens: everyToken, Request: by(sending("/", formType, "access_token=token-full"), func(r *Request) { r.Chunked = true }), Want: wantFull},
	{Name: "form-http2", Chain: chainPlain, Tokens: everyToken, Request: by(sending("/", formType, "access_token=token-full"), func(r *Request) { r.HTTP2 = true }), Want: wantFull},
	{Name: "form-trailers", Chain: chainPlain, Tokens: everyToken, Request: by(sending("/", formType, "access_token=token-full"), func(r *Request) { r.HTTP2, r.Trailers = true, true }), Want: wantFull},
	{Name: "form-trailers-refused", Chain: chainPlain, Tokens: everyToken, Request: by(sending("/", formType, "access_token=x"), func(r *Request) { r.HTTP2, r.Trailers = true, true }), Want: wantInvalid},
	{Name: "form-unknown", Chain: chainPlain, Tokens: everyToken, Request: sending("/", formType, "access_token=nobody-knows"), Want: wantInvalid},
	{Name: "form-repeated", Chain: chainPlain, Tokens: everyToken, Request: sending("/", formType, "access_token=token-full&access_token=x"), Want: wantMissing},
	{Name: "form-empty", Chain: chainPlain, Tokens: everyToken, Request: sending("/", formType, ""), Want: wantMissing},
	{Name: "form-query-first", Chain: chainPlain, Tokens: everyToken, Request: sending("/?access_token=nobody-knows", formType, "access_token=token-full"), Want: wantInvalid},
	{Name: "form-header-first", Chain: chainPlain, Tokens: everyToken, Request: sending("/", formType, "access_token=token-full", "authorization", "Basic x"), Want: wantInvalid},
	{Name: "form-anonymous", Chain: chainAnonymous, Tokens: everyToken, Request: sending("/", formType, "access_token=nobody-knows"), Want: wantAnonymous},
	{Name: "form-other-type", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "text/plain", "access_token=token-full"), Want: wantMissing},
	{Name: "form-no-type", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "", "access_token=token-full"), Want: wantMissing},
	{Name: "form-not-wanted", Chain: chainOf(noBody("")), Tokens: everyToken, Request: sending("/", formType, "access_token=token-full"), Want: wantMissing},
	{Name: "form-not-wanted-json", Chain: chainOf(noBody("")), Tokens: everyToken, Request: sending("/", "application/json", `{"access_token":"token-full"}`), Want: wantMissing},
	{Name: "form-not-wanted-query", Chain: chainOf(noBody("")), Tokens: everyToken, Request: sending("/?access_token=token-full", formType, "a=b"), Want: wantFull},
	{Name: "form-not-wanted-anonymous", Chain: chainOf(noBody(orAnonymous)), Tokens: everyToken, Request: sending("/", formType, "access_token=token-full"), Want: wantAnonymous},
	{Name: "form-authority-down", Chain: chainPlain, Down: true, Request: sending("/", formType, "access_token=token-full"), Want: wantUnavailable},
	{Name: "form-largest", Chain: chainPlain, Tokens: everyToken, Request: sending("/", formType, padding("access_token=token-full&a=", 1<<20)), Want: wantFull},
	{Name: "form-largest-chunked", Chain: chainPlain, Tokens: everyToken,
		Request: by(sending("/", formType, padding("access_token=token-full&a=", 1<<20)), func(r *Request) { r.Chunked = true }), Want: wantFull},
	{Name: "form-too-large", Chain: chainPlain, Tokens: everyToken, Request: sending("/", formType, padding("access_token=token-full&a=", 1<<20+1)), Want: wantMissing},
	{Name: "form-too-large-chunked", Chain: chainPlain, Tokens: everyToken,
		Request: by(sending("/", formType, padding("access_token=token-full&a=", 1<<20+1)), func(r *Request) { r.Chunked = true }), Want: wantMissing},
	{Name: "form-much-too-large-anonymous", Chain: chainAnonymous, Tokens: everyToken,
		Request: by(sending("/", formType, padding("access_token=token-full&a=", 5<<20)), func(r *Request) { r.Chunked = true }), Want: wantAnonymous},

	{Name: "json", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", ` {"a":[1,{}],"access_token" : "token-full"} `), Want: wantFull},
	{Name: "json-escaped", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", `{"access\u005ftoken":"token\u002dfull"}`), Want: wantFull},
	{Name: "json-number", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", `{"access_token":1}`), Want: wantMissing},
	{Name: "json-list", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", `{"access_token":["token-full"]}`), Want: wantMissing},
	{Name: "json-null", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", `{"access_token":null}`), Want: wantMissing},
	{Name: "json-nested", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", `{"a":{"access_token":"token-full"}}`), Want: wantMissing},
	{Name: "json-repeated", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", `{"access_token":"token-full","access_token":"x"}`), Want: wantMissing},
	{Name: "json-malformed", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", `{"access_token":"token-full"`), Want: wantMissing},
	{Name: "json-top-level-list", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "application/json", `[{"access_token":"token-full"}]`), Want: wantMissing},

	{Name: "multipart", Chain: chainPlain, Tokens: everyToken, Request: sending("/", multi, part("a", "b")+part("access_token", "token-full")+"--b-1--\r\n"), Want: wantFull},
	{Name: "multipart-repeated", Chain: chainPlain, Tokens: everyToken, Request: sending("/", multi, part("access_token", "token-full")+part("access_token", "x")+"--b-1--\r\n"), Want: wantMissing},
	{Name: "multipart-cut", Chain: chainPlain, Tokens: everyToken, Request: sending("/", multi, part("access_token", "token-full")), Want: wantMissing},
	{Name: "multipart-file", Chain: chainPlain, Tokens: everyToken,
		Request: sending("/", multi, part("access_token\"; filename=\"f", "token-full")+"--b-1--\r\n"), Want: wantMissing},
	{Name: "multipart-no-boundary", Chain: chainPlain, Tokens: everyToken, Request: sending("/", "multipart/form-data", part("access_token", "token-full")+"--b-1--\r\n"), Want: wantMissing},
}

// hiddenParameterCases: what upstreams see of credentials outside of headers.
var hiddenParameterCases = []Case{
	{Name: "query-shown", Chain: chainPlain, Tokens: everyToken, Request: request("/?access_token=token-full"), Want: wantFull},
	{Name: "query-hidden", Chain: chainHide, Tokens: everyToken, Request: request("/a?access_token=token-full"), Want: with(wantFull, "/a", "")},
	{Name: "query-hidden-others-stay", Chain: chainHide, Tokens: everyToken, Request: request("/a?b=%41&access_token=token-full&&c"), Want: with(wantFull, "/a?b=%41&&c", "")},
	{Name: "query-hidden-encoded", Chain: chainHide, Tokens: everyToken, Request: request("/a?%61ccess_token=token-full&b"), Want: with(wantFull, "/a?b", "")},
	{Name: "query-hidden-anonymous", Chain: chainHideAnonymous, Tokens: everyToken, Request: request("/a?access_token=nobody-knows"), Want: with(wantAnonymous, "/a", "")},
	{Name: "query-hidden-repeated", Chain: chainHideAnonymous, Tokens: everyToken, Request: request("/a?access_token=token-full&b=c&access_token=x"), Want: with(wantAnonymous, "/a?b=c", "")},
	{Name: "hidden-header-keeps-query", Chain: chainHide, Tokens: everyToken, Request: request("/a?access_token=x", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "hidden-bare-header-and-query", Chain: chainHide, Tokens: everyToken, Request: request("/a?access_token=x", "authorization", "token-full"),
		Want: Want{Outcome: Proxied, Upstream: wantFull.Upstream, NoUpstream: []string{"authorization"}, Path: "/a"}},
	{Name: "form-hidden", Chain: chainHide, Tokens: everyToken, Request: sending("/", formType, "a=%41&access_token=token-full&b=c"), Want: with(wantFull, "", "a=%41&b=c")},
	{Name: "form-hidden-chunked", Chain: chainHide, Tokens: everyToken,
		Request: by(sending("/", formType, "access_token=token-full&b=c"), func(r *Request) { r.Chunked = true }), Want: with(wantFull, "", "b=c")},
	{Name: "form-hidden-trailers", Chain: chainHide, Tokens: everyToken,
		Request: by(sending("/", formType, "access_token=token-full&b=c"), func(r *Request) { r.HTTP2, r.Trailers = true, true }), Want: with(wantFull, "", "b=c")},
	{Name: "form-hidden-whole", Chain: chainHide, Tokens: everyToken, Request: sending("/", formType, "access_token=token-full"), Want: with(wantFull, "", Nothing)},
	{Name: "form-hidden-whole-http2", Chain: chainHide, Tokens: everyToken,
		Request: by(sending("/", formType, "access_token=token-full"), func(r *Request) { r.HTTP2 = true }), Want: with(wantFull, "", Nothing)},
	{Name: "form-hidden-large", Chain: chainHide, Tokens: everyToken, Request: sending("/", formType, padding("access_token=token-full&a=", 900_000)),
		Want: with(wantFull, "", padding("a=", 900_000-len("access_token=token-full&")))},
	{Name: "form-hidden-anonymous", Chain: chainHideAnonymous, Tokens: everyToken, Request: sending("/", formType, "access_token=nobody-knows&a=b"), Want: with(wantAnonymous, "", "a=b")},
	{Name: "json-not-hidden", Chain: chainHide, Tokens: everyToken, Request: sending("/", "application/json", `{"access_token":"token-full"}`), Want: wantFull},
	{Name: "multipart-not-hidden", Chain: chainHide, Tokens: everyToken, Request: sending("/", multi, part("access_token", "token-full")+"--b-1--\r\n"), Want: wantFull},
	{Name: "nothing-to-hide", Chain: chainHideAnonymous, Tokens: everyToken, Request: sending("/?a=b&", formType, "a=b&&"), Want: wantAnonymous},
}

// with adds the path and body that must arrive.
func with(w Want, path, sent string) Want {
	w.Path, w.Sent = path, sent
	return w
}

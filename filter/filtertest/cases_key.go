package filtertest

import "strings"

// keyCases: where keys are found, and what is answered without a good one.
var keyCases = []Case{
	{Name: "key-none", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/"), Want: wantNoKey},
	{Name: "key-none-realm", Chain: chainOf(keyWith(`,"realm":"r"`)), Tokens: everyToken, Request: request("/"),
		Want: Want{Outcome: Refused, Status: 403, Body: bodyNoKey, Headers: [][2]string{{"www-authenticate", `Key realm="r"`}}}},
	{Name: "key-unknown", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "apikey", "nobody"), Want: wantBadKey},
	{Name: "key-unknown-realm", Chain: chainOf(keyWith(`,"realm":"r"`)), Tokens: everyToken, Request: request("/", "apikey", "nobody"),
		Want: Want{Outcome: Refused, Status: 401, Body: bodyBadKey, Headers: [][2]string{{"www-authenticate", `Key realm="r"`}}}},
	{Name: "key-authority-down", Chain: chainOf(keyWith("")), Down: true, Request: request("/", "apikey", "key-1"), Want: wantUnavailable},
	{Name: "key-header", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "apikey", "key-1"), Want: wantKey},
	{Name: "key-header-case", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "APIkey", "key-1"), Want: wantKey},
	{Name: "key-second-name", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "x-key", "key-1"), Want: wantKey},
	{Name: "key-first-name-wins", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?apikey=key-1", "x-key", "nobody"), Want: wantKey},
	{Name: "key-header-before-query", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?apikey=nobody", "apikey", "key-1"), Want: wantKey},
	{Name: "key-empty-header", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?apikey=key-1", "apikey", ""), Want: wantNoKey},
	{Name: "key-header-twice", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "apikey", "key-1", "apikey", "key-1"), Want: wantTwoKeys},
	{Name: "key-too-long", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "apikey", strings.Repeat("x", 5000)), Want: wantBadKey},
	{Name: "key-query", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?apikey=key%2d1"), Want: wantKey},
	{Name: "key-query-case", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?ApiKey=key-1"), Want: wantKey},
	{Name: "key-query-twice", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?apikey=key-1&apikey=key-1"), Want: wantTwoKeys},
	{Name: "key-query-empty", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?apikey="), Want: wantNoKey},
	{Name: "key-query-valueless", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?apikey", "x-key", "key-1"), Want: wantKey},
	{Name: "key-query-too-long", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/?apikey=" + strings.Repeat("x", 5000)), Want: wantBadKey},
	{Name: "key-query-off", Chain: chainOf(keyOnly("in_header")), Tokens: everyToken, Request: request("/?apikey=key-1"), Want: wantNoKey},
	{Name: "key-header-off", Chain: chainOf(keyOnly("in_query")), Tokens: everyToken, Request: request("/", "apikey", "key-1"), Want: wantNoKey},
	{Name: "key-body-off", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: sending("/", formType, "apikey=key-1"), Want: wantNoKey},
	{Name: "key-form", Chain: chainOf(keyOnly("in_body")), Tokens: everyToken, Request: sending("/", formType, "apikey=key-1"), Want: wantKey},
	{Name: "key-form-twice", Chain: chainOf(keyOnly("in_body")), Tokens: everyToken, Request: sending("/", formType, "apikey=key-1&apikey=a"), Want: wantTwoKeys},
	{Name: "key-json", Chain: chainOf(keyOnly("in_body")), Tokens: everyToken, Request: sending("/", "application/json", `{"apikey":"key-1"}`), Want: wantKey},
	{Name: "key-json-list", Chain: chainOf(keyOnly("in_body")), Tokens: everyToken, Request: sending("/", "application/json", `{"apikey":["key-1"]}`), Want: wantTwoKeys},
	{Name: "key-multipart", Chain: chainOf(keyOnly("in_body")), Tokens: everyToken, Request: sending("/", multi, part("apikey", "key-1")+"--b-1--"), Want: wantKey},
	{Name: "key-body-after-lookup", Chain: chainOf(oauth2With(""), keyOnly("in_body")), Tokens: everyToken,
		Request: sending("/", formType, "apikey=key-1", "authorization", "Bearer token-full"), Want: wantBoth},
	{Name: "key-body-after-lookup-trailers", Chain: chainOf(oauth2With(""), keyOnly("in_body")), Tokens: everyToken,
		Request: by(sending("/", formType, "apikey=key-1", "authorization", "Bearer token-full"), func(r *Request) { r.HTTP2, r.Trailers = true, true }), Want: wantBoth},
	{Name: "key-body-too-large-after-lookup", Chain: chainOf(oauth2With(""), keyOnly("in_body")), Tokens: everyToken,
		Request: by(sending("/", formType, padding("apikey=key-1&a=", 5<<20), "authorization", "Bearer token-full"), func(r *Request) { r.Chunked = true }), Want: wantNoKey},

	{Name: "key-shown", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "apikey", "key-1"),
		Want: Want{Outcome: Proxied, Upstream: append([][2]string{{"apikey", "key-1"}}, wantKey.Upstream...)}},
	{Name: "key-hidden-header", Chain: chainOf(keyWith(hide)), Tokens: everyToken, Request: request("/a?apikey=x&b", "apikey", "key-1", "x-key", "other"),
		Want: Want{Outcome: Proxied, NoUpstream: []string{"apikey"}, Path: "/a?b", Upstream: append([][2]string{{"x-key", "other"}}, wantKey.Upstream...)}},
	{Name: "key-hidden-query", Chain: chainOf(keyWith(hide)), Tokens: everyToken, Request: request("/a?b=c&APIKEY=key-1"), Want: with(wantKey, "/a?b=c", "")},
	{Name: "key-hidden-form", Chain: chainOf(keyOnly("in_body", hide)), Tokens: everyToken, Request: sending("/", formType, "a=b&apikey=key-1"), Want: with(wantKey, "", "a=b")},
	{Name: "key-hidden-json", Chain: chainOf(keyOnly("in_body", hide)), Tokens: everyToken,
		Request: sending("/", "application/json", `{ "a" : [1, 2], "apikey":"key-1", "b":{} }`), Want: with(wantKey, "", `{"a" : [1, 2],"b":{}}`)},
	{Name: "key-hidden-multipart", Chain: chainOf(keyOnly("in_body", hide)), Tokens: everyToken,
		Request: sending("/", multi, part("a", "b")+part("apikey", "key-1")+part("c", "")+"--b-1--\r\n"), Want: with(wantKey, "", part("a", "b")+part("c", "")+"--b-1--\r\n")},
	{Name: "key-hidden-anonymous", Chain: chainOf(keyWith(hide + orAnonymous)), Tokens: everyToken, Request: request("/a", "apikey", "nobody"),
		Want: Want{Outcome: Proxied, NoUpstream: []string{"apikey"}, Upstream: wantAnonymous.Upstream}},

	{Name: "key-preflight", Chain: chainOf(keyWith(`,"skip_preflight":true`)), Request: by(spoofing("/", "apikey", "nobody"), func(r *Request) { r.Method = "OPTIONS" }), Want: Want{Outcome: Proxied}},
	{Name: "key-preflight-get", Chain: chainOf(keyWith(`,"skip_preflight":true`)), Request: request("/"), Want: wantNoKey},
	{Name: "key-no-preflight", Chain: chainOf(keyWith("")), Request: by(request("/"), func(r *Request) { r.Method = "OPTIONS" }), Want: wantNoKey},
	{Name: "key-spoofed", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: spoofing("/", "apikey", "key-1"), Want: wantKey},
	{Name: "key-spoofed-anonymous", Chain: chainOf(keyWith(orAnonymous)), Tokens: everyToken, Request: spoofing("/"), Want: wantAnonymous},
	{Name: "key-anonymous-missing", Chain: chainOf(keyWith(`,"anonymous":{"configured":"ghost"}`)), Request: request("/"),
		Want: Want{Outcome: Refused, Status: 500, Body: `{"message":"anonymous consumer ghost is configured but doesn't exist"}`}},
	{Name: "key-no-oauth2", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/oauth2/token"), Want: wantNoKey},

	{Name: "token-is-no-key", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "apikey", "token-full"), Want: wantBadKey},
	{Name: "key-is-no-token", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer key-1"), Want: wantInvalid},
	{Name: "same-text-as-key", Chain: chainOf(keyWith("")), Tokens: everyToken, Request: request("/", "apikey", "twice"), Want: wantKey},
	{Name: "same-text-as-token", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "twice"), Want: wantGlobal},
}

const (
	hide        = `,"hide_credentials":true`
	oneConsumer = `,"one_consumer":true`
)

var wantOthers = Want{Outcome: Refused, Status: 403, Body: `{"message":"The credentials belong to different consumers"}`,
	Headers: [][2]string{{"content-type", jsonType}}}

// keyOnly returns a key-auth plugin that looks in one place.
func keyOnly(place string, members ...string) string {
	return `{"id":"` + KeyPluginID + `","key_auth":{"names":["apikey"],"` + place + `":true` + strings.Join(members, "") + `}}`
}

// bothCases: two plugins that both demand a credential.
var bothCases = []Case{
	{Name: "and-both", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full", "apikey", "key-1"), Want: wantBoth},
	{Name: "and-both-global", Chain: chainOf(oauth2With(`,"global":true`), keyWith("")), Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-global", "apikey", "key-1"), Want: wantKey},
	{Name: "and-none", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: request("/"), Want: wantMissing},
	{Name: "and-only-token", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantNoKey},
	{Name: "and-only-key", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: request("/", "apikey", "key-1"), Want: wantMissing},
	{Name: "and-bad-key", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full", "apikey", "x"), Want: wantBadKey},
	{Name: "and-bad-token", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: request("/", "authorization", "Bearer x", "apikey", "key-1"), Want: wantInvalid},
	{Name: "and-both-in-query", Chain: chainOf(oauth2With(hide), keyWith(hide)), Tokens: everyToken, Request: request("/a?apikey=key-1&b=c&access_token=token-full"), Want: with(wantBoth, "/a?b=c", "")},
	{Name: "and-both-in-form", Chain: chainOf(oauth2With(hide), keyOnly("in_body", hide)), Tokens: everyToken,
		Request: sending("/", formType, "apikey=key-1&b=c&access_token=token-full"), Want: with(wantBoth, "", "b=c")},
	{Name: "and-one-consumer", Chain: chainOf(oauth2With(oneConsumer), keyWith("")), Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full", "apikey", "key-1"), Want: wantOthers},
	{Name: "and-one-consumer-key-first", Chain: chainOf(keyWith(""), oauth2With(oneConsumer)), Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full", "apikey", "key-1"), Want: wantOthers},
	{Name: "and-one-consumer-same", Chain: chainOf(oauth2With(oneConsumer), keyWith("")), Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-carol", "apikey", "key-1"), Want: wantKey},
	{Name: "and-one-consumer-external", Chain: chainOf(oauth2With(oneConsumer), keyWith("")), Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-external", "apikey", "key-1"), Want: wantKey},
	{Name: "or-one-consumer", Chain: chainOf(oauth2With(oneConsumer+orAnonymous), keyWith(otherAnonymous)), Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full", "apikey", "key-1"), Want: wantFull},
	{Name: "and-authority-down", Chain: chainOf(oauth2With(""), keyWith("")), Down: true, Request: request("/", "authorization", "Bearer token-full", "apikey", "key-1"), Want: wantUnavailable},
	{Name: "and-preflight-token", Chain: chainOf(oauth2With(""), keyWith(`,"skip_preflight":true`)), Tokens: everyToken,
		Request: by(request("/", "authorization", "Bearer token-full"), func(r *Request) { r.Method = "OPTIONS" }), Want: wantFull},
	{Name: "and-issue-without-key", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: sending("/oauth2/token", "", ""), Want: wantNoKey},
	{Name: "and-issue-bad-key", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: sending("/oauth2/authorize", "", "", "apikey", "x"), Want: wantBadKey},
	{Name: "and-issue", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: sending("/oauth2/token", "", "", "apikey", "key-1"), Want: wantIssued},
	{Name: "and-issue-hidden-form", Chain: chainOf(oauth2With(""), keyOnly("in_body", hide)), Tokens: everyToken,
		Request: sending("/oauth2/token", formType, "grant_type=password&apikey=key-1"), Want: with(wantIssued, "", "grant_type=password")},
	{Name: "and-issue-spoofed", Chain: chainOf(oauth2With(""), keyWith("")), Tokens: everyToken, Request: spoofing("/oauth2/token", "apikey", "key-1"), Want: wantIssued},
	{Name: "and-issue-authority-down", Chain: chainOf(oauth2With(""), keyWith("")), Down: true, Request: request("/oauth2/token", "apikey", "key-1"), Want: wantUnavailable},
	{Name: "and-key-first", Chain: chainOf(keyWith(""), oauth2With("")), Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full", "apikey", "key-1"), Want: wantFull},
}

// eitherCases: two plugins of which one must accept, or the anonymous consumer is used.
var eitherCases = []Case{
	{Name: "or-token", Chain: chainEither, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "or-key", Chain: chainEither, Tokens: everyToken, Request: request("/", "apikey", "key-1"), Want: wantKey},
	{Name: "or-key-bad-token", Chain: chainEither, Tokens: everyToken, Request: request("/", "authorization", "Bearer x", "apikey", "key-1"), Want: wantKey},
	{Name: "or-both", Chain: chainEither, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full", "apikey", "key-1"), Want: wantFull},
	{Name: "or-bad-key", Chain: chainEither, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full", "apikey", "x"), Want: wantFull},
	{Name: "or-none", Chain: chainEither, Tokens: everyToken, Request: request("/"), Want: wantOther},
	{Name: "or-both-bad", Chain: chainEither, Tokens: everyToken, Request: spoofing("/", "authorization", "Bearer x", "apikey", "x"), Want: wantOther},
	{Name: "or-external-token", Chain: chainEither, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-external", "apikey", "key-1"),
		Want: Want{Outcome: Proxied, Upstream: [][2]string{{"x-credential-identifier", "client-1"}}}},
	{Name: "or-unbound-token", Chain: chainEither, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-global", "apikey", "key-1"), Want: wantUnbound},
	{Name: "or-key-in-query", Chain: chainEither, Tokens: everyToken, Request: request("/?apikey=key-1", "authorization", "Bearer x"), Want: wantKey},
	{Name: "or-key-in-form", Chain: chainOf(oauth2With(orAnonymous), keyOnly("in_body", otherAnonymous)), Tokens: everyToken,
		Request: sending("/", formType, "apikey=key-1", "authorization", "Bearer x"), Want: wantKey},
	{Name: "or-authority-down", Chain: chainEither, Down: true, Request: request("/", "apikey", "key-1"), Want: wantUnavailable},
	{Name: "or-issue", Chain: chainEither, Tokens: everyToken, Request: request("/oauth2/token"), Want: wantIssued},
	{Name: "or-forbidden-anonymous", Chain: chainOf(oauth2With(orAnonymous), keyWith(otherAnonymous), endWith(`"consumers":{"`+OtherID+`":{"status":403,"body":"no"}}`)),
		Request: request("/"), Want: Want{Outcome: Refused, Status: 403, Body: "no", Headers: [][2]string{{"content-type", jsonType}}}},
	{Name: "or-forbidden-anonymous-token", Chain: chainOf(oauth2With(orAnonymous), keyWith(otherAnonymous), endWith(`"consumers":{"`+OtherID+`":{"status":403,"body":"no"}}`)),
		Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
}

var chainEither = chainOf(oauth2With(orAnonymous), keyWith(otherAnonymous))

package filtertest

// tokenCases: where the token is found, and the answer if it is missing.
var tokenCases = []Case{
	{Name: "no-token", Chain: chainPlain, Request: Request{Path: "/"}, Want: wantMissing},
	{Name: "no-token-options", Chain: chainPlain, Request: Request{Method: "OPTIONS", Path: "/"}, Want: wantMissing},
	{Name: "no-token-realm", Chain: chainRealm, Request: Request{Path: "/"}, Want: Want{Outcome: Refused, Status: 401, Body: bodyMissing,
		Headers: [][2]string{{"content-type", jsonType}, {"www-authenticate", `Bearer realm="the realm"`}}}},
	{Name: "no-token-evil-realm", Chain: chainEvilRealm, Request: Request{Path: "/"}, Want: Want{Outcome: Refused, Status: 401, Body: bodyMissing,
		Headers: [][2]string{{"www-authenticate", `Bearer realm="a\"b\\c  x-evil: 1"`}}, NoHeaders: []string{"x-evil"}}},
	{Name: "empty-header", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", ""), Want: wantMissing},
	{Name: "unknown-token", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer nobody-knows"), Want: wantInvalid},
	{Name: "unknown-token-realm", Chain: chainRealm, Tokens: everyToken, Request: request("/", "authorization", "Bearer nobody-knows"),
		Want: Want{Outcome: Refused, Status: 401, Body: bodyInvalid, Headers: [][2]string{{"content-type", jsonType},
			{"www-authenticate", `Bearer realm="the realm", error="invalid_token", error_description="The access token is invalid or has expired"`}}}},
	{Name: "bearer", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "bearer-post", Chain: chainPlain, Tokens: everyToken,
		Request: Request{Method: "POST", Path: "/a?b=c", Headers: [][2]string{{"authorization", "Bearer token-full"}}}, Want: wantFull},
	{Name: "bearer-lower-case", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "bearer token-full"), Want: wantFull},
	{Name: "bearer-upper-case", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "BEARER token-full"), Want: wantFull},
	{Name: "scheme-token", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "tOkEn token-full"), Want: wantFull},
	{Name: "many-blanks", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer   \t token-full"), Want: wantFull},
	{Name: "bare-token", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "token-full"), Want: wantFull},
	{Name: "token-case-matters", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer Token-Full"), Want: wantInvalid},
	{Name: "scheme-alone-is-a-token", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "bearer"),
		Want: Want{Outcome: Proxied, Upstream: wantGlobal.Upstream}},
	{Name: "three-words", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full token-full"), Want: wantInvalid},
	{Name: "other-scheme", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Basic dG9rZW4tZnVsbA=="), Want: wantInvalid},
	{Name: "other-scheme-good-token", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Digest token-full"), Want: wantInvalid},
	{Name: "scheme-prefix", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "BearerX token-full"), Want: wantInvalid},
	{Name: "no-separator", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer:token-full"), Want: wantInvalid},
	{Name: "two-headers", Chain: chainPlain, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full", "authorization", "Bearer token-global"), Want: wantInvalid},
	{Name: "two-headers-bad-first", Chain: chainPlain, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer nobody-knows", "authorization", "Bearer token-full"), Want: wantInvalid},
	{Name: "custom-header", Chain: chainCustom, Tokens: everyToken, Request: request("/", "x-api-token", "Bearer token-full"), Want: wantFull},
	{Name: "custom-header-mixed-case", Chain: chainCustom, Tokens: everyToken, Request: request("/", "X-Api-Token", "token-full"), Want: wantFull},
	{Name: "custom-header-not-authorization", Chain: chainCustom, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full"), Want: wantMissing},
	{Name: "custom-header-twin", Chain: chainCustom, Tokens: everyToken, Request: request("/", "x_api_token", "Bearer token-full"), Want: wantMissing},
	{Name: "not-proxy-authorization", Chain: chainPlain, Tokens: everyToken,
		Request: request("/", "x-authorization", "Bearer token-full"), Want: wantMissing},
}

// acceptanceCases: which tokens are good for which service.
var acceptanceCases = []Case{
	{Name: "expired", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-expired"), Want: wantInvalid},
	{Name: "bound-plain", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "bound-global", Chain: chainGlobal, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "unbound-plain", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-global"), Want: wantUnbound},
	{Name: "unbound-global", Chain: chainGlobal, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-global"), Want: wantGlobal},
	{Name: "other-service-plain", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-other-service"), Want: wantInvalid},
	{Name: "other-service-global", Chain: chainGlobal, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-other-service"), Want: wantInvalid},
	{Name: "no-service-bound", Chain: chainNoService, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantInvalid},
	{Name: "no-service-unbound", Chain: chainNoService, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-global"), Want: wantUnbound},
	{Name: "no-service-global", Chain: chainNoGlobal, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-global"), Want: wantGlobal},
	{Name: "no-service-global-bound", Chain: chainNoGlobal, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantInvalid},
}

// request returns a GET with the given names and values of headers.
func request(path string, headers ...string) Request {
	r := Request{Path: path}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers = append(r.Headers, [2]string{headers[i], headers[i+1]})
	}
	return r
}

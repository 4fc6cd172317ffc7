package filtertest

// failureCases: a request that cannot be decided is refused.
var failureCases = []Case{
	{Name: "authority-down", Chain: chainPlain, Down: true, Request: request("/", "authorization", "Bearer token-full"), Want: wantUnavailable},
	{Name: "authority-down-no-token", Chain: chainPlain, Down: true, Request: request("/"), Want: wantMissing},

	{Name: "record-injecting", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-injecting"), Want: wantUnusable},
	{Name: "record-injecting-anonymous", Chain: chainAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-injecting"), Want: wantUnusable},
	{Name: "record-padded", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-padded"), Want: wantUnusable},

	{Name: "chain-empty", Chain: ``, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-no-json", Chain: `{"route":`, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-null", Chain: `null`, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-no-plugins", Chain: `{"route":"` + RouteID + `","plugins":[]}`, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-unknown-plugin", Chain: `{"route":"` + RouteID + `","plugins":[{"id":"` + PluginID + `","unheard_of":{}}]}`, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-unknown-setting", Chain: before + `"header":"authorization","global_credentials":true` + after, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-trailing-data", Chain: chainPlain + chainGlobal, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-no-header", Chain: before + `"realm":"x"` + after, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-bad-header", Chain: before + `"header":":path"` + after, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-reserved-header", Chain: before + `"header":"x-consumer-id"` + after, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full"), Want: wantBroken},
	{Name: "chain-broken-issuing", Chain: `{}`, Request: request("/oauth2/token"), Want: wantBroken},
	{Name: "chain-broken-spoofed", Chain: `{}`, Request: spoofing("/"), Want: wantBroken},

	{Name: "grpc-missing", Chain: chainRealm, Request: grpc("/pkg.Service/Method"),
		Want: Want{Outcome: Refused, GRPCStatus: "16", GRPCMessage: "Unauthenticated",
			Headers: [][2]string{{"www-authenticate", `Bearer realm="the realm"`}}}},
	{Name: "grpc-invalid", Chain: chainPlain, Tokens: everyToken, Request: grpc("/pkg.Service/Method", "authorization", "bearer nobody-knows"),
		Want: Want{Outcome: Refused, GRPCStatus: "16", GRPCMessage: "Unauthenticated", Headers: [][2]string{{"www-authenticate", challengeInvalid}}}},
	{Name: "grpc-accepted", Chain: chainPlain, Tokens: everyToken, Request: grpc("/pkg.Service/Method", "authorization", "bearer token-full"), Want: wantFull},
	{Name: "grpc-authority-down", Chain: chainPlain, Down: true, Request: grpc("/pkg.Service/Method", "authorization", "bearer token-full"),
		Want: Want{Outcome: Refused, GRPCStatus: "14", GRPCMessage: "Unavailable"}},
	{Name: "grpc-broken", Chain: `{}`, Request: grpc("/pkg.Service/Method"),
		Want: Want{Outcome: Refused, GRPCStatus: "14", GRPCMessage: "Unavailable"}},
	{Name: "grpc-anonymous-missing", Chain: chainNoAnonymous, Request: grpc("/pkg.Service/Method"),
		Want: Want{Outcome: Refused, GRPCStatus: "13", GRPCMessage: "Internal"}},
}

// grpc returns the request of a gRPC call.
func grpc(path string, headers ...string) Request {
	r := request(path, append([]string{"content-type", "application/grpc", "te", "trailers"}, headers...)...)
	r.Method, r.HTTP2 = "POST", true
	return r
}

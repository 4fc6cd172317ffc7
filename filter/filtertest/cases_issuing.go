package filtertest

var wantIssued = Want{Outcome: Issued, Upstream: [][2]string{
	{"x-meshgate-oauth", PluginID}, {"x-meshgate-service", ServiceID}, {"x-meshgate-scheme", "http"}}}

// issuingCases: which paths go to the OAuth server, and what it is told.
var issuingCases = []Case{
	{Name: "issue-token", Chain: chainPlain, Request: Request{Method: "POST", Path: "/oauth2/token"}, Want: wantIssued},
	{Name: "issue-authorize", Chain: chainPlain, Request: Request{Method: "POST", Path: "/oauth2/authorize"}, Want: wantIssued},
	{Name: "issue-get", Chain: chainPlain, Request: request("/oauth2/token"), Want: wantIssued},
	{Name: "issue-prefix", Chain: chainPlain, Request: request("/some/path/oauth2/token"), Want: wantIssued},
	{Name: "issue-slash", Chain: chainPlain, Request: request("/oauth2/token/"), Want: wantIssued},
	{Name: "issue-authorize-slash", Chain: chainPlain, Request: request("/oauth2/authorize/"), Want: wantIssued},
	{Name: "issue-query", Chain: chainPlain, Request: request("/oauth2/token?grant_type=password&x=/"), Want: wantIssued},
	{Name: "issue-slash-query", Chain: chainPlain, Request: request("/oauth2/authorize/?a"), Want: wantIssued},
	{Name: "issue-anonymous", Chain: chainAnonymous, Request: request("/oauth2/token"), Want: wantIssued},
	{Name: "issue-no-anonymous", Chain: chainNoAnonymous, Request: request("/oauth2/token"), Want: wantIssued},
	{Name: "issue-with-token", Chain: chainPlain, Tokens: everyToken, Request: request("/oauth2/token", "authorization", "Bearer nobody-knows"), Want: wantIssued},
	{Name: "issue-keeps-authorization", Chain: chainHide, Request: request("/oauth2/token", "authorization", "Basic eDp5"),
		Want: Want{Outcome: Issued, Upstream: append([][2]string{{"authorization", "Basic eDp5"}}, wantIssued.Upstream...)}},
	{Name: "issue-authority-down", Chain: chainPlain, Down: true, Request: request("/oauth2/token"), Want: wantIssued},
	{Name: "issue-no-service", Chain: chainNoGlobal, Request: request("/oauth2/token"),
		Want: Want{Outcome: Issued, Upstream: [][2]string{{"x-meshgate-oauth", PluginID}, {"x-meshgate-scheme", "http"}}}},
	{Name: "issue-spoofed", Chain: chainPlain, Request: spoofing("/oauth2/token"), Want: wantIssued},
	{Name: "issue-spoofed-no-service", Chain: chainNoGlobal, Request: spoofing("/oauth2/token"),
		Want: Want{Outcome: Issued, Upstream: [][2]string{{"x-meshgate-oauth", PluginID}, {"x-meshgate-scheme", "http"}}}},

	{Name: "path-dot-segments", Chain: chainPlain, Request: request("/oauth2/x/../token"), Want: wantIssued},
	{Name: "path-dot", Chain: chainPlain, Request: request("/oauth2/./token"), Want: wantIssued},
	{Name: "path-merged-slashes", Chain: chainPlain, Request: request("/oauth2//token//"), Want: wantIssued},
	{Name: "path-encoded-letter", Chain: chainPlain, Request: request("/oauth2/%74oken"), Want: wantIssued},
	{Name: "path-leaves-endpoint", Chain: chainPlain, Request: request("/oauth2/token/.."), Want: wantMissing},
	{Name: "path-leaves-endpoint-encoded", Chain: chainPlain, Request: request("/oauth2/token/%2e%2e/private"), Want: wantMissing},
	{Name: "path-encoded-slash", Chain: chainPlain, Request: request("/private%2Foauth2%2Ftoken"), Want: wantMissing},
	{Name: "path-encoded-slash-lower", Chain: chainPlain, Request: request("/oauth2%2ftoken"), Want: wantMissing},
	{Name: "path-doubly-encoded", Chain: chainPlain, Request: request("/oauth2/%2574oken"), Want: wantMissing},
	{Name: "path-encoded-question-mark", Chain: chainPlain, Request: request("/private%3Fx=/oauth2/token%3Fy"), Want: wantMissing},
	{Name: "path-in-query", Chain: chainPlain, Request: request("/private?x=/oauth2/token"), Want: wantMissing},
	{Name: "path-parameter", Chain: chainPlain, Request: request("/oauth2/token;x=1"), Want: wantMissing},
	{Name: "path-parameter-before", Chain: chainPlain, Request: request("/private;x=1/oauth2/token"), Want: wantIssued},
	{Name: "path-case", Chain: chainPlain, Request: request("/OAuth2/Token"), Want: wantMissing},
	{Name: "path-longer", Chain: chainPlain, Request: request("/oauth2/token/x"), Want: wantMissing},
	{Name: "path-longer-word", Chain: chainPlain, Request: request("/oauth2/tokens"), Want: wantMissing},
	{Name: "path-other-word", Chain: chainPlain, Request: request("/xoauth2/token"), Want: wantMissing},
	{Name: "path-encoded-blank", Chain: chainPlain, Request: request("/oauth2/token%20"), Want: wantMissing},
}

// guardedCases: if the route issues nothing, the path of an endpoint belongs to the service.
var guardedCases = []Case{
	{Name: "guarded-token", Chain: silent(oauth2With("")), Request: Request{Method: "POST", Path: "/orders/7/oauth2/token"}, Want: wantMissing},
	{Name: "guarded-authorize", Chain: silent(oauth2With("")), Request: request("/x/oauth2/authorize"), Want: wantMissing},
	{Name: "guarded-slash", Chain: silent(oauth2With("")), Request: spoofing("/oauth2/token/"), Want: wantMissing},
	{Name: "guarded-anonymous", Chain: silent(oauth2With(orAnonymous)), Request: spoofing("/oauth2/token"), Want: wantAnonymous},
	{Name: "guarded-unknown", Chain: silent(oauth2With("")), Request: request("/oauth2/token", "authorization", "Bearer nobody-knows"), Want: wantInvalid},
	{Name: "guarded-good", Chain: silent(oauth2With("")), Tokens: everyToken, Request: spoofing("/oauth2/token", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "guarded-further", Chain: silent(oauth2With(endpoints)), Request: request("/oauth2/introspect"), Want: wantMissing},
	{Name: "guarded-metadata", Chain: silent(oauth2With(endpoints)), Request: request("/.well-known/oauth-authorization-server"), Want: wantMissing},
	{Name: "guarded-metadata-dots", Chain: silent(oauth2With(endpoints)), Request: request("/.well-known/oauth-authorization-server/../../admin"), Want: wantMissing},
	{Name: "guarded-key", Chain: silent(oauth2With(""), keyWith("")), Tokens: everyToken, Request: request("/oauth2/token", "apikey", "key-1"), Want: wantMissing},
	{Name: "guarded-terminated", Chain: silent(oauth2With(""), endWith(`"default":{"status":403,"body":"no"}`)), Tokens: everyToken,
		Request: request("/oauth2/token", "authorization", "Bearer token-full"),
		Want:    Want{Outcome: Refused, Status: 403, Body: "no", Headers: [][2]string{{"content-type", jsonType}}}},
}

// furtherCases: the endpoints that a plugin may have in addition to the two issuing ones.
var furtherCases = []Case{
	{Name: "further-introspect", Chain: chainOf(oauth2With(endpoints)), Request: sending("/a/oauth2/introspect", formType, "token=x"), Want: wantIssued},
	{Name: "further-revoke", Chain: chainOf(oauth2With(endpoints)), Request: sending("/oauth2/revoke/", formType, "token=x"), Want: wantIssued},
	{Name: "further-token", Chain: chainOf(oauth2With(endpoints)), Request: request("/oauth2/token"), Want: wantIssued},
	{Name: "further-metadata", Chain: chainOf(oauth2With(endpoints)), Request: spoofing("/.well-known/oauth-authorization-server"), Want: wantIssued},
	{Name: "further-metadata-path", Chain: chainOf(oauth2With(endpoints)), Request: request("/.well-known/oauth-authorization-server/a/b?c"), Want: wantIssued},
	{Name: "further-metadata-longer", Chain: chainOf(oauth2With(endpoints)), Request: request("/.well-known/oauth-authorization-servers"), Want: wantMissing},
	{Name: "further-metadata-elsewhere", Chain: chainOf(oauth2With(endpoints)), Request: request("/a/.well-known/oauth-authorization-server"), Want: wantMissing},
	{Name: "further-introspect-key", Chain: chainOf(oauth2With(endpoints), keyWith("")), Tokens: everyToken, Request: sending("/oauth2/introspect", formType, "token=x"), Want: wantNoKey},
	{Name: "further-metadata-key", Chain: chainOf(oauth2With(endpoints), keyWith("")), Tokens: everyToken, Request: request("/.well-known/oauth-authorization-server"), Want: wantIssued},
	{Name: "further-off-introspect", Chain: chainPlain, Request: request("/oauth2/introspect"), Want: wantMissing},
	{Name: "further-off-revoke", Chain: chainPlain, Request: request("/oauth2/revoke"), Want: wantMissing},
	{Name: "further-off-metadata", Chain: chainPlain, Request: request("/.well-known/oauth-authorization-server"), Want: wantMissing},
	{Name: "further-off-below-metadata", Chain: chainPlain, Request: request("/.well-known/oauth-authorization-server/a/oauth2/token"), Want: wantMissing},
}

const endpoints = `,"endpoints":true`

package filtertest

// spoofedClient is the address in the spoofed headers.
const spoofedClient = "192.0.2.66"

// spoofed are headers with which a client claims to be somebody else, in spellings that some
// application servers take for the real one.
var spoofed = [][2]string{
	{"x-consumer-id", "root"}, {"x-consumer-custom-id", "root"}, {"x-consumer-username", "root"},
	{"x-credential-identifier", "root"}, {"x-authenticated-scope", "admin"}, {"x-authenticated-userid", "root"},
	{"x-anonymous-consumer", "true"},
	{"x_consumer_id", "root"}, {"x_consumer_custom_id", "root"}, {"x_consumer_username", "root"},
	{"x_credential_identifier", "root"}, {"x_authenticated_scope", "admin"}, {"x_authenticated_userid", "root"},
	{"x_anonymous_consumer", "true"},
	{"x-consumer_id", "root"}, {"x_consumer-id", "root"}, {"X_Consumer_Id", "root"}, {"x-consumer-custom_id", "root"},
	{"X-CONSUMER-ID", "root again"},
	{"x-consumer-groups", "admin"}, {"x_consumer-groups", "admin"}, {"x-credential-username", "root"}, {"x-authenticated-groups", "admin"},
	{"x_authenticated_groups", "admin"}, {"x_credential-x", "root"}, {"x-meshgate-anything", "evil"}, {"x_meshgate-anything", "evil"},
	{"x_forwarded_for", spoofedClient}, {"x-forwarded_proto", "https"}, {"x_real_ip", spoofedClient}, {"x_envoy_original_path", "/"},
	{"x-meshgate-oauth", "evil"}, {"x-meshgate-service", "evil"}, {"x-meshgate-scheme", "https"}, {"x-meshgate-client", spoofedClient},
	{"x_meshgate_oauth", "evil"}, {"x_meshgate_service", "evil"}, {"x_meshgate_scheme", "https"}, {"x_meshgate_client", spoofedClient},
}

func spoofing(path string, headers ...string) Request {
	r := request(path, headers...)
	r.Headers = append(r.Headers, spoofed...)
	return r
}

// upstreamCases: what upstreams learn, and what clients must not be able to fake.
var upstreamCases = []Case{
	{Name: "identity-full", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "identity-external", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-external"),
		Want: Want{Outcome: Proxied, Upstream: [][2]string{{"x-credential-identifier", "client-1"}}}},
	{Name: "identity-unicode", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-unicode"),
		Want: Want{Outcome: Proxied, Upstream: [][2]string{{"x-consumer-id", ConsumerID}, {"x-consumer-username", "Zoë van der Ünal"},
			{"x-credential-identifier", "client-1"}, {"x-authenticated-scope", "email"}}}},
	{Name: "spoofed-full", Chain: chainPlain, Tokens: everyToken, Request: spoofing("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "spoofed-partial", Chain: chainGlobal, Tokens: everyToken, Request: spoofing("/", "authorization", "Bearer token-global"), Want: wantGlobal},
	{Name: "spoofed-external", Chain: chainPlain, Tokens: everyToken, Request: spoofing("/", "authorization", "Bearer token-external"),
		Want: Want{Outcome: Proxied, Upstream: [][2]string{{"x-credential-identifier", "client-1"}}}},
	{Name: "spoofed-anonymous", Chain: chainAnonymous, Request: spoofing("/"), Want: wantAnonymous},
	{Name: "spoofed-refused", Chain: chainPlain, Request: spoofing("/"), Want: wantMissing},
	{Name: "spoofed-similar-names-stay", Chain: chainPlain, Tokens: everyToken,
		Request: request("/", "authorization", "Bearer token-full", "x-consumers", "1", "x-consumer", "2", "x-anonymous", "3"),
		Want: Want{Outcome: Proxied, Upstream: append([][2]string{{"x-consumers", "1"}, {"x-consumer", "2"}, {"x-anonymous", "3"}},
			wantFull.Upstream...)}},
}

// hiddenCases: what upstreams see of the credential itself.
var hiddenCases = []Case{
	{Name: "shown", Chain: chainPlain, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"),
		Want: Want{Outcome: Proxied, Upstream: append([][2]string{{"authorization", "Bearer token-full"}}, wantFull.Upstream...)}},
	{Name: "hidden", Chain: chainHide, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"),
		Want: Want{Outcome: Proxied, Upstream: wantFull.Upstream, NoUpstream: []string{"authorization"}}},
	{Name: "hidden-bare", Chain: chainHide, Tokens: everyToken, Request: request("/", "authorization", "token-full"),
		Want: Want{Outcome: Proxied, Upstream: wantFull.Upstream, NoUpstream: []string{"authorization"}}},
	{Name: "hidden-custom", Chain: chainHideCust, Tokens: everyToken,
		Request: request("/", "x-api-token", "Bearer token-full", "authorization", "Basic eDp5"),
		Want: Want{Outcome: Proxied, NoUpstream: []string{"x-api-token"},
			Upstream: append([][2]string{{"authorization", "Basic eDp5"}}, wantFull.Upstream...)}},
	{Name: "hidden-anonymous", Chain: chainHideAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer nobody-knows"),
		Want: Want{Outcome: Proxied, Upstream: wantAnonymous.Upstream, NoUpstream: []string{"authorization"}}},
	{Name: "hidden-anonymous-other-scheme", Chain: chainHideAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Basic eDp5"),
		Want: Want{Outcome: Proxied, Upstream: append([][2]string{{"authorization", "Basic eDp5"}}, wantAnonymous.Upstream...)}},
}

// anonymousCases: the fallback to a consumer without a credential.
var anonymousCases = []Case{
	{Name: "anonymous-no-token", Chain: chainAnonymous, Request: request("/"), Want: wantAnonymous},
	{Name: "anonymous-unknown-token", Chain: chainAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer nobody-knows"),
		Want: Want{Outcome: Proxied, Upstream: append([][2]string{{"authorization", "Bearer nobody-knows"}}, wantAnonymous.Upstream...)}},
	{Name: "anonymous-expired", Chain: chainAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-expired"), Want: wantAnonymous},
	{Name: "anonymous-other-service", Chain: chainAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-other-service"), Want: wantAnonymous},
	{Name: "anonymous-good-token", Chain: chainAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "anonymous-unbound-token", Chain: chainAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-global"), Want: wantUnbound},
	{Name: "anonymous-bare", Chain: chainBareAnonymous, Request: request("/"),
		Want: Want{Outcome: Proxied, Upstream: [][2]string{{"x-consumer-id", AnonymousID}, {"x-anonymous-consumer", "true"}}}},
	{Name: "anonymous-missing", Chain: chainNoAnonymous, Request: request("/"),
		Want: Want{Outcome: Refused, Status: 500, Headers: [][2]string{{"content-type", jsonType}}, NoHeaders: []string{"www-authenticate"},
			Body: `{"message":"anonymous consumer ghost\"<1> is configured but doesn't exist"}`}},
	{Name: "anonymous-missing-good-token", Chain: chainNoAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "anonymous-unusable", Chain: chainEvilAnonymous, Request: request("/"), Want: wantUnusable},
	{Name: "anonymous-unusable-good-token", Chain: chainEvilAnonymous, Tokens: everyToken, Request: request("/", "authorization", "Bearer token-full"), Want: wantFull},
	{Name: "anonymous-authority-down", Chain: chainAnonymous, Down: true, Request: request("/", "authorization", "Bearer token-full"), Want: wantUnavailable},
	{Name: "anonymous-authority-down-no-token", Chain: chainAnonymous, Down: true, Request: request("/"), Want: wantAnonymous},
}

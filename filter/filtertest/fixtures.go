package filtertest

import (
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
)

// Ids that the chains and records of the table use.
const (
	RouteID        = "00000000-0000-4000-8000-000000000001"
	ServiceID      = "00000000-0000-4000-8000-000000000002"
	OtherServiceID = "00000000-0000-4000-8000-000000000003"
	PluginID       = "00000000-0000-4000-8000-000000000004"
	ConsumerID     = "00000000-0000-4000-8000-000000000005"
	AnonymousID    = "00000000-0000-4000-8000-000000000006"
	CredentialID   = "00000000-0000-4000-8000-000000000007"
	KeyPluginID    = "00000000-0000-4000-8000-000000000008"
	EndPluginID    = "00000000-0000-4000-8000-000000000009"
	OtherID        = "00000000-0000-4000-8000-00000000000a"
	KeyID          = "00000000-0000-4000-8000-00000000000b"
)

// Chains. The members of oauth2 stand between before and after.
const (
	before          = `{"route":"` + RouteID + `","service":"` + ServiceID + `","issues":true,"plugins":[{"id":"` + PluginID + `","oauth2":{`
	beforeNoService = `{"route":"` + RouteID + `","issues":true,"plugins":[{"id":"` + PluginID + `","oauth2":{`
	after           = `}}]}`

	chainPlain     = before + `"header":"authorization","in_body":true` + after
	chainRealm     = before + `"header":"authorization","in_body":true,"realm":"the realm"` + after
	chainEvilRealm = before + `"header":"authorization","in_body":true,"realm":"a\"b\\c\r\nx-evil: 1"` + after
	chainCustom    = before + `"header":"x-api-token","in_body":true` + after
	chainGlobal    = before + `"header":"authorization","in_body":true,"global":true` + after
	chainNoService = beforeNoService + `"header":"authorization","in_body":true` + after
	chainNoGlobal  = beforeNoService + `"header":"authorization","in_body":true,"global":true` + after
	chainHide      = before + `"header":"authorization","in_body":true,"hide_credentials":true` + after
	chainHideCust  = before + `"header":"x-api-token","in_body":true,"hide_credentials":true` + after

	anonymousMember    = `"anonymous":{"configured":"nobody","consumer":{"id":"` + AnonymousID + `","username":"nobody","custom_id":"n-1"}}`
	chainAnonymous     = before + `"header":"authorization","in_body":true,` + anonymousMember + after
	chainHideAnonymous = before + `"header":"authorization","in_body":true,"hide_credentials":true,` + anonymousMember + after
	chainBareAnonymous = before + `"header":"authorization","in_body":true,"anonymous":{"configured":"` + AnonymousID + `","consumer":{"id":"` + AnonymousID + `"}}` + after
	chainNoAnonymous   = before + `"header":"authorization","in_body":true,"anonymous":{"configured":"ghost\"<1>"}` + after
	chainEvilAnonymous = before + `"header":"authorization","in_body":true,"anonymous":{"configured":"evil","consumer":{"id":"` + AnonymousID + `","username":"a\r\nx-evil: 1"}}` + after
)

// chainOf returns a chain of plugins.
func chainOf(plugins ...string) string {
	return `{"route":"` + RouteID + `","service":"` + ServiceID + `","issues":true,"plugins":[` + strings.Join(plugins, ",") + `]}`
}

// silent returns the chain of a route that issues nothing, as on a sidecar.
func silent(plugins ...string) string {
	return strings.Replace(chainOf(plugins...), `"issues":true,`, "", 1)
}

// speaking returns the chain of a route with a protocol.
func speaking(protocol string, plugins ...string) string {
	return `{"route":"` + RouteID + `","service":"` + ServiceID + `","protocol":"` + protocol + `","issues":true,"plugins":[` + strings.Join(plugins, ",") + `]}`
}

// oauth2With, keyWith and endWith return plugins. members are further members of the
// configuration, each preceded by a comma.
func oauth2With(members string) string {
	return `{"id":"` + PluginID + `","oauth2":{"header":"authorization","in_body":true` + members + `}}`
}

// noBody returns an oauth2 plugin that does not search bodies.
func noBody(members string) string {
	return strings.Replace(oauth2With(members), `,"in_body":true`, "", 1)
}

func keyWith(members string) string {
	return `{"id":"` + KeyPluginID + `","key_auth":{"names":["apikey","x-key"],"in_header":true,"in_query":true` + members + `}}`
}

func endWith(members string) string {
	return `{"id":"` + EndPluginID + `","termination":{` + members + `}}`
}

const (
	orAnonymous = "," + anonymousMember
	// otherAnonymous is another consumer to fall back to.
	otherAnonymous = `,"anonymous":{"configured":"other","consumer":{"id":"` + OtherID + `","username":"other"}}`
)

// Answers to refused requests.
const (
	jsonType = "application/json; charset=utf-8"

	bodyMissing     = `{"error":"invalid_request","error_description":"The access token is missing"}`
	bodyInvalid     = `{"error":"invalid_token","error_description":"The access token is invalid or has expired"}`
	bodyUnbound     = `{"error":"invalid_token","error_description":"The access token is global, but the current plugin is configured without 'global_credentials'"}`
	bodyUnavailable = `{"message":"The access token cannot be verified at the moment"}`
	bodyUnusable    = `{"message":"The identity of the caller cannot be passed on"}`
	bodyBroken      = `{"message":"The configuration of this route cannot be used"}`

	bodyNoKey   = `{"message":"No API key found in headers or query string"}`
	bodyBadKey  = `{"message":"Unauthorized"}`
	bodyTwoKeys = `{"message":"Duplicate API key found"}`

	challengeInvalid = `Bearer error="invalid_token", error_description="The access token is invalid or has expired"`
)

// Refusals that many cases share.
var (
	wantMissing = Want{Outcome: Refused, Status: 401, Body: bodyMissing, NoHeaders: []string{"cache-control", "pragma"},
		Headers: [][2]string{{"content-type", jsonType}, {"www-authenticate", "Bearer"}}}
	wantInvalid = Want{Outcome: Refused, Status: 401, Body: bodyInvalid, NoHeaders: []string{"cache-control", "pragma"},
		Headers: [][2]string{{"content-type", jsonType}, {"www-authenticate", challengeInvalid}}}
	wantUnbound = Want{Outcome: Refused, Status: 401, Body: bodyUnbound,
		Headers: [][2]string{{"content-type", jsonType}, {"www-authenticate", challengeInvalid}}}
	wantUnusable = Want{Outcome: Refused, Status: 503, Body: bodyUnusable, NoHeaders: []string{"www-authenticate"},
		Headers: [][2]string{{"content-type", jsonType}}}
	wantUnavailable = Want{Outcome: Refused, Status: 503, Body: bodyUnavailable, NoHeaders: []string{"www-authenticate"},
		Headers: [][2]string{{"content-type", jsonType}, {"retry-after", "1"}}}
	wantNoKey   = Want{Outcome: Refused, Status: 403, Body: bodyNoKey, Headers: [][2]string{{"content-type", jsonType}, {"www-authenticate", "Key"}}}
	wantBadKey  = Want{Outcome: Refused, Status: 401, Body: bodyBadKey, Headers: [][2]string{{"content-type", jsonType}, {"www-authenticate", "Key"}}}
	wantTwoKeys = Want{Outcome: Refused, Status: 401, Body: bodyTwoKeys, Headers: [][2]string{{"content-type", jsonType}, {"www-authenticate", "Key"}}}
	wantBroken  = Want{Outcome: Refused, Status: 503, Body: bodyBroken, NoHeaders: []string{"www-authenticate", "retry-after"},
		Headers: [][2]string{{"content-type", jsonType}}}
)

// Identities as upstreams see them.
var (
	wantFull = Want{Outcome: Proxied, Upstream: [][2]string{
		{"x-consumer-id", ConsumerID}, {"x-consumer-custom-id", "c-1"}, {"x-consumer-username", "bob"},
		{"x-credential-identifier", "client-1"}, {"x-authenticated-scope", "email,phone"}, {"x-authenticated-userid", "user 1"}}}
	wantGlobal = Want{Outcome: Proxied, Upstream: [][2]string{
		{"x-consumer-id", ConsumerID}, {"x-consumer-username", "bob"}, {"x-credential-identifier", "client-1"}}}
	wantKey = Want{Outcome: Proxied, Upstream: [][2]string{
		{"x-consumer-id", OtherID}, {"x-consumer-username", "carol"}, {"x-credential-identifier", KeyID}}}
	// wantBoth is the result of two credentials: the last one names the consumer, and the
	// scope and user of the token stay.
	wantBoth = Want{Outcome: Proxied, Upstream: append([][2]string{
		{"x-authenticated-scope", "email,phone"}, {"x-authenticated-userid", "user 1"}}, wantKey.Upstream...)}
	wantOther = Want{Outcome: Proxied, Upstream: [][2]string{
		{"x-consumer-id", OtherID}, {"x-consumer-username", "other"}, {"x-anonymous-consumer", "true"}}}
	wantAnonymous = Want{Outcome: Proxied, Upstream: [][2]string{
		{"x-consumer-id", AnonymousID}, {"x-consumer-custom-id", "n-1"}, {"x-consumer-username", "nobody"},
		{"x-anonymous-consumer", "true"}}}
)

// Tokens of the table.
var (
	credential = contract.Credential{ID: CredentialID, ClientID: "client-1"}
	consumer   = &contract.Consumer{ID: ConsumerID, Username: "bob"}

	full = Token{"token-full", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential,
		Consumer: &contract.Consumer{ID: ConsumerID, Username: "bob", CustomID: "c-1"}, Scope: "email phone", UserID: "user 1"}}
	global       = Token{"token-global", contract.Record{Version: 1, Revision: 1, Credential: credential, Consumer: consumer}}
	otherService = Token{"token-other-service", contract.Record{Version: 1, Revision: 1, Service: OtherServiceID, Credential: credential, Consumer: consumer}}
	expired      = Token{"token-expired", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential, Consumer: consumer, Expires: 1000}}
	external     = Token{"token-external", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential}}
	unicode      = Token{"token-unicode", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential,
		Consumer: &contract.Consumer{ID: ConsumerID, Username: "Zoë van der Ünal"}, Scope: "email"}}
	schemeWord = Token{"bearer", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential, Consumer: consumer}}
	injecting  = Token{"token-injecting", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential,
		Consumer: &contract.Consumer{ID: ConsumerID, Username: "a\r\nx-consumer-id: root"}}}
	padded = Token{"token-padded", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential,
		Consumer: &contract.Consumer{ID: ConsumerID, Username: " bob"}}}

	apiKey = Token{"key-1", contract.Record{Version: 1, Revision: 1, Key: true, Credential: contract.Credential{ID: KeyID, ClientID: KeyID},
		Consumer: &contract.Consumer{ID: OtherID, Username: "carol"}}}
	// carols belongs to the same consumer as the key.
	carols = Token{"token-carol", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential,
		Consumer: &contract.Consumer{ID: OtherID, Username: "carol"}}}
	// twiceToken and twiceKey have the same text, as a token and as a key.
	twiceToken = Token{"twice", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential, Consumer: consumer}}
	twiceKey   = Token{"twice", contract.Record{Version: 1, Revision: 1, Key: true, Credential: contract.Credential{ID: KeyID, ClientID: KeyID},
		Consumer: &contract.Consumer{ID: OtherID, Username: "carol"}}}
	odd = Token{"a b&c=d%", contract.Record{Version: 1, Revision: 1, Service: ServiceID, Credential: credential, Consumer: consumer}}

	everyToken = []Token{apiKey, carols, twiceToken, twiceKey, odd, full, global, otherService, expired, external, unicode, schemeWord, injecting, padded}
)

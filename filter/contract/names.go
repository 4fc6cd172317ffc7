package contract

import "encoding/hex"

// Identity headers that a gateway sets for its upstream and removes from every
// client request. The index of a name in [IdentityHeaders] is its [Header].
const (
	HeaderConsumerID Header = iota
	HeaderConsumerCustomID
	HeaderConsumerUsername
	HeaderCredentialIdentifier
	HeaderAuthenticatedScope
	HeaderAuthenticatedUserID
	HeaderAnonymousConsumer
	// NumIdentityHeaders is the number of identity headers.
	NumIdentityHeaders
)

// Header identifies one identity header by its index in [IdentityHeaders].
type Header uint8

// IdentityHeaders are the lower-case names, indexed by [Header]. What clients send
// under these and similar names is removed, see [ReservedHeaders].
var IdentityHeaders = [NumIdentityHeaders]string{ //nolint:gosec // names of headers, no credentials
	HeaderConsumerID:           "x-consumer-id",
	HeaderConsumerCustomID:     "x-consumer-custom-id",
	HeaderConsumerUsername:     "x-consumer-username",
	HeaderCredentialIdentifier: "x-credential-identifier",
	HeaderAuthenticatedScope:   "x-authenticated-scope",
	HeaderAuthenticatedUserID:  "x-authenticated-userid",
	HeaderAnonymousConsumer:    "x-anonymous-consumer",
}

// Headers by which the filter hands a request for an issuing endpoint to the
// OAuth server. Client-sent copies are removed, in all spellings, by the filter on
// every route of a gateway, and by sidecars. So the OAuth server can trust them on
// connections that present a gateway's client certificate.
const (
	// HeaderOAuthPlugin carries the id of the oauth2 plugin that answers. In static
	// configurations its presence also selects the route to the OAuth server; the
	// listener must then remove it before routing. See [StateOAuth].
	HeaderOAuthPlugin = "x-meshgate-oauth"
	// HeaderOAuthService is the id of the matched route's service, or absent.
	HeaderOAuthService = "x-meshgate-service"
	// HeaderOAuthScheme is the scheme of the client's connection: http or https.
	HeaderOAuthScheme = "x-meshgate-scheme"
	// HeaderOAuthClient is the client's IP address without a port.
	HeaderOAuthClient = "x-meshgate-client"
	// HeaderOAuthProto is X-Forwarded-Proto as a trusted proxy sent it, or absent.
	// The filter writes it if the listener says who is trusted ([Forwarding]);
	// otherwise the listener may.
	HeaderOAuthProto = "x-meshgate-proto"
)

// OAuthHeaders lists the hand-over headers.
var OAuthHeaders = []string{
	HeaderOAuthPlugin, HeaderOAuthService, HeaderOAuthScheme, HeaderOAuthClient, HeaderOAuthProto,
}

// Names inside Envoy's configuration.
const (
	// FilterName names the HTTP filter slot and the module's filter_name.
	FilterName = "meshgate"
	// OAuthCluster is the cluster in which gateways reach the OAuth server.
	OAuthCluster = "oauth2"
	// StateOAuth is the filter state that says that the filter hands a request over. The
	// table of a gateway selects the route to the OAuth server by it. It belongs to the one
	// request, and no part of a request becomes filter state, so no client can claim it.
	StateOAuth = "meshgate.oauth"
	// StateHandedOver is its value.
	StateHandedOver = "handed-over"
	// SettingsEnv names the environment variable that holds the path of the
	// settings file for a filter whose configuration does not inline settings.
	SettingsEnv = "MESHGATE_FILTER_SETTINGS"
	// RememberEnv names the environment variable that, set to false, keeps the dynamic
	// module from answering a repeated credential from what it has decided before.
	RememberEnv = "MESHGATE_FILTER_REMEMBER"
	// ProcessEnv names the environment variable with which the agent names an
	// Envoy process: 26 letters and digits, drawn at random. The instance of its
	// filter begins with it, so the agent can say which filters have ended.
	ProcessEnv = "MESHGATE_PROCESS"
	// EndedPath is where an agent says which processes have ended: a POST of
	// [Ended] to the data-plane server, with the node's token and [NodeHeader].
	EndedPath = "/filters/ended"
)

// Ended is the body of a POST to [EndedPath].
type Ended struct {
	// Processes are values of [ProcessEnv] whose Envoys run no more.
	Processes []string `json:"processes"`
	// Successor is the process that was started after them with their run directory,
	// and so with what their filters were told to believe ([TrustFile]); empty if there
	// is none yet. Their filters are forgotten once the control plane knows one of the
	// successor. Until then the answer is 425, and the agent says it again.
	Successor string `json:"successor,omitempty"`
	// Gone says that no other Envoy starts with what their filters were told to
	// believe: [TrustFile] was removed.
	Gone bool `json:"gone,omitempty"`
}

// TrustFile stands in the run directory, beside the settings, and holds what the
// control plane vouches for in Redis; see [Trust].
const TrustFile = "trust.json"

// Level2File stands in the run directory, beside the settings, and holds what the
// control plane said last about the second level, as its member level2; see [Level2].
const Level2File = "level2.json"

// MaxEnded bounds [Ended].Processes.
const MaxEnded = 64

// Redis keys. Redis is a cache: the control plane alone writes, filters GET. Who holds a
// credential is part of its key: two control planes may hold the same one, which clients
// choose, and neither must find out or disturb what the other has. An empty scope is an
// authority that names none, in a static configuration.
const (
	redisRecordPrefix     = "meshgate:token:"
	redisCredentialPrefix = "meshgate:credential:" //nolint:gosec // the name of a key, no credential
	redisConsumerPrefix   = "meshgate:consumer:"
	// In braces is what a cluster chooses the slot by: these are where the clock is, so
	// that a look-up depends on no further server.
	redisMembersPrefix = "meshgate:{" + RedisClockKey + "}:members:"
	// RedisClockKey holds the [Clock].
	RedisClockKey = "meshgate:clock"
)

// RedisRecordKey is where the record or tombstone of a token hash lives that a control
// plane holds.
func RedisRecordKey(scope string, hash Hash) string {
	return redisRecordPrefix + within(scope) + hex.EncodeToString(hash[:])
}

// RedisCredentialKey is where the floor of a credential of a control plane lives.
func RedisCredentialKey(scope, id string) string { return redisCredentialPrefix + within(scope) + id }

// RedisConsumerKey is where the floor of a consumer of a control plane lives.
func RedisConsumerKey(scope, id string) string { return redisConsumerPrefix + within(scope) + id }

// RedisMembersKey is where the [Members] of the scope of a gateway live.
func RedisMembersKey(scope string) string { return redisMembersPrefix + scope }

func within(scope string) string {
	if scope == "" {
		return ""
	}
	return scope + ":"
}

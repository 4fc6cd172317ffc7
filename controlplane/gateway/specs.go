package gateway

import (
	"encoding/json"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Consumer is a developer who uses upstream services.
// Source: requirement "Consumer".
type Consumer struct {
	Username string   `json:"username,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-unique=true,x-check=header"`
	CustomID string   `json:"custom_id,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-unique=true,x-check=header"`
	Tags     []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// Service is an upstream. Timeouts are in milliseconds.
type Service struct {
	Name           string   `json:"name,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-unique=true,x-check=name"`
	Protocol       string   `json:"protocol" jsonschema:"default=http,enum=http,enum=https,enum=grpc,enum=grpcs,enum=tcp,enum=tls,enum=tls_passthrough,enum=udp,enum=ws,enum=wss" jsonschema_extras:"x-check=service-protocol"`
	Host           string   `json:"host" jsonschema:"maxLength=253" jsonschema_extras:"x-check=host"`
	Port           int      `json:"port" jsonschema:"default=80,minimum=0,maximum=65535"`
	Path           string   `json:"path,omitempty" jsonschema:"maxLength=1024" jsonschema_extras:"x-check=path"`
	Retries        int      `json:"retries" jsonschema:"default=5,minimum=0,maximum=32767"`
	ConnectTimeout int      `json:"connect_timeout" jsonschema:"default=60000,minimum=1,maximum=2147483646"`
	WriteTimeout   int      `json:"write_timeout" jsonschema:"default=60000,minimum=1,maximum=2147483646"`
	ReadTimeout    int      `json:"read_timeout" jsonschema:"default=60000,minimum=1,maximum=2147483646"`
	Tags           []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
	// ClientCertificate is the id of the certificate shown to the upstream, or
	// empty; CACertificates are the ids of the authorities that may sign it, in
	// place of those of the proxy's system.
	ClientCertificate string   `json:"client_certificate,omitempty" jsonschema_extras:"x-refers-to=certificate"`
	CACertificates    []string `json:"ca_certificates,omitempty" jsonschema_extras:"x-holds=ca_certificate,x-each-check=uuid"`
	TLSVerify         *bool    `json:"tls_verify,omitempty"`
	TLSVerifyDepth    *int     `json:"tls_verify_depth,omitempty" jsonschema:"minimum=0,maximum=64"`
	Enabled           bool     `json:"enabled" jsonschema:"default=true"`
}

// Route selects requests and sends them to a service.
type Route struct {
	Name                    string         `json:"name,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-unique=true,x-check=name"`
	Protocols               []string       `json:"protocols" jsonschema:"uniqueItems=true,minItems=1,default=http,default=https,enum=http,enum=https,enum=grpc,enum=grpcs,enum=tcp,enum=tls,enum=tls_passthrough,enum=udp,enum=ws,enum=wss" jsonschema_extras:"x-check=protocols"`
	Methods                 []string       `json:"methods,omitempty" jsonschema:"uniqueItems=true,maxLength=64" jsonschema_extras:"x-each-check=method"`
	Hosts                   []string       `json:"hosts,omitempty" jsonschema:"maxLength=260" jsonschema_extras:"x-each-check=route-host"`
	Paths                   []string       `json:"paths,omitempty" jsonschema:"maxLength=1025" jsonschema_extras:"x-each-check=route-path"`
	Headers                 MatchedHeaders `json:"headers,omitempty" jsonschema_extras:"x-check=headers"`
	SNIs                    []string       `json:"snis,omitempty" jsonschema:"uniqueItems=true,maxLength=253" jsonschema_extras:"x-each-check=server-name"`
	HTTPSRedirectStatusCode int            `json:"https_redirect_status_code" jsonschema:"default=426,enum=426,enum=301,enum=302,enum=307,enum=308"`
	RegexPriority           int            `json:"regex_priority" jsonschema:"default=0,minimum=-2147483648,maximum=2147483647"`
	StripPath               bool           `json:"strip_path" jsonschema:"default=true"`
	PreserveHost            bool           `json:"preserve_host" jsonschema:"default=false"`
	PathHandling            string         `json:"path_handling" jsonschema:"default=v0,enum=v0,enum=v1" jsonschema_extras:"x-check=path-handling"`
	RequestBuffering        bool           `json:"request_buffering" jsonschema:"default=true"`
	ResponseBuffering       bool           `json:"response_buffering" jsonschema:"default=true"`
	// Service is the id of the service, or empty.
	Service string   `json:"service,omitempty" jsonschema_extras:"x-refers-to=service"`
	Tags    []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// Plugin applies a behaviour globally (no Route, no Service), to a service, to
// a route or to both. References are ids.
type Plugin struct {
	Name         string `json:"name" jsonschema:"maxLength=128" jsonschema_extras:"x-check=plugin"`
	InstanceName string `json:"instance_name,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-unique=true,x-check=name"`
	Route        string `json:"route,omitempty" jsonschema_extras:"x-on-delete=cascade,x-refers-to=route"`
	Service      string `json:"service,omitempty" jsonschema_extras:"x-on-delete=cascade,x-refers-to=service"`
	Consumer     string `json:"consumer,omitempty" jsonschema_extras:"x-on-delete=cascade,x-refers-to=consumer,x-by=username"`
	// Config is the validated, completed configuration of the plugin; for
	// oauth2 it decodes into [OAuth2Config].
	Config    json.RawMessage `json:"config" jsonschema_extras:"x-variant=plugin"`
	Protocols []string        `json:"protocols" jsonschema:"uniqueItems=true,minItems=1,default=grpc,default=grpcs,default=http,default=https,enum=grpc,enum=grpcs,enum=http,enum=https,enum=ws,enum=wss"`
	Enabled   bool            `json:"enabled" jsonschema:"default=true"`
	Tags      []string        `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// Names of plugins.
const (
	PluginOAuth2             = "oauth2"
	PluginKeyAuth            = "key-auth"
	PluginRequestTermination = "request-termination"
)

// OAuth2Config is the configuration of an oauth2 plugin.
// Source: requirement "Plugin configuration parameters".
type OAuth2Config struct {
	Scopes         []string `json:"scopes,omitempty" jsonschema:"maxLength=1024" jsonschema_extras:"x-check=scopes,x-each-check=scope"`
	MandatoryScope bool     `json:"mandatory_scope" jsonschema:"default=false"`
	ProvisionKey   string   `json:"provision_key" jsonschema:"maxLength=512" jsonschema_extras:"x-generated=secret"`
	// TokenExpiration is in seconds; zero and below mean that tokens never expire.
	TokenExpiration               int64  `json:"token_expiration" jsonschema:"type=number,default=7200,minimum=-2147483648,maximum=2147483647" jsonschema_extras:"x-check=whole"`
	EnableAuthorizationCode       bool   `json:"enable_authorization_code" jsonschema:"default=false"`
	EnableImplicitGrant           bool   `json:"enable_implicit_grant" jsonschema:"default=false"`
	EnableClientCredentials       bool   `json:"enable_client_credentials" jsonschema:"default=false"`
	EnablePasswordGrant           bool   `json:"enable_password_grant" jsonschema:"default=false"`
	HideCredentials               bool   `json:"hide_credentials" jsonschema:"default=false"`
	AcceptHTTPIfAlreadyTerminated bool   `json:"accept_http_if_already_terminated" jsonschema:"default=false"`
	Anonymous                     string `json:"anonymous,omitempty" jsonschema:"maxLength=512"`
	GlobalCredentials             bool   `json:"global_credentials" jsonschema:"default=false"`
	AuthHeaderName                string `json:"auth_header_name" jsonschema:"default=authorization,maxLength=128" jsonschema_extras:"x-check=credential-header"`
	RefreshTokenTTL               int64  `json:"refresh_token_ttl" jsonschema:"type=number,default=1209600,minimum=0,maximum=100000000" jsonschema_extras:"x-check=whole"`
	ReuseRefreshToken             bool   `json:"reuse_refresh_token" jsonschema:"default=false"`
	PKCE                          string `json:"pkce" jsonschema:"default=lax,enum=none,enum=lax,enum=strict"`
	Realm                         string `json:"realm,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=realm"`
	// Profile is [ProfileOAuth20] or [ProfileOAuth21].
	Profile string `json:"profile" jsonschema:"default=oauth2.0,enum=oauth2.0,enum=oauth2.1" jsonschema_extras:"x-keep=true"`
	// Endpoints switches on introspection, revocation and metadata; the strict
	// profile has them anyway, see [OAuth2Config.HasEndpoints].
	Endpoints bool `json:"endpoints" jsonschema:"default=false" jsonschema_extras:"x-keep=true"`
	// Issuer is the URL of the authorisation server, RFC 8414 section 2: what
	// precedes the paths of its endpoints. If it is empty, it is taken from
	// requests whose host is one of the gateway's names.
	Issuer string `json:"issuer,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-keep=true,x-check=issuer"`
	// RefreshTokenGrace is, in the strict profile, for how many seconds after
	// its rotation a refresh token may be sent again because the answer was
	// lost. Afterwards its use revokes the family.
	RefreshTokenGrace int64 `json:"refresh_token_grace" jsonschema:"default=10,minimum=0,maximum=300" jsonschema_extras:"x-keep=true"`
	// AccessTokenInBody says whether tokens are looked for in bodies; nil leaves
	// that to the profile, see [OAuth2Config.ReadsBody].
	AccessTokenInBody *bool `json:"access_token_in_body,omitempty" jsonschema_extras:"x-keep=true"`
}

// Profiles of an oauth2 plugin.
const (
	// ProfileOAuth20 behaves as clients of such gateways have always known it.
	ProfileOAuth20 = "oauth2.0"
	// ProfileOAuth21 follows RFC 9700 and the OAuth 2.1 draft: PKCE is required,
	// there is neither implicit nor password grant, refresh tokens and codes
	// that are used again revoke their family.
	ProfileOAuth21 = "oauth2.1"
)

// Strict reports whether the strict profile applies.
func (c *OAuth2Config) Strict() bool { return c.Profile == ProfileOAuth21 }

// HasEndpoints reports whether introspection, revocation and metadata are
// endpoints of the plugin.
func (c *OAuth2Config) HasEndpoints() bool { return c.Endpoints || c.Strict() }

// ReadsBody reports whether tokens are looked for in bodies. The strict profile
// does so only if it is told to: who has shown no token yet would decide how much
// the gateway must hold.
func (c *OAuth2Config) ReadsBody() bool {
	if c.AccessTokenInBody != nil {
		return *c.AccessTokenInBody
	}
	return !c.Strict()
}

// KeyAuthConfig is the configuration of a key-auth plugin.
// Source: requirement "Authentication".
type KeyAuthConfig struct {
	KeyNames        []string `json:"key_names" jsonschema:"default=apikey,minItems=1,maxLength=128" jsonschema_extras:"x-check=key-names,x-each-check=header-name"`
	KeyInHeader     bool     `json:"key_in_header" jsonschema:"default=true"`
	KeyInQuery      bool     `json:"key_in_query" jsonschema:"default=true"`
	KeyInBody       bool     `json:"key_in_body" jsonschema:"default=false"`
	HideCredentials bool     `json:"hide_credentials" jsonschema:"default=false"`
	RunOnPreflight  bool     `json:"run_on_preflight" jsonschema:"default=true"`
	Anonymous       string   `json:"anonymous,omitempty" jsonschema:"maxLength=512"`
	Realm           string   `json:"realm,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=realm"`
}

// TerminationConfig is the configuration of a request-termination plugin.
// Message and Body exclude each other; without both the text of the status is
// the message.
type TerminationConfig struct {
	StatusCode  int    `json:"status_code" jsonschema:"default=503,minimum=200,maximum=599"`
	Message     string `json:"message,omitempty" jsonschema:"maxLength=4096"`
	Body        string `json:"body,omitempty" jsonschema:"maxLength=4096"`
	ContentType string `json:"content_type,omitempty" jsonschema:"maxLength=256" jsonschema_extras:"x-check=header"`
	Trigger     string `json:"trigger,omitempty" jsonschema:"maxLength=128" jsonschema_extras:"x-check=header-name"`
	Echo        bool   `json:"echo" jsonschema:"default=false" jsonschema_extras:"x-check=no-echo"`
}

// Application is an OAuth application, the credential of a consumer.
// Source: requirement "OAuth application (credential)".
type Application struct {
	// Consumer is the id of the owner.
	Consumer string `json:"consumer" jsonschema_extras:"x-on-delete=cascade,x-refers-to=consumer,x-by=username"`
	Name     string `json:"name" jsonschema:"maxLength=512"`
	ClientID string `json:"client_id" jsonschema:"maxLength=512" jsonschema_extras:"x-unique=true,x-generated=secret,x-check=header"`
	// ClientSecret is the secret or, if HashSecret, its PHC string.
	ClientSecret string   `json:"client_secret" jsonschema:"maxLength=512" jsonschema_extras:"x-generated=secret"`
	HashSecret   bool     `json:"hash_secret" jsonschema:"default=false"`
	RedirectURIs []string `json:"redirect_uris" jsonschema:"minItems=1,maxLength=2048" jsonschema_extras:"x-each-check=redirect"`
	ClientType   string   `json:"client_type" jsonschema:"default=confidential,enum=confidential,enum=public"`
	Tags         []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
	// SecondarySecret is accepted beside ClientSecret while one replaces the
	// other; hashed like it.
	SecondarySecret string `json:"secondary_secret,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-keep=true"`
	// Scopes, unless nil, are the only scopes that the application may obtain,
	// of those that the plugin offers.
	Scopes []string `json:"scopes,omitempty" jsonschema:"maxLength=1024" jsonschema_extras:"x-keep=true,x-check=scopes,x-each-check=scope"`
}

// Client types of an application.
const (
	ClientConfidential = "confidential"
	ClientPublic       = "public"
)

// Token is an issued or migrated access token.
// Source: requirement "Access token".
type Token struct {
	// Credential is the id of the application.
	Credential string `json:"credential" jsonschema_extras:"x-on-delete=cascade,x-refers-to=oauth2_credential,x-by=client_id,x-flat=credential_id"`
	// Service is the id of the service the token is bound to, or empty.
	Service   string `json:"service,omitempty" jsonschema_extras:"x-on-delete=cascade,x-refers-to=service,x-flat=service_id"`
	TokenType string `json:"token_type" jsonschema:"default=bearer,enum=bearer"`
	ExpiresIn int64  `json:"expires_in" jsonschema:"minimum=0,maximum=2147483647"`
	// AccessToken that the caller chose may have been presented before and be
	// remembered as unknown.
	AccessToken         string `json:"access_token" jsonschema:"maxLength=4096" jsonschema_extras:"x-unique=secret,x-generated=secret,x-check=header,x-announce=true"`
	RefreshToken        string `json:"refresh_token,omitempty" jsonschema:"maxLength=4096" jsonschema_extras:"x-unique=secret,x-check=header"`
	Scope               string `json:"scope,omitempty" jsonschema:"maxLength=1024" jsonschema_extras:"x-check=header"`
	AuthenticatedUserID string `json:"authenticated_userid,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-listed=true,x-check=header"`
	// TTL is how many seconds the row lives on; DropAt is what is kept of it.
	TTL model.Virtual[int64] `json:"ttl,omitzero" jsonschema:"minimum=1,maximum=100000000" jsonschema_extras:"x-meta=true"`
	// Family is the id that all tokens from one authorisation share: those that
	// came of one code or of one password grant, and what they were refreshed
	// to. Empty for tokens that cannot have relatives.
	Family string `json:"family,omitempty" jsonschema_extras:"x-listed=true,x-hidden=true,x-keep=true"`
	// Strict says that the token, or one that it came of, was issued in the strict
	// profile: what is spent of its family is remembered wherever that happens.
	Strict bool `json:"strict,omitempty" jsonschema_extras:"x-hidden=true,x-keep=true"`
	// DropAt is when the row's lifetime is over, in milliseconds of Unix time;
	// 0 means never.
	DropAt int64 `json:"drop_at,omitempty" jsonschema_extras:"x-hidden=true,x-keep=true"`
}

// Code is an authorisation code. It is used up by deleting it.
type Code struct {
	// Credential is the id of the application, Plugin of the instance that
	// issued the code, Service of the current service or empty.
	Credential string `json:"credential" jsonschema_extras:"x-refers-to=oauth2_credential,x-on-delete=cascade"`
	Plugin     string `json:"plugin" jsonschema_extras:"x-refers-to=plugin,x-on-delete=cascade"`
	Service    string `json:"service,omitempty" jsonschema_extras:"x-refers-to=service,x-on-delete=cascade"`
	Code       string `json:"code" jsonschema_extras:"x-unique=secret"`
	Scope      string `json:"scope,omitempty"`
	// AuthenticatedUserID is the end user.
	AuthenticatedUserID string `json:"authenticated_userid,omitempty" jsonschema_extras:"x-listed=true"`
	// Challenge is the code_challenge of RFC 7636, unpadded base64url; Method
	// is S256 where there is one.
	Challenge string `json:"challenge,omitempty"`
	Method    string `json:"method,omitempty"`
	// RedirectURI is the one that was asked for, or empty.
	RedirectURI string `json:"redirect_uri,omitempty"`
	// DropAt is when the code ends, in milliseconds of Unix time.
	DropAt int64 `json:"drop_at"`
}

// Spent remembers a code or refresh token that was used up, so that its second
// use can be told from a guess.
type Spent struct {
	// Value is [TokenKey] of what was used up.
	Value string `json:"value" jsonschema_extras:"x-unique=secret"`
	// Credential is the id of the application it belonged to.
	Credential string `json:"credential" jsonschema_extras:"x-refers-to=oauth2_credential,x-on-delete=cascade"`
	// Family is that of the tokens that came of it.
	Family string `json:"family"`
	// Successor is the name of the token that a refresh token was exchanged
	// for; empty for codes, which have no grace.
	Successor string `json:"successor,omitempty"`
	// At is when it was used, DropAt when nothing that came of it can be left;
	// both in milliseconds of Unix time, DropAt 0 for never.
	At     int64 `json:"at"`
	DropAt int64 `json:"drop_at,omitempty"`
}

// Key is an API key, a credential of a consumer.
type Key struct {
	// Consumer is the id of the owner.
	Consumer string `json:"consumer" jsonschema_extras:"x-on-delete=cascade,x-refers-to=consumer,x-by=username"`
	// Key that the caller chose may have been presented before, as with tokens.
	Key  string               `json:"key" jsonschema:"maxLength=4096" jsonschema_extras:"x-unique=secret,x-generated=secret,x-check=header,x-announce=true"`
	TTL  model.Virtual[int64] `json:"ttl,omitzero" jsonschema:"minimum=1,maximum=100000000" jsonschema_extras:"x-meta=true"`
	Tags []string             `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
	// DropAt is when the key ends, in milliseconds of Unix time; 0 for never.
	DropAt int64 `json:"drop_at,omitempty" jsonschema_extras:"x-hidden=true,x-keep=true"`
}

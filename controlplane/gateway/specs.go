package gateway

import (
	"encoding/json"
)

// Consumer is a developer who uses upstream services.
// Source: requirement "Consumer".
type Consumer struct {
	Username string   `json:"username,omitempty"`
	CustomID string   `json:"custom_id,omitempty"`
	Tags     []string `json:"tags,omitempty"`
}

// Service is an upstream. Timeouts are in milliseconds.
type Service struct {
	Name           string   `json:"name,omitempty"`
	Protocol       string   `json:"protocol"`
	Host           string   `json:"host"`
	Port           int      `json:"port"`
	Path           string   `json:"path,omitempty"`
	Retries        int      `json:"retries"`
	ConnectTimeout int      `json:"connect_timeout"`
	WriteTimeout   int      `json:"write_timeout"`
	ReadTimeout    int      `json:"read_timeout"`
	Tags           []string `json:"tags,omitempty"`
	// ClientCertificate is the id of the certificate shown to the upstream, or
	// empty; CACertificates are the ids of the authorities that may sign it, in
	// place of those of the proxy's system.
	ClientCertificate string   `json:"client_certificate,omitempty"`
	CACertificates    []string `json:"ca_certificates,omitempty"`
	TLSVerify         *bool    `json:"tls_verify,omitempty"`
	TLSVerifyDepth    *int     `json:"tls_verify_depth,omitempty"`
	Enabled           bool     `json:"enabled"`
}

// Route selects requests and sends them to a service.
type Route struct {
	Name                    string              `json:"name,omitempty"`
	Protocols               []string            `json:"protocols"`
	Methods                 []string            `json:"methods,omitempty"`
	Hosts                   []string            `json:"hosts,omitempty"`
	Paths                   []string            `json:"paths,omitempty"`
	Headers                 map[string][]string `json:"headers,omitempty"`
	SNIs                    []string            `json:"snis,omitempty"`
	HTTPSRedirectStatusCode int                 `json:"https_redirect_status_code"`
	RegexPriority           int                 `json:"regex_priority"`
	StripPath               bool                `json:"strip_path"`
	PreserveHost            bool                `json:"preserve_host"`
	PathHandling            string              `json:"path_handling"`
	RequestBuffering        bool                `json:"request_buffering"`
	ResponseBuffering       bool                `json:"response_buffering"`
	// Service is the id of the service, or empty.
	Service string   `json:"service,omitempty"`
	Tags    []string `json:"tags,omitempty"`
}

// Plugin applies a behaviour globally (no Route, no Service), to a service, to
// a route or to both. References are ids.
type Plugin struct {
	Name         string `json:"name"`
	InstanceName string `json:"instance_name,omitempty"`
	Route        string `json:"route,omitempty"`
	Service      string `json:"service,omitempty"`
	Consumer     string `json:"consumer,omitempty"`
	// Config is the validated, completed configuration of the plugin; for
	// oauth2 it decodes into [OAuth2Config].
	Config    json.RawMessage `json:"config"`
	Protocols []string        `json:"protocols"`
	Enabled   bool            `json:"enabled"`
	Tags      []string        `json:"tags,omitempty"`
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
	Scopes                        []string `json:"scopes"`
	MandatoryScope                bool     `json:"mandatory_scope"`
	ProvisionKey                  string   `json:"provision_key"`
	TokenExpiration               int64    `json:"token_expiration"`
	EnableAuthorizationCode       bool     `json:"enable_authorization_code"`
	EnableImplicitGrant           bool     `json:"enable_implicit_grant"`
	EnableClientCredentials       bool     `json:"enable_client_credentials"`
	EnablePasswordGrant           bool     `json:"enable_password_grant"`
	HideCredentials               bool     `json:"hide_credentials"`
	AcceptHTTPIfAlreadyTerminated bool     `json:"accept_http_if_already_terminated"`
	Anonymous                     string   `json:"anonymous,omitempty"`
	GlobalCredentials             bool     `json:"global_credentials"`
	AuthHeaderName                string   `json:"auth_header_name"`
	RefreshTokenTTL               int64    `json:"refresh_token_ttl"`
	ReuseRefreshToken             bool     `json:"reuse_refresh_token"`
	PKCE                          string   `json:"pkce"`
	Realm                         string   `json:"realm,omitempty"`
	// Profile is [ProfileOAuth20] or [ProfileOAuth21].
	Profile string `json:"profile"`
	// Endpoints switches on introspection, revocation and metadata; the strict
	// profile has them anyway, see [OAuth2Config.HasEndpoints].
	Endpoints bool `json:"endpoints"`
	// Issuer is the URL of the authorisation server, RFC 8414 section 2: what
	// precedes the paths of its endpoints. If it is empty, it is taken from
	// requests whose host is one of the gateway's names.
	Issuer string `json:"issuer,omitempty"`
	// RefreshTokenGrace is, in the strict profile, for how many seconds after
	// its rotation a refresh token may be sent again because the answer was
	// lost. Afterwards its use revokes the family.
	RefreshTokenGrace int64 `json:"refresh_token_grace"`
	// AccessTokenInBody says whether tokens are looked for in bodies; nil leaves
	// that to the profile, see [OAuth2Config.ReadsBody].
	AccessTokenInBody *bool `json:"access_token_in_body,omitempty"`
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
	KeyNames        []string `json:"key_names"`
	KeyInHeader     bool     `json:"key_in_header"`
	KeyInQuery      bool     `json:"key_in_query"`
	KeyInBody       bool     `json:"key_in_body"`
	HideCredentials bool     `json:"hide_credentials"`
	RunOnPreflight  bool     `json:"run_on_preflight"`
	Anonymous       string   `json:"anonymous,omitempty"`
	Realm           string   `json:"realm,omitempty"`
}

// TerminationConfig is the configuration of a request-termination plugin.
// Message and Body exclude each other; without both the text of the status is
// the message.
type TerminationConfig struct {
	StatusCode  int    `json:"status_code"`
	Message     string `json:"message,omitempty"`
	Body        string `json:"body,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Trigger     string `json:"trigger,omitempty"`
	Echo        bool   `json:"echo"`
}

// Application is an OAuth application, the credential of a consumer.
// Source: requirement "OAuth application (credential)".
type Application struct {
	// Consumer is the id of the owner.
	Consumer string `json:"consumer"`
	Name     string `json:"name"`
	ClientID string `json:"client_id"`
	// ClientSecret is the secret or, if HashSecret, its PHC string.
	ClientSecret string   `json:"client_secret"`
	HashSecret   bool     `json:"hash_secret"`
	RedirectURIs []string `json:"redirect_uris"`
	ClientType   string   `json:"client_type"`
	Tags         []string `json:"tags,omitempty"`
	// SecondarySecret is accepted beside ClientSecret while one replaces the
	// other; hashed like it.
	SecondarySecret string `json:"secondary_secret,omitempty"`
	// Scopes, unless nil, are the only scopes that the application may obtain,
	// of those that the plugin offers.
	Scopes []string `json:"scopes,omitempty"`
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
	Credential string `json:"credential"`
	// Service is the id of the service the token is bound to, or empty.
	Service             string `json:"service,omitempty"`
	TokenType           string `json:"token_type"`
	AccessToken         string `json:"access_token"`
	RefreshToken        string `json:"refresh_token,omitempty"`
	ExpiresIn           int64  `json:"expires_in"`
	Scope               string `json:"scope,omitempty"`
	AuthenticatedUserID string `json:"authenticated_userid,omitempty"`
	// Family is the id that all tokens from one authorisation share: those that
	// came of one code or of one password grant, and what they were refreshed
	// to. Empty for tokens that cannot have relatives.
	Family string `json:"family,omitempty"`
	// Strict says that the token, or one that it came of, was issued in the strict
	// profile: what is spent of its family is remembered wherever that happens.
	Strict bool `json:"strict,omitempty"`
	// DropAt is when the row's lifetime is over, in milliseconds of Unix time;
	// 0 means never.
	DropAt int64 `json:"drop_at,omitempty"`
}

// Code is an authorisation code. It is used up by deleting it.
type Code struct {
	// Credential is the id of the application, Plugin of the instance that
	// issued the code, Service of the current service or empty.
	Credential string `json:"credential"`
	Plugin     string `json:"plugin"`
	Service    string `json:"service,omitempty"`
	Code       string `json:"code"`
	Scope      string `json:"scope,omitempty"`
	// AuthenticatedUserID is the end user.
	AuthenticatedUserID string `json:"authenticated_userid,omitempty"`
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
	Value string `json:"value"`
	// Credential is the id of the application it belonged to.
	Credential string `json:"credential"`
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
	Consumer string   `json:"consumer"`
	Key      string   `json:"key"`
	Tags     []string `json:"tags,omitempty"`
	// DropAt is when the key ends, in milliseconds of Unix time; 0 for never.
	DropAt int64 `json:"drop_at,omitempty"`
}

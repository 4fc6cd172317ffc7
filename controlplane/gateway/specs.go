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
	TLSVerify      *bool    `json:"tls_verify,omitempty"`
	TLSVerifyDepth *int     `json:"tls_verify_depth,omitempty"`
	Enabled        bool     `json:"enabled"`
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

// PluginOAuth2 is the name of the oauth2 plugin.
const PluginOAuth2 = "oauth2"

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
	// DropAt is when the row's lifetime is over, in milliseconds of Unix time;
	// 0 means never.
	DropAt int64 `json:"drop_at,omitempty"`
}

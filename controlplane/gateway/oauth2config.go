package gateway

import (
	"math"
	"net/url"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
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
	// Endpoints switches on introspection, revocation and metadata. The strict profile always
	// has them, see [OAuth2Config.HasEndpoints].
	Endpoints bool `json:"endpoints" jsonschema:"default=false" jsonschema_extras:"x-keep=true"`
	// Issuer is the URL of the authorisation server, RFC 8414 section 2. The paths of its
	// endpoints are appended to it. If it is empty, it is taken from requests whose host is
	// one of the gateway's names.
	Issuer string `json:"issuer,omitempty" jsonschema:"maxLength=512" jsonschema_extras:"x-keep=true,x-check=issuer"`
	// RefreshTokenGrace is the time in seconds after its rotation during which a refresh
	// token may be sent again, because the answer was lost. Later use revokes the family. It
	// matters only in the strict profile.
	RefreshTokenGrace int64 `json:"refresh_token_grace" jsonschema:"default=10,minimum=0,maximum=300" jsonschema_extras:"x-keep=true"`
	// AccessTokenInBody says whether tokens are searched in bodies. If it is nil, the profile
	// decides, see [OAuth2Config.ReadsBody].
	AccessTokenInBody *bool `json:"access_token_in_body,omitempty" jsonschema_extras:"x-keep=true"`
}

// The profiles of an oauth2 plugin.
const (
	// ProfileOAuth20 behaves as existing clients of such gateways expect.
	ProfileOAuth20 = "oauth2.0"
	// ProfileOAuth21 follows RFC 9700 and the OAuth 2.1 draft. PKCE is required, and there is
	// neither implicit nor password grant. If a refresh token or code is used again, its
	// family is revoked.
	ProfileOAuth21 = "oauth2.1"
)

// Strict reports whether the strict profile applies.
func (c *OAuth2Config) Strict() bool { return c.Profile == ProfileOAuth21 }

// HasEndpoints reports whether the plugin offers introspection, revocation and metadata.
func (c *OAuth2Config) HasEndpoints() bool { return c.Endpoints || c.Strict() }

// ReadsBody reports whether tokens are searched in bodies. The strict profile does so only if
// it is configured. Otherwise a client that has shown no token yet could decide how much the
// gateway must buffer.
func (c *OAuth2Config) ReadsBody() bool {
	if c.AccessTokenInBody != nil {
		return *c.AccessTokenInBody
	}
	return !c.Strict()
}

// grants lists the fields of which at least one must be true.
var grants = []string{
	"enable_authorization_code", "enable_implicit_grant", "enable_client_credentials", "enable_password_grant",
}

// oauth2Schema describes the configuration of an oauth2 plugin.
// Source: requirement "Plugin configuration parameters".
var oauth2Schema = &model.Schema{
	Fields: rules.With(model.Rules{
		Checks: map[string]func(any) string{
			"credential-header": credentialHeaderText,
			"issuer":            issuerText,
			"whole":             wholeText,
		},
	}).Fields(OAuth2Config{}),
	Checks: []model.Check{
		{Fields: append([]string{"profile"}, grants...), Run: strictGrants},
		{Fields: grants, Run: someGrant},
		{Fields: []string{"scopes", "mandatory_scope"}, Run: mandatoryScopes},
	},
}

func someGrant(w *model.Write) []fault.Violation {
	for _, name := range grants {
		if w.New[name] == true {
			return nil
		}
	}
	return entityViolation("at least one of these fields must be true: " + strings.Join(grants, ", "))
}

// strictGrants refuses grants that the strict profile does not have, instead of switching
// them off silently.
func strictGrants(w *model.Write) (out []fault.Violation) {
	if w.New["profile"] != ProfileOAuth21 {
		return nil
	}
	for _, name := range []string{"enable_implicit_grant", "enable_password_grant"} {
		if w.New[name] == true {
			out = append(out, violation(name, "must be false in profile "+ProfileOAuth21)...)
		}
	}
	return out
}

func mandatoryScopes(w *model.Write) []fault.Violation {
	if w.New["mandatory_scope"] != true || w.New["scopes"] != nil {
		return nil
	}
	return append(
		violation(model.EntityPath, "failed conditional validation given value of field 'mandatory_scope'"),
		violation("scopes", model.TextRequired)...,
	)
}

// scopeText refuses a scope that would be ambiguous in a blank-separated list or would break
// a header. Source: RFC 6749 section 3.3; like older gateways, it tolerates characters beyond
// ASCII.
func scopeText(v any) string {
	if strings.ContainsFunc(v.(string), func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == ',' }) {
		return "must not contain blanks, commas or control characters"
	}
	return ""
}

func scopesText(v any) string {
	if len(strings.Join(texts(v), " ")) > MaxScope {
		return "the scopes are too long together"
	}
	return ""
}

func wholeText(v any) string {
	if n := v.(float64); n != math.Trunc(n) {
		return "expected an integer"
	}
	return ""
}

// headerNameText checks that a value is a token of RFC 9110 section 5.6.2.
func headerNameText(v any) string {
	for _, r := range v.(string) {
		alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return "expected a header name"
		}
	}
	return ""
}

// issuerText checks that a value is an identifier of RFC 8414 section 2. Paths of endpoints
// are appended to it, so it must not end in a slash.
func issuerText(v any) string {
	s := v.(string)
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(s, "?#") || strings.HasSuffix(s, "/") || s != u.String() {
		return "expected https, a host and perhaps a path, without query, fragment or trailing slash"
	}
	return ""
}

// realmText checks that a realm is valid in a quoted-string without escapes.
func realmText(v any) string {
	if strings.ContainsAny(v.(string), `"\`) {
		return "must not contain quotes or backslashes"
	}
	return headerText(v)
}

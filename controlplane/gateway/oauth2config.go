package gateway

import (
	"math"
	"net/url"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// grants are the fields of which at least one must be true.
var grants = []string{
	"enable_authorization_code", "enable_implicit_grant", "enable_client_credentials", "enable_password_grant",
}

// oauth2Schema describes the configuration of an oauth2 plugin.
// Source: requirement "Plugin configuration parameters".
var oauth2Schema = &model.Schema{
	Fields: rules.Fields(OAuth2Config{}),
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

// strictGrants refuses what the strict profile does not have, instead of
// switching it off silently.
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

// scopeText refuses what could not be told apart in a blank-separated list or
// would break a header. Source: RFC 6749 section 3.3; characters beyond ASCII
// are tolerated as in older gateways.
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

// headerNameText checks for a token of RFC 9110 section 5.6.2.
func headerNameText(v any) string {
	for _, r := range v.(string) {
		alphanumeric := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return "expected a header name"
		}
	}
	return ""
}

// issuerText checks for an identifier of RFC 8414 section 2. Paths of endpoints
// are appended to it, so it must not end in a slash.
func issuerText(v any) string {
	s := v.(string)
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(s, "?#") || strings.HasSuffix(s, "/") || s != u.String() {
		return "expected https, a host and perhaps a path, without query, fragment or trailing slash"
	}
	return ""
}

// realmText keeps a realm a valid quoted-string without escapes.
func realmText(v any) string {
	if strings.ContainsAny(v.(string), `"\`) {
		return "must not contain quotes or backslashes"
	}
	return headerText(v)
}

package cloud

import (
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/model"
)

// Destination is where audit logs are delivered.
// Source: requirement "Audit log destination".
type Destination struct {
	Name     string `json:"name" jsonschema:"maxLength=255" jsonschema_extras:"x-unique=true,x-check=name"`
	Endpoint string `json:"endpoint" jsonschema:"maxLength=2048" jsonschema_extras:"x-check=endpoint"`
	// Authorization is the value of the header of that name, as it is sent. No API shows it.
	Authorization string `json:"authorization" jsonschema:"maxLength=4096" jsonschema_extras:"x-check=credential"`
	LogFormat     string `json:"log_format" jsonschema:"enum=cef,enum=json"`
	// SkipSSLVerification accepts any certificate of the endpoint.
	SkipSSLVerification bool `json:"skip_ssl_verification" jsonschema:"default=false"`
}

// The formats of audit logs.
const (
	FormatCEF  = "cef"
	FormatJSON = "json"
)

// Destinations is the kind of audit log destinations.
var Destinations = rules.Describe(Destination{}, model.Kind{
	Name: "audit_log_destination", Path: "audit-log-destinations", Scoping: model.Global, Class: model.Config, Sealed: true,
	Secrets: []string{"/authorization"},
	Schema:  &model.Schema{CreatedUnit: time.Millisecond, Updated: true},
})

// TextEndpoint says what an endpoint is.
const TextEndpoint = "must be a valid URL"

// endpointText checks the URL of an endpoint. Whether its address may be reached is judged when it is
// connected to. A user in the URL would be a second credential, and one that is shown.
func endpointText(v any) string {
	text := v.(string)
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.Opaque != "":
		return TextEndpoint
	case u.User != nil:
		return "must not hold a user: authorization is what is sent"
	case u.Fragment != "" || strings.Contains(text, "#"):
		return "must not have a fragment"
	}
	return ""
}

// credentialText checks the value of a header (RFC 9110 section 5.5).
func credentialText(v any) string {
	text := v.(string)
	if text != strings.TrimSpace(text) {
		return "must not begin or end with white space"
	}
	for _, c := range []byte(text) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return "must not hold control characters"
		}
	}
	return ""
}

// nameText checks a name that people read.
func nameText(v any) string {
	text := v.(string)
	switch {
	case strings.TrimSpace(text) == "":
		return "cannot be blank"
	case strings.ContainsFunc(text, unicode.IsControl):
		return "must not hold control characters"
	}
	return ""
}

// TextTime says what a time is.
const TextTime = "must be a time as of RFC 3339, such as 2026-01-31T12:00:00Z"

// TimeText checks a time (RFC 3339).
func TimeText(v any) string {
	if _, err := time.Parse(time.RFC3339, v.(string)); err != nil {
		return TextTime
	}
	return ""
}

package gateway

import (
	"slices"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/reserved"
)

// Limits, in bytes, of values that a filter puts into headers. The tags of their fields have
// the same limits. Together with the ids they stay below contract.MaxPacked, so that every
// consumer, application and token that can be stored can also be served.
const (
	MaxIdentity = 512  // username, custom_id, client_id, authenticated_userid
	MaxScope    = 1024 // all scopes of a token, or of a plugin, together
)

// HeaderSafe reports whether a value arrives unchanged as a header value. It must not contain
// control characters, or blanks at its ends: these would be trimmed, and one identity would
// look like another. Source: RFC 9110 section 5.5.
func HeaderSafe(s string) bool { return headerText(s) == "" }

func headerText(v any) string {
	s := v.(string)
	switch {
	case strings.ContainsFunc(s, unicode.IsControl):
		return "must not contain control characters"
	case strings.TrimSpace(s) != s:
		return "must not start or end with a blank"
	}
	return ""
}

// probeText checks a value of a header that probes have. Proxies refuse a cluster with a text
// that is the name of what only their own agent may name.
func probeText(v any) string {
	if text := headerText(v); text != "" {
		return text
	}
	if s := v.(string); reserved.Named(s) {
		return "must not be " + s + ", which proxies refuse"
	}
	return ""
}

// connectionHeaders belong to one connection or frame a message (RFC 9110 sections 7.2, 7.6.1
// and 8.6). Clients must not choose their values freely, so they cannot hold credentials.
var connectionHeaders = []string{
	"connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// CredentialHeader says why a header of this name cannot hold a credential; empty if it can.
// A filter that is configured with such a name refuses every request.
func CredentialHeader(name string) string { return credentialHeaderText(name) }

// credentialHeaderText refuses names of headers that cannot hold a credential. Pseudo-headers
// are refused because of their colon. Proxies remove headers that only gateways may set from
// requests, so in such a header no credential would arrive, or a forged one.
func credentialHeaderText(v any) string {
	if text := headerNameText(v); text != "" {
		return text
	}
	// Proxies keep one exact spelling of some of these headers. In capitals, no name is
	// exempt.
	if contract.IsReserved([]byte(strings.ToUpper(v.(string))), false) {
		return "must not be a header that the gateway sets: " + v.(string)
	}
	name := strings.ReplaceAll(strings.ToLower(v.(string)), "_", "-")
	if slices.Contains(connectionHeaders, name) {
		return "must not be a header of the connection: " + v.(string)
	}
	return ""
}

// nameText checks the name of a service or route.
func nameText(v any) string {
	for _, r := range v.(string) {
		ascii := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune(".-_~", r)
		if !ascii && (r < 0x80 || unicode.IsControl(r)) {
			return "may hold only letters, digits, '.', '-', '_', '~' and non-ASCII characters"
		}
	}
	return ""
}

// segmentsText checks the common rules for paths of services and routes. It refuses text that
// cannot occur in a request path, because it would never match.
func segmentsText(path string) string {
	if strings.Contains(path, "//") {
		return "must not have empty segments"
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." {
			return "must be normalized"
		}
	}
	for i := range len(path) {
		c := path[i]
		switch {
		case c <= ' ' || c >= 0x7f || c == '?' || c == '#':
			return "must be percent-encoded and without query or fragment"
		case c == '%' && (i+2 >= len(path) || !isHex(path[i+1]) || !isHex(path[i+2])):
			return "invalid percent-encoding"
		}
	}
	return ""
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// tagText refuses tags that a filter by tags could not name.
func tagText(v any) string {
	if strings.ContainsAny(v.(string), ",/") || strings.ContainsFunc(v.(string), unicode.IsControl) {
		return "must not contain ',', '/' or control characters"
	}
	return ""
}

func violation(path, message string) []fault.Violation {
	return []fault.Violation{{Path: path, Message: message}}
}

// entityViolation returns a violation of the entity as a whole.
func entityViolation(message string) []fault.Violation { return violation("", message) }

// given returns the text of a normalised field, or "".
func given(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}

// texts returns the strings of a normalised list.
func texts(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

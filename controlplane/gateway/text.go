package gateway

import (
	"slices"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/filter/contract"
)

// Bounds, in bytes, of values that a filter puts into headers, as the tags of their
// fields have them. Together with
// the ids they stay below contract.MaxPacked, so that every consumer,
// application and token that can be stored can also be served.
const (
	MaxIdentity = 512  // username, custom_id, client_id, authenticated_userid
	MaxScope    = 1024 // all scopes of a token, or of a plugin, together
)

// HeaderSafe reports whether a value arrives unchanged when it is sent as a
// header value: no control characters, no blanks at the ends (they would be
// trimmed, and one identity would look like another). Source: RFC 9110 section 5.5.
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

// connectionHeaders belong to one connection or frame a message (RFC 9110
// sections 7.2, 7.6.1 and 8.6): what is in them is not the client's to choose.
var connectionHeaders = []string{
	"connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
}

// CredentialHeader says why no credential can be in a header of a name, empty if
// one can. Filters refuse every request where they are told such a name.
func CredentialHeader(name string) string { return credentialHeaderText(name) }

// credentialHeaderText refuses names of headers in which no credential can be.
// Pseudo-headers are refused for their colon. Headers that proxies remove from
// requests, because only gateways may say such things, hold none or a forged one.
func credentialHeaderText(v any) string {
	if text := headerNameText(v); text != "" {
		return text
	}
	// In capitals no spelling is the one that proxies keep.
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

// segmentsText checks what paths of services and routes have in common. Text
// that cannot occur in a request path would never match, so it is refused.
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

// tagText refuses what a filter by tags could not name.
func tagText(v any) string {
	if strings.ContainsAny(v.(string), ",/") || strings.ContainsFunc(v.(string), unicode.IsControl) {
		return "must not contain ',', '/' or control characters"
	}
	return ""
}

func violation(path, message string) []fault.Violation {
	return []fault.Violation{{Path: path, Message: message}}
}

// entityViolation concerns the whole entity and no single field.
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

package oauth

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// redirectURI adds the parameters of an answer to the query of a redirect URI. The URI's own
// parameters are kept unless the answer has one of the same name, and all are sorted. An own
// parameter without a value becomes "true". Source: RFC 6749 section 4.1.2.
func redirectURI(target string, answer map[string]any) string {
	base, query, _ := strings.Cut(target, "?")
	all := fields{values: map[string]any{}}
	all.readQuery(query, len(query))
	maps.Copy(all.values, answer)
	return base + "?" + encodeParams(all.values)
}

// redirectFragment puts the parameters of an answer into the fragment and leaves
// the query as it is. Source: RFC 6749 section 4.2.2.
func redirectFragment(target string, answer map[string]any) string {
	return target + "#" + encodeParams(answer)
}

// encodeParams writes parameters in the order of their names. The elements of
// lists are numbered from 1.
func encodeParams(values map[string]any) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pairs = appendPairs(pairs, name, values[name])
	}
	return strings.Join(pairs, "&")
}

func appendPairs(pairs []string, name string, v any) []string {
	text := ""
	switch v := v.(type) {
	case []any:
		for i, e := range v {
			pairs = appendPairs(pairs, fmt.Sprintf("%s[%d]", name, i+1), e)
		}
		return pairs
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			pairs = appendPairs(pairs, name+"["+k+"]", v[k])
		}
		return pairs
	case string:
		text = v
	case bool:
		text = strconv.FormatBool(v)
	case int64:
		text = strconv.FormatInt(v, 10)
	case json.Number:
		text = v.String()
	}
	if text == "" {
		return append(pairs, percentEncode(name))
	}
	return append(pairs, percentEncode(name)+"="+percentEncode(text))
}

// percentEncode encodes every byte but letters, digits and "_", with lower-case digits.
// Existing clients of such gateways expect this form.
func percentEncode(s string) string {
	const digits = "0123456789abcdef"
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
			out = append(out, c)
		default:
			out = append(out, '%', digits[c>>4], digits[c&15])
		}
	}
	return string(out)
}

// redirectTarget chooses the URI to which an authorisation request is answered. If the
// application has no URI, there is no target, so that nobody is redirected to a URI that was
// not registered. If the requested URI is not registered, the answer goes to the first
// registered one; in the strict profile it goes nowhere (RFC 9700 section 4.11).
func (t *Request) redirectTarget() (target string, refusal *Error) {
	if t.Application == nil || t.Spec().RedirectURIs == nil {
		return "", errClient
	}
	uris := t.Spec().RedirectURIs
	if len(uris) == 0 {
		return "", errRedirect
	}
	asked, given := t.params.values["redirect_uri"]
	if !given && (len(uris) == 1 || !t.Config.Strict()) {
		asked = uris[0]
	}
	if uri, ok := asked.(string); ok && t.registered(uri) {
		if t.Config.Strict() && !encrypted(uri) {
			return "", errRedirectHTTP
		}
		return uri, nil
	}
	if t.Config.Strict() {
		return "", errRedirect
	}
	return uris[0], errRedirect
}

// registered reports whether the application may be answered at a URI. It must equal a
// registered one, character by character. In the strict profile a loopback address may have
// any port, because a native application has to take the port that it gets (RFC 8252 section
// 7.3, RFC 9700 section 2.1).
func (t *Request) registered(uri string) bool {
	uris := t.Spec().RedirectURIs
	if slices.Contains(uris, uri) {
		return true
	}
	if !t.Config.Strict() {
		return false
	}
	asked, ok := withoutLoopbackPort(uri)
	return ok && slices.ContainsFunc(uris, func(known string) bool {
		known, ok := withoutLoopbackPort(known)
		return ok && known == asked
	})
}

// withoutLoopbackPort removes the port from an http URI whose host is a loopback address in
// digits. For other URIs, ok is false.
func withoutLoopbackPort(uri string) (string, bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "http" || u.User != nil {
		return "", false
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err != nil || !addr.IsLoopback() || addr.Zone() != "" {
		return "", false
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && err != nil {
		return "", false
	}
	return strings.Replace(uri, u.Host, strings.TrimSuffix(u.Host, ":"+u.Port()), 1), true
}

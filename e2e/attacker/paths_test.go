package attacker_test

import (
	"fmt"
	"strings"
)

// spellings are other ways to write a path. Some reach the same route, some
// another one and some none: the upstream's judge knows which one it is.
var spellings = []func(a *attack, path string) string{
	func(a *attack, p string) string { return a.atSlash(p, "//") },
	func(a *attack, p string) string { return a.atSlash(p, "/./") },
	func(a *attack, p string) string {
		return a.atSlash(p, pick(a, "/x/../", "/x/%2e%2e/", "/x/.%2E/", "/x/..;/", "/x/..;a=b/"))
	},
	func(a *attack, p string) string {
		return a.atSlash(p, pick(a, "%2f", "%2F", "%5c", "%5C", "%252f", `\`))
	},
	func(a *attack, p string) string { return a.atSlash(p, pick(a, ";/", ";a=b/", "/;/", "%3b/", "/.;/")) },
	// Through a route that nobody guards.
	func(a *attack, p string) string {
		return pick(a, "/open/..", "/open/%2e%2e", "/open/..;", "/open/x/../..", `/open/..\`, "/open%2f..", "/open/..%2f", "/open/%252e%252e", "/open/%c0%ae%c0%ae", "/open/.%E0%80%AE", "/open/..%c0%af", "/open/.;/..") + p
	},
	// From a guarded one to where it looks unguarded, and back.
	func(a *attack, p string) string {
		return p + pick(a, "/../../open/x", "/..;/open", "/%2e%2e/%2e%2e/open/x", "%2f..%2f..%2fopen", "/.", "/..", "//", "/", ".", "..", ";", "%20", "%09", "%00", "%23", "%3f")
	},
	func(a *attack, p string) string {
		return a.letter(p, func(c byte) string { return fmt.Sprintf("%%%02x", c) })
	},
	func(a *attack, p string) string {
		return a.letter(p, func(c byte) string { return fmt.Sprintf("%%%02X", c) })
	},
	func(a *attack, p string) string {
		return a.letter(p, func(c byte) string { return fmt.Sprintf("%%25%02x", c) })
	},
	func(a *attack, p string) string {
		return a.letter(p, func(c byte) string { return strings.ToUpper(string(c)) })
	},
	func(a *attack, p string) string {
		return p + pick(a, "?/../../open/x", "?x=/open/", "?", "?a=b?c=d", "?%23")
	},
	func(a *attack, p string) string { return a.odd(p + pick(a, "#", "#/../../open/x", "#?x")) },
	func(a *attack, p string) string { return a.odd(p[1:]) },
	func(a *attack, p string) string {
		return a.odd(a.letter(p, func(c byte) string { return pick(a, " ", "\t", "\x00", "\x7f", "\xff", "ü", "\r", "\n") + string(c) }))
	},
	func(a *attack, p string) string {
		return a.odd(pick(a, "http://gateway.example", "https://gateway.example", "HTTP://open", "http://user@gateway.example", "//open", "http:", "gateway.example:80") + p)
	},
	func(a *attack, _ string) string {
		return a.odd(pick(a, "*", "", "/%", "/%zz", "?", strings.Repeat("/x", 20<<10)))
	},
}

// respell spells the path otherwise, once or twice.
func (a *attack) respell() {
	a.exact = false
	for range 1 + a.IntN(2) {
		// An earlier spelling may have left nothing to work on.
		if strings.HasPrefix(a.path, "/") {
			a.path = pick(a, spellings...)(a, a.path)
		}
	}
	if !strings.HasPrefix(a.path, "/") {
		a.sane = false
	}
}

// odd marks a path that a parser may object to.
func (a *attack) odd(path string) string {
	a.sane = false
	return path
}

// atSlash replaces one slash of the path.
func (a *attack) atSlash(path, by string) string {
	if strings.ContainsAny(by, `\`) {
		a.sane = false
	}
	n := a.IntN(strings.Count(path, "/"))
	for i, c := range path {
		if c != '/' {
			continue
		}
		if n == 0 {
			return path[:i] + by + path[i+1:]
		}
		n--
	}
	return path
}

// letter replaces one byte behind the first slash.
func (a *attack) letter(path string, by func(byte) string) string {
	if len(path) < 2 {
		return path
	}
	i := 1 + a.IntN(len(path)-1)
	return path[:i] + by(path[i]) + path[i+1:]
}

// issuing goes for a token, with the secret of an application or without.
func (a *attack) issuing() {
	if a.chance(50) {
		a.path += "/oauth2/token"
	} else {
		a.path += pick(a, "/oauth2/token/", "/oauth2/authorize", "/oauth2/introspect", "/oauth2/revoke",
			"/oauth2/token;x", "/oauth2/token%2f", "/oauth2%2ftoken", "/OAuth2/token", "/oauth2/token.", "/oauth2/token/..;/", "/oauth2/token/.", "/oauth2//token", "/oauth2/token%00", "/oauth2/tokens")
	}
	if a.chance(80) {
		a.method = "POST"
	}
	if a.chance(60) {
		a.secure = true
	}
	a.add("Content-Type", pick(a, "application/x-www-form-urlencoded", "application/x-www-form-urlencoded", "application/x-www-form-urlencoded", "application/x-www-form-urlencoded", "Application/X-WWW-Form-URLencoded; charset=utf-8", "application/json", "text/plain", "multipart/form-data; boundary=b"))
	of := pick(a, consumers...)
	put := func(parameter string) {
		if a.chance(85) {
			a.form(parameter)
		} else {
			a.query(parameter)
		}
	}
	put("grant_type=" + pick(a, "client_credentials", "client_credentials", "client_credentials", "client_credentials", "client_credentials", "client_credentials", "password", "refresh_token", "authorization_code", "", "x"))
	put("client_id=" + of.application)
	switch a.IntN(5) {
	case 0: // none
	case 1:
		put("client_secret=" + pick(a, "wrong", "", strings.ToUpper(of.clientSecret), of.clientSecret+"%00", "$pbkdf2-sha512$"))
	case 2:
		a.client = true
		a.add("Authorization", of.basic())
	default:
		a.client = true
		put("client_secret=" + of.clientSecret)
		if a.chance(20) {
			put("client_secret=" + pick(a, "wrong", of.clientSecret))
		}
	}
	for _, more := range []string{"scope=email", "scope=everything", "provision_key=guess", "authenticated_userid=root", "refresh_token=x", "code=x", "grant_type=client_credentials", "client_id=bob-app", "redirect_uri=https%3A%2F%2Fevil.example", "state=%0d%0aX-A:b"} {
		if a.chance(10) {
			put(more)
		}
	}
}

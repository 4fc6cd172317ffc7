package httpkit

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// BrowserGuard protects an API that trusts everybody who reaches its port. On loopback this
// is safe only as long as no web page can make the user's browser reach the port. The guard
// refuses
//
//   - names in Host that are neither loopback nor listed: a page whose own name
//     was rebound to 127.0.0.1 sends its own name;
//   - requests that a browser marks as coming from another site
//     (Sec-Fetch-Site, Fetch Metadata) or whose Origin is not the API itself;
//   - X-Forwarded-*, Forwarded, X-Real-IP, Via and X-Envoy-*: a proxy in front would lend its loopback address to others.
//
// Permissive CORS headers would undo this, so they are sent to listed origins only.
type BrowserGuard struct {
	// Hosts are further names, without port, by which the API may be addressed.
	Hosts []string
	// Origins are web origins, such as https://console.example, that may call the API from a
	// browser. "*" permits all and gives up the protection.
	Origins []string
	// Proxied permits X-Forwarded-* headers.
	Proxied bool
	// Tokens lets requests with a bearer token pass: no browser sends one by itself, and one that
	// does not count is refused later. Other schemes prove nothing to such an API.
	Tokens bool
	// AnyHost permits every name. It is for APIs whose callers prove their identity with
	// something that no browser sends by itself, such as a bearer token.
	AnyHost bool
}

// Wrap returns next behind the guard.
func (g BrowserGuard) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		listed := origin != "" && (slices.Contains(g.Origins, "*") || slices.Contains(g.Origins, origin))
		if listed && preflight(w, r, origin, slices.Contains(g.Origins, "*")) {
			return
		}
		if reason := g.refuse(r, origin, listed); reason != "" && (!g.Tokens || !bears(r)) {
			EntryOf(r.Context()).Code = "browser_refused"
			WriteMessage(w, http.StatusForbidden, reason)
			return
		}
		if listed {
			allowOrigin(w.Header(), r, origin, slices.Contains(g.Origins, "*"))
		}
		next.ServeHTTP(w, r)
	})
}

func bears(r *http.Request) bool {
	_, ok := TokenOf(r)
	return ok
}

// preflight answers the question of a browser whether a page may make a request. It carries no
// credentials, so nobody else could answer it.
func preflight(w http.ResponseWriter, r *http.Request, origin string, all bool) bool {
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	allowOrigin(w.Header(), r, origin, all)
	w.Header().Set("Access-Control-Allow-Methods", "GET, PUT, POST, PATCH, DELETE")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// Local reports whether a request was made on this machine, and neither by a page of another
// site nor through a proxy. Whoever can make it can do what this machine's users can.
func Local(r *http.Request) bool {
	// A transparent proxy brings strangers from a loopback address to the address that they asked
	// for, which is one of the network. Servers always know the latter.
	if at, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr); known && !onLoopback(at.String()) {
		return false
	}
	return onLoopback(r.RemoteAddr) && BrowserGuard{}.refuse(r, r.Header.Get("Origin"), false) == ""
}

func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}

// SameSite reports whether no page of another site made a request. A browser may add a client
// certificate to such a request by itself.
func SameSite(r *http.Request) bool {
	return BrowserGuard{AnyHost: true, Proxied: true}.refuse(r, r.Header.Get("Origin"), false) == ""
}

func (g BrowserGuard) refuse(r *http.Request, origin string, listed bool) string {
	if !g.AnyHost && !g.local(r.Host) {
		return "this API does not answer to that Host"
	}
	if !g.Proxied {
		for name := range r.Header {
			if forwards(name) {
				return "this API does not answer forwarded requests"
			}
		}
	}
	if listed {
		return ""
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return "this API does not answer requests of other sites"
	}
	if len(r.Header.Values("Origin")) > 1 || origin != "" && !sameOrigin(origin, r) {
		return "this API does not answer requests of other origins"
	}
	return ""
}

// forwards reports whether a header is a trace of a proxy. Envoy always leaves X-Forwarded-Proto.
func forwards(name string) bool {
	switch name {
	case "Forwarded", "X-Real-Ip", "Via":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Envoy-")
}

// local reports whether a Host header names this machine or a listed host.
func (g BrowserGuard) local(host string) bool {
	name := hostname(host)
	if slices.Contains(g.Hosts, name) || name == "localhost" {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}

// hostname returns a Host header without port and brackets, in lower case.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// sameOrigin compares an Origin with the address that the request was sent to.
func sameOrigin(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return u.Scheme == scheme && strings.EqualFold(u.Host, r.Host)
}

func allowOrigin(h http.Header, r *http.Request, origin string, all bool) {
	if all {
		origin = "*"
	} else {
		h.Add("Vary", "Origin")
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type")
	}
}

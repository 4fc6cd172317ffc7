package engine

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func FuzzBearer(f *testing.F) {
	for _, s := range []string{"", "Bearer x", "token\tx ", "bearer", "Bearer a b", "Basic x", " x ", "x", "\v\f", "bearerx y", "BEARER\nX"} {
		f.Add(s)
	}
	two := regexp.MustCompile(`^[\t\n\v\f\r ]*(?i:bearer|token)[\t\n\v\f\r ]+([^\t\n\v\f\r ]+)[\t\n\v\f\r ]*$`)
	f.Fuzz(func(t *testing.T, value string) {
		want, schemed := value, false
		// Case folding in the expression goes beyond ASCII (the Kelvin sign is a k).
		if m := two.FindStringSubmatch(value); m != nil && !strings.ContainsRune(strings.TrimSuffix(value, m[1]), '\u212a') {
			want, schemed = m[1], true
		}
		token, got := bearer([]byte(value))
		if string(token) != want || got != schemed {
			t.Errorf("bearer(%q) = %q, %v, want %q, %v", value, token, got, want, schemed)
		}
	})
}

func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{"", "/", "?", "/oauth2/token", "/a/oauth2/authorize/?x", "/oauth2/token//", "/OAUTH2/token", "/x?/oauth2/token", "/oauth2/token#",
		"oauth2/token", "/a/oauth2/revoke", "/oauth2/introspect/?", "/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/a?b",
		"/.well-known/oauth-authorization-servers", "/.well-known/oauth-authorization-server/oauth2/token"} {
		f.Add(s)
	}
	issuing := regexp.MustCompile(`(?s)^[^?]*/oauth2/(token|authorize)/?(\?.*)?$`)
	further := regexp.MustCompile(`(?s)^[^?]*/oauth2/(introspect|revoke)/?(\?.*)?$`)
	public := regexp.MustCompile(`(?s)^/\.well-known/oauth-authorization-server(/[^?]*)?(\?.*)?$`)
	f.Fuzz(func(t *testing.T, path string) {
		plain, all := noEndpoint, noEndpoint
		if issuing.MatchString(path) {
			plain, all = issuingEndpoint, issuingEndpoint
		}
		if further.MatchString(path) {
			all = issuingEndpoint
		}
		if public.MatchString(path) {
			plain, all = noEndpoint, publicEndpoint
		}
		if got := [2]endpoint{endpointOf([]byte(path), false), endpointOf([]byte(path), true)}; got != [2]endpoint{plain, all} {
			t.Errorf("%q is %v, want %v, %v", path, got, plain, all)
		}
	})
}

func FuzzValidValue(f *testing.F) {
	for _, s := range []string{"", "a", " a", "a\t", "a\tb", "01234567\x1f", "\x7f1234567", "\x80\xff\x00", "Zoë Zoë Zoë"} {
		f.Add(s)
	}
	bad := regexp.MustCompile(`[\x00-\x08\x0a-\x1f\x7f]|^[\t ]|[\t ]$`)
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := validValue(s), !bad.MatchString(s); got != want {
			t.Errorf("validValue(%q) = %v, want %v", s, got, want)
		}
	})
}

func TestPrintableAtEveryOffset(t *testing.T) {
	for size := 1; size <= 24; size++ {
		for at := range size {
			for c := range 256 {
				b := []byte(strings.Repeat("x", size))
				b[at] = byte(c)
				want := c >= 0x20 && c != 0x7f || c == '\t'
				if got := printable(b); got != want {
					t.Fatalf("byte %#x at %d of %d: %v, want %v", c, at, size, got, want)
				}
			}
		}
	}
}

func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{
		``: `""`, `a`: `"a"`, `a"b`: `"a\"b"`, `a\`: `"a\\"`, "a\r\nb\x00\x7f": `"a  b  "`, "Zoë": `"Zoë"`,
	} {
		if got := quoted(in); got != want {
			t.Errorf("quoted(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestGRPCStatus(t *testing.T) {
	for status, want := range map[int]int{
		200: 0, 400: 3, 401: 16, 403: 7, 404: 5, 409: 6, 429: 8, 499: 1, 500: 13, 501: 12, 503: 14, 504: 4,
		402: 3, 418: 3, 502: 13, 599: 13, 204: 0, 302: 2, 426: 3,
	} {
		if got := grpcStatus(status); got != want {
			t.Errorf("grpcStatus(%d) = %d, want %d", status, got, want)
		}
	}
}

func TestGRPCMessage(t *testing.T) {
	for status, want := range map[int]string{
		http.StatusUnauthorized: "Unauthenticated", http.StatusForbidden: "PermissionDenied", http.StatusServiceUnavailable: "Unavailable",
		http.StatusTooManyRequests: "ResourceExhausted", http.StatusBadRequest: "InvalidArgument", http.StatusInternalServerError: "Internal",
		http.StatusOK: "OK", http.StatusFound: "Unknown", http.StatusNotFound: "NotFound", http.StatusConflict: "AlreadyExists",
		http.StatusGatewayTimeout: "DeadlineExceeded", http.StatusNotImplemented: "Unimplemented", 499: "Canceled",
	} {
		if got := answer(status, "", "").GRPCMessage(); got != want {
			t.Errorf("status %d: %q, want %q", status, got, want)
		}
	}
}

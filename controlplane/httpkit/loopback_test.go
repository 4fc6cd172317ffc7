package httpkit

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

func TestLoopback(t *testing.T) {
	for listen, want := range map[string]string{"0.0.0.0": "127.0.0.1", "::": "127.0.0.1", "127.0.0.2": "127.0.0.2", "10.0.0.1": "10.0.0.1"} {
		if got := Loopback(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}

// TestLocalByItsConnection: callers on this machine call its loopback from its loopback, and through nobody.
func TestLocalByItsConnection(t *testing.T) {
	for name, test := range map[string]struct {
		from, to, header string
		want             bool
	}{
		"on this machine":             {"127.0.0.1:1", "127.0.0.1:5681", "", true},
		"over IPv6":                   {"[::1]:1", "[::1]:5681", "", true},
		"from elsewhere":              {"10.0.0.8:1", "10.0.0.7:5681", "", false},
		"by its own address":          {"10.0.0.7:1", "10.0.0.7:5681", "", false},
		"through a transparent proxy": {"127.0.0.6:1", "10.0.0.7:5681", "", false},
		"and over IPv6":               {"[::1]:1", "[2001:db8::7]:5681", "", false},
		"through an Envoy":            {"127.0.0.1:1", "127.0.0.1:5681", "X-Forwarded-Proto", false},
		"that calls itself so":        {"127.0.0.1:1", "127.0.0.1:5681", "X-Envoy-Attempt-Count", false},
		"through another proxy":       {"127.0.0.1:1", "127.0.0.1:5681", "Via", false},
		"with an id":                  {"127.0.0.1:1", "127.0.0.1:5681", "X-Request-Id", true},
	} {
		r := httptest.NewRequest("GET", "http://localhost:5681/meshes", nil)
		r.RemoteAddr = test.from
		if test.header != "" {
			r.Header.Set(test.header, "1")
		}
		to := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(test.to))
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, to))
		if got := Local(r); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

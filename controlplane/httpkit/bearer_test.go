package httpkit

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

func TestBearer(t *testing.T) {
	const secret = "0123456789abcdef"
	passed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, tc := range []struct {
		name, token string
		sent        []string
		status      int
		challenge   string
	}{
		{"right", secret, []string{"Bearer " + secret}, 204, ""},
		{"case of the scheme", secret, []string{"bearer   " + secret}, 204, ""},
		{"none", secret, nil, 401, "Bearer"},
		{"wrong", secret, []string{"Bearer " + secret + "0"}, 401, `Bearer error="invalid_token"`},
		{"prefix", secret, []string{"Bearer 0123"}, 401, `Bearer error="invalid_token"`},
		{"other scheme", secret, []string{"Basic " + secret}, 401, `Bearer error="invalid_token"`},
		{"without scheme", secret, []string{secret}, 401, `Bearer error="invalid_token"`},
		{"two headers", secret, []string{"Bearer " + secret, "Bearer " + secret}, 401, `Bearer error="invalid_token"`},
		{"empty on both sides", "", []string{"Bearer "}, 401, `Bearer error="invalid_token"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header["Authorization"] = tc.sent
			w := httptest.NewRecorder()
			Identified(Bearer(tc.token, model.Administrator()), RefuseMessage, passed).ServeHTTP(w, r)
			if w.Code != tc.status || w.Header().Get("WWW-Authenticate") != tc.challenge {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Header().Get("WWW-Authenticate"), tc.status, tc.challenge)
			}
		})
	}
}

// TestAdminTokenHeader: tools that cannot send the token in Authorization send it in a
// special header. Tokens in both headers count as none.
func TestAdminTokenHeader(t *testing.T) {
	const secret = "0123456789abcdef"
	for name, tc := range map[string]struct {
		own, authorization []string
		status             int
	}{
		"right":      {[]string{secret}, nil, 204},
		"wrong":      {[]string{secret + "0"}, nil, 401},
		"empty":      {[]string{""}, nil, 401},
		"two":        {[]string{secret, secret}, nil, 401},
		"both":       {[]string{secret}, []string{"Bearer " + secret}, 401},
		"one wrong":  {[]string{"x"}, []string{"Bearer " + secret}, 401},
		"with Basic": {[]string{secret}, []string{"Basic YTpi"}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header[HeaderAdminToken] = tc.own
			if tc.authorization != nil {
				r.Header["Authorization"] = tc.authorization
			}
			w := httptest.NewRecorder()
			passed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
			Identified(Bearer(secret, model.Administrator()), RefuseMessage, passed).ServeHTTP(w, r)
			if w.Code != tc.status {
				t.Errorf("got %d, want %d", w.Code, tc.status)
			}
		})
	}
}

package httpkit

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRequireBearer(t *testing.T) {
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
			RequireBearer(tc.token, passed).ServeHTTP(w, r)
			if w.Code != tc.status || w.Header().Get("WWW-Authenticate") != tc.challenge {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Header().Get("WWW-Authenticate"), tc.status, tc.challenge)
			}
		})
	}
}

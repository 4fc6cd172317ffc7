package httpkit

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestAdministered: of an administration API, whoever wants to know learns of 401 and 403, and of nothing
// else, but for 503 while the issuer of the token is away; of other handlers behind the same server it learns nothing.
func TestAdministered(t *testing.T) {
	var got []string
	tell := func(r Refusal) {
		got = append(got, fmt.Sprintf("%d %s %s %s %s %s %s", r.Status, r.API, r.Method, r.Pattern, r.Source, r.Actor, r.UserAgent))
	}
	var status int
	inner := Named("/things/{id}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = As(r, model.User("ann"))
		if EntryOf(r.Context()).Source != netip.MustParseAddr("192.0.2.1") {
			t.Errorf("a handler sees %+v", EntryOf(r.Context()).Call)
		}
		w.WriteHeader(status)
	}))
	call := func(h http.Handler) {
		r := httptest.NewRequest("BREW", "/things/t0ken?key=t0ken", nil)
		r.RemoteAddr = "[::ffff:192.0.2.1]:1"
		r.Header.Set("User-Agent", "curl")
		Observe(h, slog.New(slog.DiscardHandler)).ServeHTTP(httptest.NewRecorder(), r)
	}
	for status = range 600 {
		if status >= 200 {
			call(Administered("mesh", tell, inner))
		}
	}
	want := []string{"401 mesh _OTHER /things/{id} 192.0.2.1 user:ann curl", "403 mesh _OTHER /things/{id} 192.0.2.1 user:ann curl"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	away := Administered("mesh", tell, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		EntryOf(r.Context()).IssuerAway = true
		w.WriteHeader(status)
	}))
	for status = range 600 {
		if status >= 200 && status/100 != 4 {
			call(away)
		}
	}
	if len(got) != 3 || !strings.HasPrefix(got[2], "503 mesh ") {
		t.Errorf("while an issuer is away: %q", got)
	}
	got = got[:2]
	status = 403
	call(Administered("mesh", nil, inner))
	call(Administered("mesh", tell, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("broken") })))
	call(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	if len(got) != 2 {
		t.Errorf("%q", got)
	}
}

package cloudapi

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/portal"
)

// behind has the API trust proxies, and returns what sends a request through one.
func (f *fixture) behind(proxy string) (through func(client string) func(*http.Request)) {
	f.api.Trusted = []netip.Prefix{netip.MustParsePrefix(proxy + "/32")}
	f.handler = httpkit.Observe(f.api.Handler(), slog.New(slog.DiscardHandler))
	return func(client string) func(*http.Request) {
		return func(r *http.Request) {
			from(proxy)(r)
			r.Header.Set("X-Forwarded-For", "192.0.2.200, "+client) // the first is what the client has sent
		}
	}
}

// TestClientsBehindProxy: events name clients behind a proxy, and one of them that guesses is the only one
// that is locked out, whatever it sends. Nobody else speaks for clients.
func TestClientsBehindProxy(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	f.hook(at)
	f.developer(at, "ada@example.com")
	through := f.behind("10.0.0.1")
	try := func(password string, edit func(*http.Request)) answer {
		return f.site("POST", at, "/authenticate", fmt.Sprintf(`{"username":"ada@example.com","password":%q}`, password), edit)
	}
	if got := try(password, through("203.0.113.2")); got.Code != 204 {
		t.Fatal(got.told())
	}
	for i := range portal.DefaultLimits.Address.Burst {
		edit := func(r *http.Request) {
			through("203.0.113.1")(r)
			r.Header["X-Forwarded-For"] = []string{fmt.Sprintf("198.51.100.%d", i), "203.0.113.1"}
		}
		if got := try("wrong", edit).told(); got != toldInvalid {
			t.Fatal(got)
		}
	}
	if got := try("wrong", through("203.0.113.1")).told(); got != toldMany {
		t.Errorf("who guesses: %s", got)
	}
	if got := try(password, through("203.0.113.2")); got.Code != 204 {
		t.Errorf("another client of the proxy: %s", got.told())
	}
	try("wrong", func(r *http.Request) { through("203.0.113.3")(r); from("198.51.100.9")(r) })
	var sources []string
	for _, e := range f.events(at) {
		if n := len(sources); n == 0 || sources[n-1] != e.Source.String() {
			sources = append(sources, e.Source.String())
		}
	}
	if got := fmt.Sprint(sources); got != "[203.0.113.2 203.0.113.1 203.0.113.2 198.51.100.9]" {
		t.Errorf("the events are of %s", got)
	}
}

// TestRefusedBehindProxy: what is told of refused calls names the client, too.
func TestRefusedBehindProxy(t *testing.T) {
	f := setup(t)
	var refused []string
	f.api.Refused = func(r httpkit.Refusal) { refused = append(refused, r.Source.String()) }
	through := f.behind("10.0.0.1")
	for _, edit := range []func(*http.Request){through("203.0.113.1"), from("203.0.113.2"), from("10.0.0.1")} {
		r := httptest.NewRequest(http.MethodGet, destinations, nil)
		edit(r)
		f.handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if got := fmt.Sprint(refused); got != "[203.0.113.1 203.0.113.2 10.0.0.1]" {
		t.Errorf("refused calls are of %s", got)
	}
}

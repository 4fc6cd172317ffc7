package edge

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan/plantest"
)

// claim is a request to a route that demands a value of a header by which clients tell where
// a request comes from.
type claim struct {
	header, wants string // what the route demands
	trusted       bool   // whether the client is
	host, path    string
	says          [][2]string
	matches       bool
}

var claims = []claim{
	{"x-forwarded-host", "shop.test", false, "shop.test", "/", nil, true},
	{"x-forwarded-host", "SHOP.test", false, "shop.test", "/", [][2]string{{"X-Forwarded-Host", "other.test"}}, true},
	{"x-forwarded-host", "shop.test", false, "other.test", "/", [][2]string{{"X-Forwarded-Host", "shop.test"}}, false},
	{"x-forwarded-host", "shop.test", true, "other.test", "/", [][2]string{{"X-Forwarded-Host", "shop.test"}}, true},
	{"x-forwarded-host", "shop.test", true, "shop.test", "/", [][2]string{{"X-Forwarded-Host", "other.test"}}, false},
	{"x-forwarded-host", "shop.test", true, "shop.test", "/", nil, true},
	{"x-forwarded-host", "~*^shop", false, "shop.test", "/", nil, true},
	{"x-forwarded-host", "~*^shop", false, "a.shop.test", "/", nil, false},

	{"x-forwarded-path", "/%d/X", false, "a", "/x?q", nil, true},
	{"x-forwarded-path", "/%d/x", false, "a", "/y", [][2]string{{"X-Forwarded-Path", "/%d/x"}}, false},
	{"x-forwarded-path", "/%d/x", false, "a", "/xx", nil, false},
	{"x-forwarded-path", "/%d/x", true, "a", "/y", [][2]string{{"X-Forwarded-Path", "/%d/x"}}, true},
	{"x-forwarded-path", "/%d/x", true, "a", "/x", [][2]string{{"X-Forwarded-Path", "/y"}}, false},
	{"x-forwarded-path", "/%d/x", true, "a", "/x?q", nil, true},
	{"x-forwarded-path", "~*/x$", false, "a", "/x?q", nil, true},
	{"x-forwarded-path", "~*/x$", false, "a", "/y?/x", nil, false},
	{"x-forwarded-path", "~*secret", false, "a", "/y?secret", nil, false},
	{"x-forwarded-path", "~*secret", false, "a", "/a-secret/x?y", nil, true},

	{"x-forwarded-for", "127.0.0.3", false, "a", "/", nil, true},
	{"x-forwarded-for", "127.0.0.3", false, "a", "/", [][2]string{{"X-Forwarded-For", "192.0.2.1"}}, true},
	{"x-forwarded-for", "192.0.2.1", false, "a", "/", [][2]string{{"X-Forwarded-For", "192.0.2.1"}}, false},
	{"x-forwarded-for", "~*192", false, "a", "/", [][2]string{{"X-Forwarded-For", "192.0.2.1"}, {"X-Envoy-External-Address", "192.0.2.1"}}, false},
	{"x-forwarded-for", "192.0.2.1,127.0.0.2", true, "a", "/", [][2]string{{"X-Forwarded-For", "192.0.2.1"}}, true},

	{"x-real-ip", "127.0.0.3", false, "a", "/", nil, true},
	{"x-real-ip", "127.0.0.3", false, "a", "/", [][2]string{{"X-Real-IP", "192.0.2.1"}}, true},
	{"x-real-ip", "192.0.2.1", false, "a", "/", [][2]string{{"X-Real-IP", "192.0.2.1"}, {"X-Forwarded-For", "192.0.2.1"}}, false},
	{"x-real-ip", "192.0.2.1", true, "a", "/", [][2]string{{"X-Real-IP", "192.0.2.1"}}, false},
	{"x-real-ip", "192.0.2.1", true, "a", "/", [][2]string{{"X-Forwarded-For", "192.0.2.1"}}, true},

	{"x-consumer-username", "bob", false, "a", "/", [][2]string{{"X-Consumer-Username", "bob"}}, false},
	{"x-authenticated-userid", "~*b", true, "a", "/", [][2]string{{"X-Authenticated-Userid", "bob"}}, false},
	{"x-consumer_id", "bob", false, "a", "/", [][2]string{{"X-Consumer_Id", "bob"}}, false},

	{"x-forwarded-prefix", "/p", false, "a", "/", [][2]string{{"X-Forwarded-Prefix", "/p"}}, false},
	{"x-forwarded-prefix", "/p", true, "a", "/", [][2]string{{"X-Forwarded-Prefix", "/p"}}, true},
	{"forwarded", "~*for=", false, "a", "/", [][2]string{{"Forwarded", "for=192.0.2.1"}}, false},
	{"forwarded", "~*for=", true, "a", "/", [][2]string{{"Forwarded", "for=192.0.2.1"}}, true},

	{"x-forwarded-port", "7", false, "a", "/", [][2]string{{"X-Forwarded-Port", "7"}}, false},
	{"x-forwarded-port", "PORT", false, "a", "/", [][2]string{{"X-Forwarded-Port", "7"}}, true},
	{"x-forwarded-port", "7", true, "a", "/", [][2]string{{"X-Forwarded-Port", "7"}}, true},
	{"x-forwarded-port", "PORT", true, "a", "/", nil, true},
	{"x-forwarded-proto", "https", false, "a", "/", [][2]string{{"X-Forwarded-Proto", "https"}}, false},
	{"x-forwarded-proto", "https", true, "a", "/", [][2]string{{"X-Forwarded-Proto", "https"}}, true},
}

// TestClaimsChooseNoRoute: a route that demands a header of those which the filter writes is
// chosen by what the gateway sees, or by what a trusted client says, and not by the claims of
// others: routes are chosen before the filter runs. A real Envoy is asked, for every mode of
// the filter that it has.
func TestClaimsChooseNoRoute(t *testing.T) {
	for _, mode := range onEnvoy {
		t.Run(mode.String(), func(t *testing.T) { chooseNoRoute(t, mode) })
	}
}

func chooseNoRoute(t *testing.T, mode contract.Mode) {
	t.Helper()
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer up.Close()
	params := Params{Address: "127.0.0.1", HTTPPort: freePort(t), Trusted: "127.0.0.2/32", Filter: mode}
	numbered := func(i int, text string) string {
		text = strings.ReplaceAll(text, "PORT", fmt.Sprint(params.HTTPPort))
		return strings.ReplaceAll(text, "%d", fmt.Sprint(i))
	}
	w := newWorld(t)
	s := serviceSpec("")
	s.Port = up.Listener.Addr().(*net.TCPAddr).Port
	w.put(gateway.Services, id(1, 0), 1, s)
	for i, c := range claims {
		r := routeSpec(id(1, 0), fmt.Sprintf("/%d", i))
		r.Headers = gateway.MatchedHeaders{c.header: {numbered(i, c.wants)}}
		w.put(gateway.Routes, id(2, i), 1, r)
	}
	b := bare(t)
	result := NewPlanner(params).Plan(w.state())
	for _, f := range result.Failures {
		t.Error(f)
	}
	add(t, b, result.Set)
	plantest.Run(t, write(t, b))
	from := map[bool]*http.Client{}
	for trusted, address := range map[bool]string{true: "127.0.0.2", false: "127.0.0.3"} {
		transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext}
		defer transport.CloseIdleConnections()
		from[trusted] = &http.Client{Transport: transport}
	}
	for i, c := range claims {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/%d%s", params.HTTPPort, i, c.path), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = c.host
		for _, said := range c.says {
			req.Header.Set(said[0], numbered(i, said[1]))
		}
		res, err := from[c.trusted].Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if got := res.StatusCode == http.StatusOK; got != c.matches {
			t.Errorf("%+v: chosen %t (%d)", c, got, res.StatusCode)
		}
	}
}

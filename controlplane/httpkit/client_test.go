package httpkit

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

// TestBehind: the client is the nearest address behind the proxies that are trusted, whatever it has sent
// itself; where that cannot be said, it is the connection.
func TestBehind(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8:1::/48")}
	const proxy = "10.0.0.1:4711"
	for name, test := range map[string]struct {
		trusted []netip.Prefix
		peer    string
		lines   []string
		want    string
	}{
		"nobody is trusted":               {nil, proxy, []string{"203.0.113.9"}, "10.0.0.1"},
		"a stranger":                      {trusted, "198.51.100.1:80", []string{"203.0.113.9"}, "198.51.100.1"},
		"a stranger in the name of proxy": {trusted, "198.51.100.1:80", []string{"203.0.113.9, 10.0.0.1"}, "198.51.100.1"},
		"one address":                     {trusted, proxy, []string{"203.0.113.9"}, "203.0.113.9"},
		"no header":                       {trusted, proxy, nil, "10.0.0.1"},
		"an empty header":                 {trusted, proxy, []string{""}, "10.0.0.1"},
		"spoofed first":                   {trusted, proxy, []string{"1.2.3.4, 203.0.113.9"}, "203.0.113.9"},
		"a trusted one spoofed first":     {trusted, proxy, []string{"10.0.0.9,203.0.113.9"}, "203.0.113.9"},
		"nonsense first":                  {trusted, proxy, []string{"unknown, ,<x>,203.0.113.9"}, "203.0.113.9"},
		"spoofed in a line of its own":    {trusted, proxy, []string{"1.2.3.4", "203.0.113.9"}, "203.0.113.9"},
		"a chain":                         {trusted, proxy, []string{"1.2.3.4, 203.0.113.9, 10.9.9.9\t,  192.0.2.7"}, "203.0.113.9"},
		"a chain over lines":              {trusted, proxy, []string{"203.0.113.9, 10.9.9.9", "192.0.2.7"}, "203.0.113.9"},
		"behind a neighbour of a proxy":   {trusted, proxy, []string{"203.0.113.9, 192.0.2.8"}, "192.0.2.8"},
		"a chain without a client":        {trusted, proxy, []string{"10.9.9.9, 192.0.2.7"}, "10.0.0.1"},
		"with a port":                     {trusted, proxy, []string{"203.0.113.9:55000"}, "203.0.113.9"},
		"IPv6":                            {trusted, "[2001:db8:1::1]:443", []string{"1.2.3.4, 2001:db8:2::5"}, "2001:db8:2::5"},
		"IPv6 in brackets":                {trusted, proxy, []string{"[2001:db8:2::5]"}, "2001:db8:2::5"},
		"IPv6 with a port":                {trusted, proxy, []string{"[2001:db8:2::5]:55000, [2001:db8:1::2]:1"}, "2001:db8:2::5"},
		"IPv6 with a zone":                {trusted, proxy, []string{"fe80::1%eth0"}, "fe80::1"},
		"IPv4 in IPv6":                    {trusted, "[::ffff:10.0.0.1]:443", []string{"::ffff:203.0.113.9, ::ffff:10.0.0.2"}, "203.0.113.9"},
		"no address":                      {trusted, proxy, []string{"203.0.113.9, unknown"}, "10.0.0.1"},
		"no address in the chain":         {trusted, proxy, []string{"203.0.113.9, _hidden, 10.0.0.2"}, "10.0.0.1"},
		"an empty entry":                  {trusted, proxy, []string{"203.0.113.9,"}, "10.0.0.1"},
		"an empty line":                   {trusted, proxy, []string{"203.0.113.9", ""}, "10.0.0.1"},
		"no port":                         {trusted, proxy, []string{"203.0.113.9:"}, "10.0.0.1"},
		"a port too high":                 {trusted, proxy, []string{"203.0.113.9:99999"}, "10.0.0.1"},
		"a bracket":                       {trusted, proxy, []string{"[2001:db8:2::5"}, "10.0.0.1"},
		"IPv4 in brackets":                {trusted, proxy, []string{"[203.0.113.9]"}, "10.0.0.1"},
		"blanks instead of commas":        {trusted, proxy, []string{"1.2.3.4 203.0.113.9"}, "10.0.0.1"},
		"leading zeros":                   {trusted, proxy, []string{"203.0.113.009"}, "10.0.0.1"},
		"a network":                       {trusted, proxy, []string{"203.0.113.0/24"}, "10.0.0.1"},
		"no connection":                   {trusted, "@", []string{"203.0.113.9"}, "invalid IP"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			var got netip.Addr
			h := Behind(test.trusted, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = SourceOf(r) }))
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = test.peer
			r.Header[headerForwarded] = test.lines
			Observe(h, slog.New(slog.NewTextHandler(&log, nil))).ServeHTTP(httptest.NewRecorder(), r)
			if got.String() != test.want {
				t.Errorf("the client is %s, want %s", got, test.want)
			}
			if said, forwarded := strings.Contains(log.String(), " client="+test.want), test.want != connectionOf(r).String(); said != forwarded || !strings.Contains(log.String(), test.peer) {
				t.Errorf("the log says %s", log.String())
			}
		})
	}
}

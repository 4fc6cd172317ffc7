package outward

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// spellings are ways to write addresses of this machine, and whether the dialer understands them without a
// resolver. Resolvers of some systems understand the others.
var spellings = map[string]bool{
	"127.0.0.1": true, "[::1]": true, "[::]": true, "0.0.0.0": true, "[::ffff:127.0.0.1]": true, "[::ffff:7f00:1]": true, "[0:0:0:0:0:0:0:1]": true,
	"[::1%25lo]": true, "[64:ff9b::7f00:1]": true, "[2002:7f00:1::]": true, "１２７.0.0.1": true, "127。0。0。1": true, "①②⑦.0.0.1": true,
	"localhost": true, "LocalHost": true, "ｌocalhost": true, "localhost.": false, "siem.localhost": false,
	"127.1": false, "127.0.1": false, "0x7f.1": false, "0X7F.0.0.1": false, "0177.0.0.1": false, "2130706433": false, "0x7f000001": false, "017700000001": false,
	"0": false, "127.0.0.1.": false, "127.0.0.256": false, "1.2.3.4.5": false, "0x": false, "09.1": false, "4294967296": false,
}

// TestForeseen: what is written as an address where no request goes is refused before there is one, by the rules
// of connections, however it is spelled. What is to be resolved is not.
func TestForeseen(t *testing.T) {
	var arrived atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	none := Options{Resolver: resolver(t, nil)}
	c := client(t, none)
	for host, dialed := range spellings {
		for _, scheme := range []string{"http://", "https://"} {
			target := scheme + host + ":" + port
			if err := none.Foresee(target); !errors.Is(err, ErrNotAllowed) {
				t.Errorf("%s: %v", target, err)
			}
			if _, err := get(t, c, target); dialed && !errors.Is(err, ErrNotAllowed) || err == nil {
				t.Errorf("a request to %s: %v", target, err)
			}
		}
	}
	if n := arrived.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	for _, target := range []string{
		"https://siem.example", "http://siem.example", "https://8.8.8.8/", "https://[2606:4700::1111]:8443/", "https://134744072", "https://localhost.example",
		"https://notlocalhost", "https://127.0.0.1.example", "https://1e100.example", "https://müller.example", "", "::", "https://[::1", "ftp://127.0.0.1",
	} {
		if err := none.Foresee(target); err != nil {
			t.Errorf("%q: %v", target, err)
		}
	}
	for _, target := range []string{"http://8.8.8.8", "http://134744072", "http://[2606:4700::1111]/"} {
		if err := none.Foresee(target); !errors.Is(err, ErrPlain) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestLongHosts: what is too long for a name of a host is refused by its length, before its characters are looked at,
// which takes minutes for a host of a million.
func TestLongHosts(t *testing.T) {
	var o Options
	long := strings.Repeat("a.", 126) + "a"
	for host, refused := range map[string]bool{
		long: false, long + ".": false, long + "a": true, "a" + long + ".": true,
		strings.Repeat("ü", 126): false, strings.Repeat("ü", 127): true, strings.Repeat("ü.", 85): true,
	} {
		if err := o.Foresee("https://" + host + "/in"); errors.Is(err, ErrNotAllowed) != refused {
			t.Errorf("%d bytes: %v, want that it is refused: %v", len(host), err, refused)
		}
	}
}

// TestForeseenAsAllowed: networks that are allowed, and ports that are the control plane's own, count as they do
// for connections.
func TestForeseenAsAllowed(t *testing.T) {
	o := Options{Allowed: loopback, Own: func(at netip.AddrPort) bool {
		return at.Addr().IsLoopback() && strings.Contains(" 80 443 5681 ", " "+at.String()[strings.LastIndexByte(at.String(), ':')+1:]+" ")
	}}
	for target, want := range map[string]bool{
		"https://127.0.0.1:9443": true, "http://127.1:9443": true, "https://localhost:9443": true, "https://[::ffff:127.0.0.1]:9443": true,
		"https://[::1]:9443": false, "https://10.0.0.1:9443": false, "https://169.254.169.254": false,
		"https://127.0.0.1:5681": false, "https://localhost:05681": false, "https://2130706433:5681": false, "https://127.0.0.1": false, "http://127.0.0.1": false,
	} {
		err := o.Foresee(target)
		if got := err == nil; got != want || err != nil && !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s is allowed: %v (%v), want %v", target, got, err, want)
		}
	}
}

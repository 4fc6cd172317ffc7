package outward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/meshgate/meshgate/e2e/ports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// judged returns the verdict about an address without connecting to it.
func judged(o Options, at string) error { return control(o.safe())("tcp", at, nil) }

// TestClearText: plain HTTP goes only to networks that are named.
func TestClearText(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::ffff:8.8.8.0/120"), netip.MustParsePrefix("fd00::/8")}
	for at, want := range map[string]error{
		"10.1.2.3:80": nil, "8.8.8.8:80": nil, "[fd00::1]:80": nil, "[::ffff:10.1.2.3]:80": nil,
		"1.1.1.1:80": ErrPlain, "[2606:4700::1111]:80": ErrPlain, "[64:ff9b::808:808]:80": ErrPlain,
		"127.0.0.1:80": ErrNotAllowed, "192.168.1.1:80": ErrNotAllowed, "[fd00:ec2::254]:80": ErrNotAllowed,
	} {
		o := Options{Allowed: networks}
		if err := control(o.named())("tcp", at, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", at, err, want)
		}
	}
	c := New(Options{Resolver: &net.Resolver{PreferGo: true}})
	defer c.Close()
	if _, err := get(t, c, "http://1.1.1.1/"); !errors.Is(err, ErrPlain) || Reason(err) != ErrPlain.Error() {
		t.Errorf("plain HTTP to an address that nobody names: %v", err)
	}
}

// TestForbiddenAddresses: nothing that is only this machine's, or only its network's, can be reached.
func TestForbiddenAddresses(t *testing.T) {
	for _, ip := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "198.18.0.1",
		"192.0.0.192", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fc00::1", "ff02::1",
		"64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "2002:7f00:1::", "2001:db8::1",
	} {
		for _, port := range []string{"80", "443", "8443"} {
			if err := judged(Options{}, net.JoinHostPort(ip, port)); !errors.Is(err, ErrNotAllowed) {
				t.Errorf("%s:%s: %v", ip, port, err)
			}
		}
	}
	for _, ip := range []string{"8.8.8.8", "1.1.1.1", "2606:4700::1111"} {
		if err := judged(Options{}, net.JoinHostPort(ip, "8443")); err != nil {
			t.Errorf("%s is refused: %v", ip, err)
		}
	}
}

// TestAllowedNetworks: an allowed network is reached, its neighbour is not, and the control plane's own
// ports never are.
func TestAllowedNetworks(t *testing.T) {
	o := Options{
		Allowed: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd12::/16"), netip.MustParsePrefix("::ffff:192.168.7.0/120")},
		Own:     func(at netip.AddrPort) bool { return at == netip.MustParseAddrPort("10.1.0.1:5681") },
	}
	for at, want := range map[string]bool{
		"10.1.2.3:443": true, "10.2.0.1:443": false, "[::ffff:10.1.2.3]:443": true, "[fd12::1]:443": true, "[fd13::1]:443": false,
		"192.168.7.9:443": true, "192.168.8.9:443": false, "10.1.0.1:5681": false, "[::ffff:10.1.0.1]:5681": false, "10.1.0.1:5682": true,
	} {
		if got := judged(o, at) == nil; got != want {
			t.Errorf("%s is allowed: %v, want %v", at, got, want)
		}
	}
}

// TestAddressesInAddresses: a gateway on the way takes some addresses for others, which are judged.
func TestAddressesInAddresses(t *testing.T) {
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, p := range list {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	own := func(at netip.AddrPort) bool { return at == netip.MustParseAddrPort("8.8.8.8:5681") }
	for _, tt := range []struct {
		at      string
		allowed []netip.Prefix
		want    bool
	}{
		{"[64:ff9b::808:808]:443", nil, true},
		{"[64:ff9b::808:808]:5681", nil, false}, // our own
		{"[64:ff9b::7f00:1]:443", prefixes("64:ff9b::/96"), false},
		{"[64:ff9b::a9fe:a9fe]:80", prefixes("64:ff9b::/96", "::/0"), false},
		{"[64:ff9b::a83f:8110]:80", nil, false}, // 168.63.129.16
		{"[64:ff9b::a01:203]:443", prefixes("10.1.0.0/16"), true},
		{"[64:ff9b:1::808:808]:443", nil, false},
		{"[64:ff9b:1::a00:1]:443", prefixes("64:ff9b:1::/48"), false},
		{"[64:ff9b:1:7f00:0:100::]:443", prefixes("64:ff9b:1::/48"), false}, // 127.0.0.1 after 48 bits
		{"[2002:808:808::1]:443", nil, false},
		{"[2002:808:808::1]:443", prefixes("2002::/16"), true},
		{"[2002:808:808::1]:5681", prefixes("2002::/16"), false},
		{"[2002:7f00:1::1]:443", prefixes("2002::/16"), false},
		{"[::ffff:8.8.8.8]:5681", nil, false},
	} {
		if got := judged(Options{Allowed: tt.allowed, Own: own}, tt.at) == nil; got != tt.want {
			t.Errorf("%s with %v is allowed: %v", tt.at, tt.allowed, got)
		}
	}
}

// TestMetadata: what clouds have for their machines is reached only if it is allowed as itself.
func TestMetadata(t *testing.T) {
	for _, text := range []string{
		"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fd00:42::42", "169.254.42.42",
	} {
		a := netip.MustParseAddr(text)
		at := netip.AddrPortFrom(a, 80).String()
		networks := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		if judged(Options{}, at) == nil || judged(Options{Allowed: networks}, at) == nil {
			t.Errorf("%s is reached", a)
		}
		if err := judged(Options{Allowed: []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}}, at); err != nil {
			t.Errorf("%s is allowed and not reached", a)
		}
	}
}

// loopback allows the receivers of tests.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

func get(t *testing.T, c *Client, target string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	status, _, err := c.Do(req)
	return status, err
}

func client(t *testing.T, o Options) *Client {
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// TestSpellings: the address is judged that the connection would go to, however it is spelled.
func TestSpellings(t *testing.T) {
	var arrived atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	c := client(t, Options{})
	for _, host := range []string{"127.0.0.1", "localhost", "127.1", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "[::]", "0"} {
		if _, err := get(t, c, "http://"+host+":"+port); err == nil {
			t.Errorf("%s was reached", host)
		}
	}
	if n := arrived.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
	if status, err := get(t, client(t, Options{Allowed: loopback}), s.URL); status != http.StatusOK || err != nil {
		t.Errorf("an allowed receiver: %d, %v", status, err)
	}
}

// TestNamesThatLead: each of the addresses of a name is judged.
func TestNamesThatLead(t *testing.T) {
	var arrived atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	defer s.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(s.URL, "http://"), ":")
	for name, test := range map[string]struct {
		answers []string
		want    error // of the first address
	}{
		"loopback": {[]string{"127.0.0.1"}, ErrNotAllowed},
		"mixed":    {[]string{"192.168.255.254", "127.0.0.1"}, ErrNotAllowed},
		"hidden":   {[]string{"::ffff:127.0.0.1"}, ErrNotAllowed},
		// The dialer tries the next address when one fails: that one is judged, too.
		"after an allowed one":  {[]string{harmless, "127.0.0.1"}, syscall.ECONNREFUSED},
		"before an allowed one": {[]string{"127.0.0.1", harmless}, ErrNotAllowed},
	} {
		c := client(t, Options{Resolver: resolver(t, test.answers), Allowed: []netip.Prefix{netip.MustParsePrefix(harmless + "/32")}})
		if _, err := get(t, c, "http://receiver.example:"+port); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := arrived.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// TestNamesThatMove: what is judged is what is connected to. A name that was harmless when it was resolved first
// and leads elsewhere a moment later is reached where it was harmless, and then not at all.
func TestNamesThatMove(t *testing.T) {
	var reached, arrived atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); strings.HasPrefix(at.String(), harmless+":") {
			reached.Add(1)
		} else {
			arrived.Add(1)
		}
	}))
	_ = s.Listener.Close()
	var err error
	if s.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp4", "0.0.0.0:0"); err != nil { // both addresses, by one port
		t.Fatal(err)
	}
	s.Start()
	defer s.Close()
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	c := client(t, Options{Resolver: resolver(t, []string{harmless}, []string{"127.0.0.1"}), Allowed: []netip.Prefix{netip.MustParsePrefix(harmless + "/32")}})
	if status, err := get(t, c, "http://receiver.example:"+port); status != http.StatusOK || err != nil {
		t.Errorf("while it is harmless: %d, %v", status, err)
	}
	c.Close() // so that the next request connects
	if _, err := get(t, c, "http://receiver.example:"+port); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("once it leads elsewhere: %v", err)
	}
	if reached.Load() != 1 || arrived.Load() != 0 {
		t.Errorf("%d requests arrived where it is allowed, %d elsewhere", reached.Load(), arrived.Load())
	}
}

// harmless is an address of this machine that is allowed. It stands for a public one.
const harmless = "127.0.0.2"

// resolver answers questions by addresses, of the family that is asked for: the first one by the first of the
// answers, and so on. The last of them stays.
func resolver(t *testing.T, answers ...[]string) *net.Resolver {
	t.Helper()
	pc, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1<<10)
		asked := map[dnsmessage.Type]int{}
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = pc.WriteTo(answer(buf[:n], answers, asked), from)
		}
	}()
	t.Cleanup(func() { _ = pc.Close(); <-done })
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", pc.LocalAddr().String())
	}}
}

func answer(question []byte, answers [][]string, asked map[dnsmessage.Type]int) []byte {
	var m dnsmessage.Message
	if m.Unpack(question) != nil || len(m.Questions) != 1 {
		return nil
	}
	q := m.Questions[0]
	now := answers[min(asked[q.Type], len(answers)-1)]
	asked[q.Type]++
	m.Header.Response, m.Additionals = true, nil
	header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
	for _, text := range now {
		switch ip := netip.MustParseAddr(text); {
		case ip.Is4() && q.Type == dnsmessage.TypeA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: ip.As4()}})
		case ip.Is6() && q.Type == dnsmessage.TypeAAAA:
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}})
		}
	}
	out, _ := m.Pack()
	return out
}

// TestRedirectsEnd: a receiver cannot send the request on to somebody else.
func TestRedirectsEnd(t *testing.T) {
	var followed atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/next" {
			followed.Add(1)
		}
		http.Redirect(w, r, "/next", http.StatusFound)
	}))
	defer s.Close()
	if status, err := get(t, client(t, Options{Allowed: loopback}), s.URL); status != http.StatusFound || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if followed.Load() != 0 {
		t.Error("the redirect was followed")
	}
}

// TestNoProxyOfTheEnvironment: a proxy would connect for us, to where nobody judges.
func TestNoProxyOfTheEnvironment(t *testing.T) {
	var proxied atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied.Add(1) }))
	defer proxy.Close()
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	for _, c := range []*http.Client{&New(Options{}).secure, &New(Options{}).plain} {
		if c.Transport.(*http.Transport).Proxy != nil { // the environment is read once for each process
			t.Error("the client has a proxy")
		}
	}
	if _, err := get(t, client(t, Options{Allowed: loopback, Resolver: resolver(t, []string{"127.0.0.2"})}), "http://receiver.example:1"); err == nil {
		t.Error("somebody answered")
	}
	if proxied.Load() != 0 {
		t.Error("the proxy was asked")
	}
}

// TestConnectionsAreKept: those who send to one host at the same time do so again without new connections,
// each of which costs a handshake.
func TestConnectionsAreKept(t *testing.T) {
	const senders = 8
	var made, came atomic.Int32
	rounds := []chan struct{}{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := came.Add(1)
		round := rounds[(n-1)/senders]
		if n%senders == 0 {
			close(round)
		}
		<-round // all are answered together
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	// A connection whose request is not known to be written a moment after its answer is not used again: no time passes.
	synctest.Test(t, func(t *testing.T) {
		c := client(t, Options{Allowed: loopback})
		for range rounds {
			var all sync.WaitGroup
			for range senders {
				all.Go(func() {
					if status, err := get(t, c, server.URL); status != http.StatusOK {
						t.Errorf("%d, %v", status, err)
					}
				})
			}
			all.Wait()
		}
	})
	if n := made.Load(); n != senders {
		t.Errorf("%d connections for %d senders", n, senders)
	}
}

// TestLargeAnswers: a receiver that never stops answering holds nothing up.
func TestLargeAnswers(t *testing.T) {
	stopped := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(stopped)
		for block := make([]byte, 64<<10); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer s.Close()
	if status, err := get(t, client(t, Options{Allowed: loopback}), s.URL); status != http.StatusOK || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	select {
	case <-stopped:
	case <-time.After(time.Minute):
		t.Error("the receiver still writes")
	}
}

// TestReasons: what people are told about a failure names no address.
func TestReasons(t *testing.T) {
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	defer trusted.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	unused, err := ports.Free(1)
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]string{
		"the certificate is not trusted":  trusted.URL,
		"the receiver does not speak TLS": strings.Replace(plain.URL, "http:", "https:", 1),
		"the connection was refused":      fmt.Sprintf("http://127.0.0.1:%d", unused[0]),
		"the address is not allowed":      "http://10.0.0.1",
	}
	// Nothing takes too long, however slow the machine is: no time passes while the client waits for its network.
	synctest.Test(t, func(t *testing.T) { reasons(t, targets, trusted.URL) })
	if got := Reason(&url.Error{Op: "Post", URL: "https://10.0.0.9", Err: errors.New("10.0.0.9 said so")}); got != "the connection failed" {
		t.Errorf("%q", got)
	}
	for _, err := range []error{context.DeadlineExceeded, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, io.ErrUnexpectedEOF, syscall.ECONNRESET} {
		if !Broken(&url.Error{Op: "Post", URL: "https://10.0.0.9", Err: err}) {
			t.Errorf("%v: no smaller request would be tried", err)
		}
	}
	for _, err := range []error{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, &net.DNSError{IsTimeout: true}, syscall.ECONNREFUSED} {
		if Broken(&url.Error{Op: "Post", URL: "https://10.0.0.9", Err: err}) {
			t.Errorf("%v: a smaller request would be tried", err)
		}
	}
}

// reasons asks targets that fail for the reasons that they are under.
func reasons(t *testing.T, targets map[string]string, trusted string) {
	t.Helper()
	c := client(t, Options{Allowed: loopback})
	for want, target := range targets {
		_, err := get(t, c, target)
		if got := Reason(err); got != want {
			t.Errorf("%s: %q (%v)", target, got, err)
		}
		if got, want := Untrusted(err), target == trusted; got != want {
			t.Errorf("%s: untrusted %v", target, got)
		}
		if Broken(err) {
			t.Errorf("%s: a smaller request would be tried", target)
		}
	}
	unresolved := client(t, Options{Resolver: resolver(t, nil)})
	if _, err := get(t, unresolved, "http://receiver.example"); Reason(err) != "the name of the receiver cannot be resolved" {
		t.Errorf("%q (%v)", Reason(err), err)
	}
	skipping := client(t, Options{Allowed: loopback, SkipVerify: true})
	if status, err := get(t, skipping, trusted); status != http.StatusNotFound || err != nil {
		t.Errorf("%d, %v", status, err)
	}
}

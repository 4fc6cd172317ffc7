package transparent

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/nftables"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/meshgate/meshgate/e2e/netns"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machines are this one and another one.
type machines struct {
	t *testing.T
	*netns.Cable
}

// serve accepts connections and answers each with its name and, for a proxy, with where the
// client had wanted to go.
func (n *machines) serve(name, address string, proxy bool) {
	n.t.Helper()
	lis, err := new(net.ListenConfig).Listen(context.Background(), "tcp", address)
	if err != nil {
		n.t.Fatal(err)
	}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			c, err := lis.Accept()
			if err != nil {
				return // closed
			}
			text := name
			if proxy {
				text += " " + wanted(c.(*net.TCPConn))
			}
			_, _ = io.WriteString(c, text)
			_ = c.Close()
		}
	})
	n.t.Cleanup(func() { _ = lis.Close(); done.Wait() })
}

// wanted returns the original destination of a redirected connection, as Envoy asks for it.
func wanted(c *net.TCPConn) (at string) {
	raw, err := c.SyscallConn()
	if err != nil {
		return err.Error()
	}
	peer := c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	err = raw.Control(func(fd uintptr) {
		const originalDst = 80 // SO_ORIGINAL_DST, IP6T_SO_ORIGINAL_DST
		if peer.Is4() {
			v, err := unix.GetsockoptIPv6Mreq(int(fd), unix.SOL_IP, originalDst)
			if err != nil {
				at = err.Error()
				return
			}
			a := v.Multiaddr // a sockaddr_in
			at = netip.AddrPortFrom(netip.AddrFrom4([4]byte(a[4:8])), binary.BigEndian.Uint16(a[2:])).String()
			return
		}
		v, err := unix.GetsockoptIPv6MTUInfo(int(fd), unix.SOL_IPV6, originalDst)
		if err != nil {
			at = err.Error()
			return
		}
		port := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, v.Addr.Port))
		at = netip.AddrPortFrom(netip.AddrFrom16(v.Addr.Addr), port).String()
	})
	if err != nil {
		return err.Error()
	}
	return at
}

// ask connects as a user and returns what the server says. from is the address to connect
// from, if it matters.
func ask(uid int, from, to string) string { return askFor(time.Minute, uid, from, to) }

// dropped does so where nobody answers, and nobody would ever.
func dropped(uid int, to string) bool { return askFor(5*time.Second, uid, "", to) == "refused" }

func askFor(patience time.Duration, uid int, from, to string) string {
	d := net.Dialer{Timeout: patience}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	var c net.Conn
	var err error
	netns.As(uid, func() { c, err = d.Dial("tcp", to) })
	if err != nil {
		return "refused"
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience)) // it is only for a test that fails
	text, err := io.ReadAll(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// TestKernel installs rules and connects as everybody to everywhere.
func TestKernel(t *testing.T) {
	if !netns.Inside() {
		out, err := netns.Again(t.Context(), "-test.run=^TestKernel$")
		if errors.Is(err, netns.ErrNotPermitted) {
			t.Skip("not run: ", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	const workload, proxy, left, left2 = 1000, 5678, 1001, 2500
	cable, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cable.Close)
	n := &machines{t, cable}
	for _, port := range []string{"80", "3306", "9050", "53"} {
		n.There(func() { n.serve("there", "[::]:"+port, false) })
	}
	n.serve("outbound", "[::]:15001", true)
	n.serve("inbound", "[::]:15006", true)
	n.serve("dns", "[::]:15053", true)
	for _, port := range []string{"22", "8080"} {
		n.serve("workload", "[::]:"+port, false)
	}
	o := everything()
	o.NotTo = nil
	for range 2 { // the second time changes nothing
		if err := Install(o.Rules()); err != nil {
			t.Fatal(err)
		}
	}
	captured := []struct {
		uid            int
		from, to, want string
	}{
		{workload, "", netns.There4 + ":80", "outbound " + netns.There4 + ":80"},
		{workload, "", "[" + netns.There6 + "]:80", "outbound [" + netns.There6 + "]:80"},
		{0, "", netns.There4 + ":80", "outbound " + netns.There4 + ":80"},
		{proxy, "", netns.There4 + ":80", "there"},
		{proxy, "", "[" + netns.There6 + "]:80", "there"},
		{left, "", netns.There4 + ":80", "there"},
		{left2, "", netns.There4 + ":80", "there"},
		{workload, "", netns.There4 + ":3306", "there"},
		{workload, "", netns.There4 + ":9050", "there"},
		{workload, "", "127.0.0.1:8080", "workload"},
		{workload, "", netns.Here4 + ":8080", "workload"},
		{proxy, "", "127.0.0.1:8080", "workload"},
		{proxy, "", netns.Here4 + ":8080", "inbound " + netns.Here4 + ":8080"},
		{proxy, "127.0.0.6", netns.Here4 + ":8080", "workload"},
		{workload, "", netns.There4 + ":53", "dns " + netns.There4 + ":53"},
		{workload, "", "127.0.0.1:53", "dns 127.0.0.1:53"},
		{proxy, "", netns.There4 + ":53", "there"},
	}
	for _, c := range captured {
		if got := ask(c.uid, c.from, c.to); got != c.want {
			t.Errorf("user %d from %q to %s: %q, want %q", c.uid, c.from, c.to, got, c.want)
		}
	}
	for to, want := range map[string]string{
		netns.Here4 + ":8080":        "inbound " + netns.Here4 + ":8080",
		netns.Here4 + ":22":          "workload",
		"[" + netns.Here6 + "]:8080": "inbound [" + netns.Here6 + "]:8080",
		"[" + netns.Here6 + "]:22":   "workload",
		netns.Here4 + ":7":           "inbound " + netns.Here4 + ":7",
	} {
		var got string
		n.There(func() { got = ask(0, "", to) })
		if got != want {
			t.Errorf("from elsewhere to %s: %q, want %q", to, got, want)
		}
	}
	for to, what := range map[string]string{"127.0.0.1:15001": "the outbound port", netns.Here4 + ":15006": "the inbound port"} {
		if !dropped(workload, to) {
			t.Errorf("%s answers whoever calls it", what)
		}
	}
	o.NotTo = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28"), netip.MustParsePrefix(netns.There6 + "/128")}
	if err := Install(o.Rules()); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{netns.There4 + ":80", "[" + netns.There6 + "]:80"} {
		if got := ask(workload, "", to); got != "there" {
			t.Errorf("%s is left alone, but %q answers", to, got)
		}
	}
	foreign(t)
	if was, err := Uninstall(); err != nil || !was {
		t.Errorf("removed: %t, %v", was, err)
	}
	if was, err := Uninstall(); err != nil || was {
		t.Errorf("removed again: %t, %v", was, err)
	}
	if got := ask(workload, "", netns.There4+":80"); got != "there" {
		t.Errorf("after the removal %q answers", got)
	}
	if got := strings.Join(tables(t), " "); got != "others" {
		t.Errorf("after the removal there are the tables %q", got)
	}
}

// foreign adds a table of somebody else.
func foreign(t *testing.T) {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	c.AddTable(&nftables.Table{Name: "others", Family: nftables.TableFamilyINet})
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
}

func tables(t *testing.T) (names []string) {
	t.Helper()
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range all {
		names = append(names, table.Name)
	}
	return names
}

// TestWithoutRights says what is missing, and changes nothing.
func TestWithoutRights(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("not run: root has the rights")
	}
	if err := Install(everything().Rules()); err == nil || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("%v", err)
	}
}

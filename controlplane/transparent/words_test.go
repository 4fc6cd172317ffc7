package transparent

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
)

func TestWords(t *testing.T) {
	w := words{user: "5678", notOutbound: []string{"80", "9000-9100"}, notInbound: []string{"1"}, notUsers: []string{"root", "2000-2999"}, notTo: []string{"10.1.2.3/8", "fd00::1"}}
	var o Options
	if err := w.read(&o); err != nil {
		t.Fatal(err)
	}
	want := Options{
		Proxy: 5678, NotOutbound: []Range{{80, 80}, {9000, 9100}}, NotInbound: []Range{{1, 1}}, NotUsers: []Range{{0, 0}, {2000, 2999}},
		NotTo: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::1/128")},
	}
	if diff := cmp.Diff(want, o, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWordsThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		words
		want string
	}{
		"user":         {words{user: "no-such-user"}, `--proxy-user: this machine has no user "no-such-user": make one (useradd --system no-such-user), or name the one that the proxy runs as`},
		"port":         {words{user: "1", notOutbound: []string{"65536"}}, `--exclude-outbound-ports: "65536" is no port`},
		"port 0":       {words{user: "1", notInbound: []string{"0"}}, `--exclude-inbound-ports: "0" is no range`},
		"backwards":    {words{user: "1", notInbound: []string{"9-8"}}, `--exclude-inbound-ports: "9-8" is no range`},
		"half":         {words{user: "1", notInbound: []string{"9-"}}, `--exclude-inbound-ports: "" is no port`},
		"network":      {words{user: "1", notTo: []string{"10.0.0.0/33"}}, `--exclude-networks: "10.0.0.0/33" is no network such as 10.0.0.0/8`},
		"mapped":       {words{user: "1", notTo: []string{"::ffff:10.0.0.0/104"}}, `--exclude-networks: "::ffff:10.0.0.0/104" is no network such as 10.0.0.0/8`},
		"several":      {words{user: "1", notUsers: []string{"no-such-user"}, notTo: []string{"x"}}, `--exclude-networks: "x" is no network such as 10.0.0.0/8`},
		"all of users": {words{user: "4294967295"}, `--proxy-user: this machine has no user "4294967295"`},
	} {
		err := c.read(&Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestResolverOfTheMachine: its questions must not come back to it.
func TestResolverOfTheMachine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	for text, refused := range map[string]bool{
		"# none\nsearch example\n":                false,
		"nameserver 192.0.2.53\n":                 false,
		"nameserver 127.0.0.53\noptions edns0\n":  true,
		"nameserver 192.0.2.53\nnameserver ::1\n": true,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := Options{Proxy: 5678, DNS: DefaultDNS}
		err := o.checkResolver(file)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), "--exclude-users") {
			t.Errorf("%q: %v", text, err)
		}
		o.NotUsers = []Range{{101, 101}}
		if err := o.checkResolver(file); err != nil {
			t.Errorf("%q with a user left alone: %v", text, err)
		}
	}
}

// TestDryRun prints what would be installed, and needs no rights.
func TestDryRun(t *testing.T) {
	out, err := clitest.Execute(t, Command(), "install", "--dry-run", "--proxy-user", "5678")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"meta skuid 5678 return\n", "tcp dport 22 return\n", "redirect to :15001\n", "redirect to :15006\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it lacks %q:\n%s", want, out)
		}
	}
	if _, err := clitest.Execute(t, Command(), "install", "--dry-run", "--proxy-user", "0"); err == nil || !strings.Contains(err.Error(), "--proxy-user must not be root") {
		t.Errorf("%v", err)
	}
	if out, err := clitest.Execute(t, Command(), "uninstall", "--dry-run"); err != nil || out != "delete table inet meshgate\n" {
		t.Errorf("%q, %v", out, err)
	}
}

package transparent

import (
	"bufio"
	"fmt"
	"net/netip"
	"os"
	"strings"
)

// resolvConf says which servers the programs of this machine ask (resolv.conf(5)).
const resolvConf = "/etc/resolv.conf"

// checkResolver refuses to redirect questions for names on a machine that has a resolver of its
// own, unless some users are left alone. What the proxy does not know it passes to that resolver,
// and what the resolver then asks others would be redirected to the proxy again.
func (o *Options) checkResolver(file string) error {
	if o.DNS == 0 || len(o.NotUsers) > 0 {
		return nil
	}
	f, err := os.Open(file) //nolint:gosec // a constant, but in tests
	if err != nil {
		return nil //nolint:nilerr // without the file there are no servers
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(words[1]); err == nil && a.IsLoopback() {
			return fmt.Errorf("--redirect-dns-port: %s names %s, a resolver of this machine, whose own questions would be redirected, too: name its user with --exclude-users (systemd-resolve for systemd-resolved)", file, a)
		}
	}
	return lines.Err()
}

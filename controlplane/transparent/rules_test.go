package transparent

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/e2e/golden"
)

func everything() *Options {
	return &Options{
		Proxy: 5678, Outbound: DefaultOutbound, Inbound: DefaultInbound, DNS: DefaultDNS, IPv6: true,
		NotOutbound: []Range{{3306, 3306}, {9000, 9100}}, NotInbound: []Range{{22, 22}}, NotUsers: []Range{{1001, 1001}, {2000, 2999}},
		NotTo: []netip.Prefix{netip.MustParsePrefix("169.254.169.254/32"), netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00::/8")},
	}
}

func TestGolden(t *testing.T) {
	golden.Compare(t, "testdata/everything.golden.nft", []byte(Text(everything().Rules())))
	golden.Compare(t, "testdata/outbound.golden.nft", []byte(Text((&Options{Proxy: 5678, Outbound: DefaultOutbound}).Rules())))
	golden.Compare(t, "testdata/inbound.golden.nft", []byte(Text((&Options{Proxy: 5678, Inbound: DefaultInbound}).Rules())))
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Options)
		want []string
	}{
		"good":     {func(*Options) {}, nil},
		"root":     {func(o *Options) { o.Proxy = 0 }, []string{"--proxy-user: must not be root: everything that runs as root would bypass the proxy"}},
		"nothing":  {func(o *Options) { o.Outbound, o.Inbound, o.DNS = 0, 0, 0 }, []string{"--redirect-outbound-port: nothing would be redirected: name a port here, in --redirect-inbound-port or in --redirect-dns-port"}},
		"one port": {func(o *Options) { o.Inbound = o.Outbound }, []string{"--redirect-inbound-port: must differ from --redirect-outbound-port"}},
		"dns":      {func(o *Options) { o.DNS = o.Inbound }, []string{"--redirect-dns-port: must differ from the other ports"}},
		"many":     {func(o *Options) { o.NotUsers = make([]Range, 257) }, []string{"--exclude-users: must have at most 256 entries: use ranges"}},
	} {
		o := everything()
		c.edit(o)
		var got []string
		for _, v := range o.Check() {
			got = append(got, v.Path+": "+v.Message)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestEveryRuleIsOfOneVersion: the addresses of a rule are read from the header of one version,
// so a rule that applied to both would read something else.
func TestEveryRuleIsOfOneVersion(t *testing.T) {
	for _, c := range everything().Rules() {
		for _, r := range c.Rules {
			if !strings.HasPrefix(r.text(), "meta nfproto ipv4 ") && !strings.HasPrefix(r.text(), "meta nfproto ipv6 ") {
				t.Errorf("%s: %s", c.Name, r.text())
			}
		}
	}
}

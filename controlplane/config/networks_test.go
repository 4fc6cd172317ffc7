package config

import (
	"net/netip"
	"slices"
	"testing"
)

// TestNetworks: IPv4 networks in IPv6 notation are those networks, as addresses are compared.
func TestNetworks(t *testing.T) {
	got, err := networks("10.1.2.3/8, ::ffff:10.0.0.0/104 ::ffff:192.0.2.1,2001:db8::1/32")
	want := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/32"),
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

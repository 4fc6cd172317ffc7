package hostname

import (
	"net/netip"
	"testing"
)

// TestIsElsewhere: what leads to this machine, to credentials of clouds, or nowhere is no service on
// another machine.
func TestIsElsewhere(t *testing.T) {
	for _, text := range []string{"192.0.2.1", "10.0.0.1", "2001:db8::1", "fd00::1", "100.64.0.1"} {
		if !IsElsewhere(netip.MustParseAddr(text)) {
			t.Errorf("%s is refused", text)
		}
	}
	for _, text := range []string{
		"127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "0.1.2.3", "::", "169.254.169.254", "fe80::1", "fe80::1%eth0",
		"224.0.0.1", "240.0.0.1", "255.255.255.255", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "64:ff9b::7f00:1",
	} {
		if IsElsewhere(netip.MustParseAddr(text)) {
			t.Errorf("%s is taken for another machine", text)
		}
	}
}

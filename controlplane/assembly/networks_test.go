package assembly

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
)

// TestNetworksAreEqualForEqualSettings: gateways with equal parameters share their
// configuration, so every spelling of a setting must give the same text.
func TestNetworksAreEqualForEqualSettings(t *testing.T) {
	for setting, want := range map[string]string{
		"": "", "10.1.2.3": "10.1.2.3/32", "10.1.2.3/8, ::1": "10.0.0.0/8,::1/128", "::1,10.0.0.0/8 10.9.9.9/8": "10.0.0.0/8,::1/128",
		"::ffff:10.1.2.3": "10.1.2.3/32",
	} {
		c := config.Config{Gateway: config.Gateway{TrustedIPs: setting}}
		trusted, err := c.Trusted()
		if err != nil {
			t.Errorf("%q: %v", setting, err)
			continue
		}
		if got := networks(trusted); got != want {
			t.Errorf("%q: %q, want %q", setting, got, want)
		}
	}
	c := config.Config{Gateway: config.Gateway{TrustedIPs: "fe80::1%eth0"}}
	if trusted, err := c.Trusted(); err == nil {
		t.Errorf("an address with a zone is %v", trusted)
	}
}

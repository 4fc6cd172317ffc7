package assembly

import (
	"net"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
)

// TestTrusting: agents are told of the ports at which loopback alone makes an administrator.
func TestTrusting(t *testing.T) {
	var all []net.Listener
	for range 4 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
		all = append(all, ln)
	}
	ports := func(of ...net.Listener) (out []uint16) {
		for _, ln := range of {
			out = append(out, uint16(port(ln)))
		}
		return out
	}
	for name, test := range map[string]struct {
		local bool
		token string
		want  []uint16
	}{
		"as it comes":                    {true, "", ports(all...)},
		"with a token for the other API": {true, "secret", ports(all[:2]...)},
		"where nobody is trusted":        {false, "", nil},
	} {
		cp := &ControlPlane{cfg: &config.Config{}, AdminToken: test.token, ports: &listeners{mesh: all[0], meshTLS: all[1], admin: all[2], adminTLS: all[3]}}
		cp.cfg.Access.LocalhostIsAdmin = test.local
		if got := cp.trusting(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

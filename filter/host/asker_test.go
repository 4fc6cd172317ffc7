package host

import "testing"

// TestAskerOf: connections of the same address share its turns.
func TestAskerOf(t *testing.T) {
	for _, tc := range []struct {
		a, b                string
		address, connection bool
	}{
		{"192.0.2.1:1000", "192.0.2.1:1000", true, true},
		{"192.0.2.1:1000", "192.0.2.1:1001", true, false},
		{"192.0.2.1:1000", "192.0.2.2:1000", false, false},
		{"192.0.2.1:1000", "[::ffff:192.0.2.1]:1000", true, false},
		{"[2001:db8::1]:1", "[2001:db8::ffff:2]:2", true, false},
		{"[2001:db8::1]:1", "[2001:db8:0:1::1]:1", false, false},
		{"", "", true, true},
		{"/run/socket", "/run/other", false, false},
		{"192.0.2.1", "192.0.2.2", false, false},
	} {
		a, b := AskerOf([]byte(tc.a)), AskerOf([]byte(tc.b))
		if (a.Address == b.Address) != tc.address || (a.Connection == b.Connection) != tc.connection {
			t.Errorf("%q and %q: %+v, %+v", tc.a, tc.b, a, b)
		}
	}
}

package fault

import "testing"

func TestNearest(t *testing.T) {
	for _, tc := range []struct {
		written string
		known   []string
		want    string
	}{
		{"servces", []string{"routes", "services", "consumers"}, "services"},
		{"ADMIN.PROT", []string{"admin.port", "admin.token"}, "admin.port"},
		{"x", []string{"b", "a"}, "a"},
		{"", []string{"abc"}, "abc"},
		{"x", nil, ""},
	} {
		if got := Nearest(tc.written, tc.known); got != tc.want {
			t.Errorf("Nearest(%q, %v) = %q, want %q", tc.written, tc.known, got, tc.want)
		}
	}
}

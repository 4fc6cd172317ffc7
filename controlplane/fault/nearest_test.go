package fault

import (
	"strings"
	"testing"
)

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

// TestMeant: a name that is too long gets no suggestion, because the work grows with its
// length, which a stranger chooses.
func TestMeant(t *testing.T) {
	long := strings.Repeat("a", 65)
	for _, tc := range []struct {
		written string
		known   []string
		want    string
	}{
		{"servces", []string{"routes", "services"}, `; did you mean "services"?`},
		{"mesh", []string{"networking"}, ""},
		{long, []string{long[:64]}, ""},
		{long[:64], []string{long}, `; did you mean "` + long + `"?`},
	} {
		if got := Meant(tc.written, tc.known); got != tc.want {
			t.Errorf("Meant(%q, %v) = %q, want %q", tc.written, tc.known, got, tc.want)
		}
	}
}

package hostname

import (
	"strings"
	"testing"
)

// TestSuffix: a suffix has its name and those below it, in upper and lower case, and nothing that
// only ends like it or that a resolver may read as another name.
func TestSuffix(t *testing.T) {
	s, err := ParseSuffix("Example.com.")
	if err != nil || s != "example.com" {
		t.Fatalf("%q, %v", s, err)
	}
	for name, want := range map[string]bool{
		"example.com": true, "mail.example.com": true, "a.b.EXAMPLE.com.": true, "a_b.example.com": true,
		"badexample.com": false, "example.com.evil.org": false, "com": false, "": false, ".": false, ".example.com": false, "a..example.com": false,
		"example.com..": false, "localhost\x00.example.com": false, "a b.example.com": false, "é.example.com": false, "\u212aa.example.com": false,
		strings.Repeat("a.", 130) + "example.com": false,
	} {
		if s.Has(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
		if Suffix("").Has(name) {
			t.Errorf("nothing has %q", name)
		}
	}
	for name, want := range map[string]bool{"example.com": true, "com": true, "": false, "localhost\x00": false, "a..b": false} {
		if Any.Has(name) != want {
			t.Errorf("of all, %q: %v", name, !want)
		}
	}
	if s, err := ParseSuffix("*"); err != nil || s != Any {
		t.Errorf("%q, %v", s, err)
	}
	for _, bad := range []string{"", ".", "*.example.com", ".example.com", "a..b", "10.0.0.1", "0x7f", "::1", "a,b", "example.com:80", "localhost", "LocalHost.", "a.localhost", "metadata.google.internal"} {
		if s, err := ParseSuffix(bad); err == nil {
			t.Errorf("%q is read as %q", bad, s)
		}
	}
}

// TestIsLocal: the names of the machine itself, however they are written.
func TestIsLocal(t *testing.T) {
	for name, want := range map[string]bool{
		"localhost": true, "LOCALHOST.": true, "a.b.localhost": true, "localhost..": true, "ip6-loopback": true, "metadata": true,
		"localhost.example.com": false, "mylocalhost": false, "": false,
	} {
		if IsLocal(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

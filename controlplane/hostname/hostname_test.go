package hostname

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEndsInNumber(t *testing.T) {
	huge := strings.Repeat("9", 60)
	for _, name := range []string{
		"1", "1.2.3", "1.2.3.4", "192.168.0.256", "127.1", "2130706433", "0177.0.0.1", "017700000001", "089", "a.7", "a.b.0", "-.1", "..1",
		"0x", "0X", "a.0x", "0x7f000001", "x.0x7f", "x.0X7F", "1.0xDeadBeef", "18446744073709551616", huge, "a." + huge, "0x" + strings.Repeat("f", 60),
		"1.", "127.1.", "a.0x7f.", "1..", "0x.",
	} {
		if !EndsInNumber(name) {
			t.Errorf("%q is taken for a name", name)
		}
	}
	for _, name := range []string{
		"", ".", "a", "a.", "localhost", "1.example", "1.2.3.example.", "9f3c2a4b5d6e", "db-1", "2048game", "v2", "a.v1", "x7f", "0xg", "a.0x7fg", "00x7f", "0x-1", "1_", "1e3", "+1", "1.2.3.4 ",
		"0x7f.a", "::1", "0b1", "0o17", "\u0661", "\uff11",
	} {
		if EndsInNumber(name) {
			t.Errorf("%q is taken for a number", name)
		}
	}
}

// number is the rule once more, as an expression.
var number = regexp.MustCompile(`(?i)(^|\.)([0-9]+|0x[0-9a-f]*)\.*$`)

// TestEndsInNumberAsTheExpression holds the rule against another way of writing it, with
// names that nearly are numbers.
func TestEndsInNumberAsTheExpression(t *testing.T) {
	label := rapid.StringMatching(`(0[xX])?[0-9a-gA-GxX_-]{0,22}`)
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOfN(label, 0, 4).Draw(t, "labels"), ".") + rapid.SampledFrom([]string{"", ".", ".."}).Draw(t, "end")
		if got, want := EndsInNumber(name), number.MatchString(name); got != want {
			t.Fatalf("%q: %t, want %t", name, got, want)
		}
	})
}

// FuzzEndsInNumber: what is before the last label, its case and dots behind it make no
// difference.
func FuzzEndsInNumber(f *testing.F) {
	for _, name := range []string{"1.2.3", "x.0x7f", "0x", "017700000001", "a.example.", "1..", "0X7F", "\xff.1"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := EndsInNumber(name)
		if want := number.MatchString(name); got != want {
			t.Fatalf("%q: %t, want %t", name, got, want)
		}
		for _, same := range []string{name + ".", "a." + name, strings.ToUpper(name), strings.ToLower(name)} {
			if strings.Trim(name, ".") != "" && EndsInNumber(same) != got {
				t.Errorf("%q: %t, and %q not so", name, got, same)
			}
		}
	})
}

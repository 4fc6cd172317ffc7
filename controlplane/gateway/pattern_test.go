package gateway_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

var escapes = regexp.MustCompile(`\\.`)

// inGo converts an expression of RE2 for Go. It matches as a whole.
func inGo(t interface{ Fatal(...any) }, pattern string) *regexp.Regexp {
	re, err := regexp.Compile("^(?:" + escapes.ReplaceAllStringFunc(pattern, func(e string) string {
		if e == `\C` {
			return `(?s:.)`
		}
		return e
	}) + ")$")
	if err != nil {
		t.Fatal(err)
	}
	return re
}

func TestPathPatterns(t *testing.T) {
	for pattern, want := range map[string]gateway.PathPattern{
		`~/a`:              {Path: `/a`, Target: `(?:/a)\C*`},
		`~/a$`:             {Path: `(?-m:/a$)`, Target: `(?:/a(?:(?:\?\C*)?$))\C*`},
		`~/(?<x>b)(?i)k\z`: {Path: `/b[Kk]\z`, Target: `(?:/b[Kk](?:(?:\?\C*)?$))\C*`},
		`~/[^/]`:           {Path: `/[!-\.0->@-~]`, Target: `(?:/[!-\.0->@-~])\C*`},
		`~/.`:              {Path: `/[!->@-~]`, Target: `(?:/[!->@-~])\C*`},
		`~/é|/b`:           {Path: `/b`, Target: `(?:/b)\C*`},
	} {
		got, err := gateway.ParsePath(pattern)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", pattern, got, err)
		}
	}
}

// drawPattern draws an expression, which is often valid.
func drawPattern(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
		"a", "b", "/", `\?`, "?", "*", "+", "(", ")", "|", "[^/]", "[a-c?]", ".", "$", "^", `\b`, `\z`, "(?i)", "{2}", `\Q`, `\E`, "A", "é", `\w`, `\x`, `\C`, "#", " ",
	}), 0, 8).Draw(t, "pattern"), "")
}

// TestPathPatternsMatchAsWritten compares both forms with the expression itself.
func TestPathPatternsMatchAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := "/" + drawPattern(t)
		got, err := gateway.ParsePath("~" + text)
		_, wrong := regexp.Compile(text)
		if (err != nil) != (wrong != nil) {
			t.Fatalf("%q: %v, but Go says %v", text, err, wrong)
		}
		if err != nil {
			return
		}
		path := "/" + rapid.StringMatching(`[abcAB/._~#k-]{0,6}`).Draw(t, "path")
		query := rapid.StringMatching(`(\?[abc/?é]{0,5})?`).Draw(t, "query")
		want := regexp.MustCompile(`^(?:` + isolated(text) + `)`).MatchString(path)
		if inGo(t, got.Target).MatchString(latin(path+query)) != want || inGo(t, `(?:`+got.Path+`)\C*`).MatchString(path) != want {
			t.Fatalf("%q on %q%q is %+v, want %t", text, path, query, got, want)
		}
	})
}

// isolated ends an open quotation of an expression, so that it can be wrapped.
func isolated(text string) string {
	if strings.LastIndex(text, `\Q`) > strings.LastIndex(text, `\E`) {
		return text + `\E`
	}
	return text
}

// latin converts a text into the characters that RE2 sees: its bytes.
func latin(s string) string {
	var out []rune
	for _, b := range []byte(s) {
		out = append(out, rune(b))
	}
	return string(out)
}

// TestHeaderPatterns: a value matches if it contains a match, in any case.
func TestHeaderPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := drawPattern(t)
		got, err := gateway.ParseHeader("~*" + text)
		re, wrong := regexp.Compile("(?i)" + text)
		if text == "" || wrong != nil {
			if err == nil {
				t.Fatalf("%q is taken as %s", text, got)
			}
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		value := rapid.StringMatching(`[abcAB/?é# ]{0,6}`).Draw(t, "value")
		if want := re.MatchString(value); inGo(t, got).MatchString(latin(value)) != want {
			t.Fatalf("%q on %q is %s, want %t", text, value, got, want)
		}
	})
}

// FuzzParsePath: the result for an accepted expression can be used without errors.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"~/a", `~/(?i)\pL+$`, `~/\Qa`, "~/[^a]{3,}|b", "/a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		p, err := gateway.ParsePath(path)
		if err != nil {
			return
		}
		inGo(t, p.Target)
		inGo(t, p.Path)
	})
}

package agent

import (
	"strings"
	"testing"
)

func TestSubstitute(t *testing.T) {
	vars := map[string]string{"name": "web-1", "port": "8080", "nested": "{{ name }}", "a.b": "c"}
	for _, test := range []struct{ in, want, err string }{
		{"", "", ""},
		{"no { placeholder }", "no { placeholder }", ""},
		{"{{ name }}:{{port}}", "web-1:8080", ""},
		{"{{ nested }}", "{{ name }}", ""},
		{"{{ a.b }}}", "c}", ""},
		{"x {{ zone }}", "", `variable "zone" is not given`},
		{"{{ }}", "", `variable "" is not given`},
		{`{{ printf "x" }}`, "", `variable "printf \"x\"" is not given`},
		{"{{ name", "", "a placeholder does not end with }}"},
		{"{{ name\n}} }}", "web-1 }}", ""},
		{"{{ na\nme }}", "", "a placeholder does not end with }}"},
	} {
		got, err := Substitute(test.in, vars)
		if got != test.want || (err != nil) != (test.err != "") || err != nil && err.Error() != test.err {
			t.Errorf("%q: %q %v", test.in, got, err)
		}
	}
}

// FuzzSubstitute compares with a simple replacement that knows the one variable.
func FuzzSubstitute(f *testing.F) {
	f.Add("a {{k}} b", "v")
	f.Add("{{", "v")
	f.Add("}}{{ k }}", "{{k}}")
	f.Fuzz(func(t *testing.T, text, value string) {
		got, err := Substitute(text, map[string]string{"k": value})
		if err != nil {
			return
		}
		if !strings.Contains(text, "{{") && got != text {
			t.Errorf("%q became %q", text, got)
		}
		if n := strings.Count(text, "{{k}}"); n > 0 && strings.Count(got, value) < n {
			t.Errorf("%q lost a value: %q", text, got)
		}
	})
}

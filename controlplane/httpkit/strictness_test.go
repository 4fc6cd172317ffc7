package httpkit_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/httpkit"
)

// TestWarnings: warnings have a bounded length, no matter what the client sent.
func TestWarnings(t *testing.T) {
	long := strings.Repeat("é\x01", 1<<16)
	for _, tc := range []struct {
		name          string
		dropped       []fault.Violation
		heads, bodies int
	}{
		{"none", nil, 0, 0},
		{"one", []fault.Violation{{Path: "a.b", Message: "unknown field"}}, 1, 1},
		{"many", violations(5000, "x"), 10, 101},
		{"long ones", slices.Repeat(violations(1, long), 5000), 5, 101},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := http.Header{}
			list := httpkit.Warnings(h, tc.dropped)
			got := h.Values("Warning")
			if len(list) != tc.bodies || len(got) != tc.heads || len(strings.Join(got, "")) > 4<<10 || len(strings.Join(list, "")) > 50<<10 {
				t.Errorf("%d in %d bytes, headers %d in %d bytes", len(list), len(strings.Join(list, "")), len(got), len(strings.Join(got, "")))
			}
			for i, text := range list {
				if !utf8.ValidString(text) || i < 100 && !strings.HasSuffix(text, ": unknown field") {
					t.Errorf("%q", text)
				}
			}
			if len(list) > 100 && list[100] != "and 4900 more" {
				t.Errorf("%q", list[100])
			}
		})
	}
	h := http.Header{}
	httpkit.Warnings(h, []fault.Violation{{Path: "mlts", Message: `unknown field; did you mean "mtls"?`}})
	if diff := cmp.Diff([]string{`299 - "mlts: unknown field; did you mean \"mtls\"?"`}, h.Values("Warning")); diff != "" {
		t.Error(diff)
	}
}

func violations(n int, name string) (vs []fault.Violation) {
	for i := range n {
		vs = append(vs, fault.Violation{Path: fmt.Sprintf("%s%d", name, i), Message: "unknown field"})
	}
	return vs
}

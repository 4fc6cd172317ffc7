package cloud

import (
	"fmt"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestLabels: labels have the same limits, whatever has them.
func TestLabels(t *testing.T) {
	long := strings.Repeat("x", maxLabel)
	many := map[string]any{}
	for i := range maxLabels + 1 {
		many[fmt.Sprint("k", i)] = "v"
	}
	for _, k := range []*model.Kind{ControlPlanes, Portals} {
		check := k.Schema.Field("labels").Check
		for _, test := range []struct {
			labels map[string]any
			want   string
		}{
			{map[string]any{"team": "a-b.c_d", long: long, "1": "2"}, ""},
			{map[string]any{}, ""},
			{map[string]any{long + "x": "v"}, "the key"}, {map[string]any{"k": long + "x"}, "the value"},
			{map[string]any{"": "v"}, "the key"}, {map[string]any{"k": ""}, "the value"}, {map[string]any{"k-": "v"}, "the key"}, {map[string]any{"k": "-v"}, "the value"},
			{map[string]any{"k": "a b"}, "the value"}, {map[string]any{"ä": "v"}, "the key"},
			{map[string]any{"Mesh-x": "v"}, "must not start with"}, {map[string]any{"_x": "v"}, "must not start with"}, {map[string]any{"cloud.x": "v"}, "must not start with"},
			{many, "must be at most 50 labels"},
		} {
			if got := check(test.labels); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%s: %v: %q, want %q", k.Name, test.labels, got, test.want)
			}
		}
	}
}

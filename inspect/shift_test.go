package inspect

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/xds/resource"
)

// TestShifts: what becomes of each resource, compared with what the node really has where nothing
// could be planned before, and without what is concealed.
func TestShifts(t *testing.T) {
	const password = "a probe's password"
	set := func(generation string, rs ...*resource.Resource) *resource.Set {
		return resource.NewSet(append(rs, namedCluster(t, "same", "", password)), map[string]string{"identity": generation, "roots": ""})
	}
	before := set("1", namedCluster(t, "gone", "", ""), namedCluster(t, "changed", "1", ""), namedCluster(t, "probed", "", password))
	after := set("2", namedCluster(t, "new", "", password), namedCluster(t, "changed", "2", ""), namedCluster(t, "probed", "", password+"2"),
		namedCluster(t, "mended", "2", ""), namedCluster(t, "kept", "1", ""))
	held := set("1", namedCluster(t, "gone", "", ""), namedCluster(t, "changed", "1", ""), namedCluster(t, "probed", "", password),
		namedCluster(t, "mended", "1", ""), namedCluster(t, "kept", "1", ""), namedCluster(t, "broken", "1", ""))
	var s Shifts
	for range 2 { // the second time from memory
		var got []string
		for _, x := range s.Between(before, after, held) {
			diff, err := x.Diff()
			if err != nil {
				t.Fatal(err)
			}
			line := x.What() + " " + x.Name
			for _, e := range diff {
				line += fmt.Sprintf(" | %s %s %s", e.Op, e.Path, e.Value)
			}
			if strings.Contains(line, password) {
				t.Errorf("%s shows what is concealed", line)
			}
			if x.Type != resource.Secret && x.Size() == 0 {
				t.Errorf("%s is made of nothing", x.Name)
			}
			got = append(got, line)
		}
		want := []string{
			`changed changed | replace /altStatName "2"`,
			`removed gone | remove  `,
			`changed mended | replace /altStatName "2"`,
			`added new | add  {"@type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","healthChecks":[{"tcpHealthCheck":{"send":{"text":"[redacted]"}}}],"name":"new"}`,
			`changed probed`,
			`changed identity | replace /generation "2"`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if got := s.Between(nil, set("1"), nil); len(got) != 3 || got[0].What() != Added {
		t.Errorf("a node without anything: %+v", got)
	}
	if got := s.Between(before, before, held); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

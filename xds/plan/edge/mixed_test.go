package edge

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestTableOfAnotherModeOpensNothing: an Envoy that has the listeners of one mode and the table
// of another one, whatever has led to this, passes nobody to a route with a plugin.
func TestTableOfAnotherModeOpensNothing(t *testing.T) {
	w := hostileWorld(t)
	b, out := bare(t), gateways{}
	for listeners, table := range map[contract.Mode]contract.Mode{
		contract.ModeModule:   contract.ModeExtAuthz,
		contract.ModeExtAuthz: contract.ModeModule,
	} {
		p := Params{Address: "127.0.0.1", HTTPPort: freePort(t), Filter: listeners}
		other := p
		other.Filter = table
		set := NewPlanner(p).Plan(w.state()).Set
		mixed := append(set.All(resource.Listener), set.All(resource.Cluster)...)
		mixed = append(mixed, set.All(resource.Endpoint)...)
		mixed = append(mixed, NewPlanner(other).Plan(w.state()).Set.All(resource.Route)...)
		add(t, b, resource.NewSet(mixed, nil))
		out[listeners] = p
	}
	asking(t, b.StaticResources.Clusters)
	plantest.Run(t, write(t, b))
	for m := range out {
		for path, text := range map[string]string{"/i": "503 ", "/p": "503 ", "/nowhere": ""} {
			for _, token := range []string{"", "Authorization: Bearer good\r\n"} {
				got := out.asked(t, m, false, "GET "+path+" HTTP/1.1\r\nHost: a.test\r\n"+token+"\r\n")
				if strings.HasPrefix(got, "200") || !strings.HasPrefix(got, text) {
					t.Errorf("listeners of %s: %s with %q: %s", m, path, token, got)
				}
			}
		}
	}
}

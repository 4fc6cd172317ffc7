package trafficroute

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestResolve checks how the tags of a destination are completed.
func TestResolve(t *testing.T) {
	outbound := mesh.Tags{mesh.TagService: "backend", "version": "v1"}
	for _, c := range []struct {
		name              string
		destination, want mesh.Tags
	}{
		{"wildcard", mesh.Tags{mesh.TagService: "*"}, outbound},
		{"missing", mesh.Tags{mesh.TagService: "other"}, mesh.Tags{mesh.TagService: "other", "version": "v1"}},
		{"exact", mesh.Tags{mesh.TagService: "*", "version": "v2"}, mesh.Tags{mesh.TagService: "backend", "version": "v2"}},
		{"unknown wildcard", mesh.Tags{mesh.TagService: "*", "region": "*"}, outbound},
	} {
		if diff := cmp.Diff(c.want, resolve(c.destination, outbound)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestScale: Envoy adds weights up in 32 bits. Shares change by less than a thousandth.
func TestScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint64Range(1, 3*math.MaxUint32), 1, 20).Draw(t, "weights")
		got := scale(weights)
		sum, scaled := 0.0, 0.0
		for i := range weights {
			sum += float64(weights[i])
			scaled += float64(got[i])
		}
		if scaled > math.MaxUint32 {
			t.Fatalf("the sum is %v", scaled)
		}
		for i := range weights {
			if got[i] == 0 || math.Abs(float64(got[i])/scaled-float64(weights[i])/sum) > 0.001 {
				t.Fatalf("%d of %v became %d of %v", weights[i], sum, got[i], scaled)
			}
			if sum <= math.MaxUint32 && uint64(got[i]) != weights[i] {
				t.Fatalf("%d became %d without need", weights[i], got[i])
			}
		}
	})
}

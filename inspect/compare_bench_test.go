package inspect

import (
	"strconv"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
)

// BenchmarkCompare compares the configurations of a proxy that has a cluster for each of 1,000
// services, one of which has changed.
func BenchmarkCompare(b *testing.B) {
	var old, now []*resource.Resource
	for i := range 1000 {
		name := strconv.Itoa(i)
		r := namedCluster(b, name, name, "")
		if old, now = append(old, r), append(now, r); i == 0 {
			now[0] = namedCluster(b, name, "new", "")
		}
	}
	desired, sent := resource.NewSet(now, nil), resource.NewSet(old, nil)
	d := compareRig(desired, sent, sent, nil)
	b.ReportAllocs()
	for b.Loop() {
		if err := d.Compare(b.Context(), "m.a", true, func([]byte) {}); err != nil {
			b.Fatal(err)
		}
		if err := d.Configuration(b.Context(), "m.a", true, true, func([]byte) {}); err != nil {
			b.Fatal(err)
		}
	}
}

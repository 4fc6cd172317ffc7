package snapshot_test

import (
	"strconv"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// BenchmarkPublishShared publishes 1,000 nodes that share tables of 1,200 clusters. The tables
// are rebuilt with equal content.
func BenchmarkPublishShared(b *testing.B) {
	rs := make([]*resource.Resource, 1200)
	for i := range rs {
		rs[i] = resource.New(resource.Cluster, strconv.Itoa(i), []byte{1})
	}
	batches := [2]map[string]*resource.Set{}
	for i := range batches {
		table := resource.TableOf(rs)
		batches[i] = map[string]*resource.Set{}
		for n := range 1000 {
			batches[i][strconv.Itoa(n)] = resource.Assemble(map[resource.TypeURL]*resource.Table{resource.Cluster: table}, nil)
		}
	}
	s := snapshot.New()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Publish(batches[i%2], uint64(i))
	}
}

package server

import (
	"strconv"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// BenchmarkWake renews one stream of 1,200 clusters and assignments.
func BenchmarkWake(b *testing.B) {
	var clusters, ends []*resource.Resource
	for i := range 1200 {
		clusters = append(clusters, resource.New(resource.Cluster, strconv.Itoa(i), []byte{1}))
		ends = append(ends, resource.New(resource.Endpoint, strconv.Itoa(i), []byte{1}))
	}
	cds, eds := resource.TableOf(clusters), resource.TableOf(ends)
	other := eds.With([]*resource.Resource{resource.New(resource.Endpoint, "7", []byte{2})}, nil)
	with := func(e *resource.Table) *resource.Set {
		return resource.Assemble(map[resource.TypeURL]*resource.Table{resource.Cluster: cds, resource.Endpoint: e}, nil)
	}
	for name, sets := range map[string][2]*resource.Set{
		"one assignment changed": {with(eds), with(other)}, "nothing changed": {with(eds), with(eds)},
	} {
		b.Run(name, func(b *testing.B) {
			s := newSession("n", false, Limits{}.withDefaults())
			s.renew(snapshot.State{Set: sets[1]})
			for _, t := range resource.Types {
				_, _ = s.receive(request{url: t, subscribe: []string{"*"}})
			}
			drain(s)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.renew(snapshot.State{Set: sets[i%2]})
				drain(s)
			}
		})
	}
}

// drain sends and acknowledges everything.
func drain(s *session) {
	for r := s.next(); r != nil; r = s.next() {
		_, _ = s.receive(request{url: r.typ, nonce: r.nonce})
	}
	s.confirmed()
}

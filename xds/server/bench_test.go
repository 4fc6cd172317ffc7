package server

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// BenchmarkWake renews one stream whose proxy holds a number of clusters and as many
// assignments. The proxy subscribes by wildcard, like a relay, or by name, like an Envoy.
func BenchmarkWake(b *testing.B) {
	for _, n := range []int{11, 1200} {
		var clusters, ends []*resource.Resource
		var names []string
		for i := range n {
			names = append(names, strconv.Itoa(i))
			clusters = append(clusters, resource.New(resource.Cluster, names[i], []byte{1}))
			ends = append(ends, resource.New(resource.Endpoint, names[i], []byte{1}))
		}
		cds, eds := resource.TableOf(clusters), resource.TableOf(ends)
		other := eds.With([]*resource.Resource{resource.New(resource.Endpoint, "7", []byte{2})}, nil)
		with := func(e *resource.Table) *resource.Set {
			return resource.Assemble(map[resource.TypeURL]*resource.Table{resource.Cluster: cds, resource.Endpoint: e}, nil)
		}
		changed, same := [2]*resource.Set{with(eds), with(other)}, [2]*resource.Set{with(eds), with(eds)}
		b.Run(fmt.Sprintf("%d/nothing changed", n), func(b *testing.B) { wake(b, same, names, false) })
		b.Run(fmt.Sprintf("%d/one changed", n), func(b *testing.B) { wake(b, changed, names, false) })
		b.Run(fmt.Sprintf("%d/one changed, first stream of the process", n), func(b *testing.B) { wake(b, changed, names, true) })
		b.Run(fmt.Sprintf("%d/one changed, wildcard", n), func(b *testing.B) { wake(b, changed, []string{"*"}, false) })
	}
}

// wake switches a stream from one set to the other and back.
func wake(b *testing.B, sets [2]*resource.Set, names []string, alone bool) {
	s := newSession("n", false, Limits{}.withDefaults(true), &diffs{})
	s.renew(snapshot.State{Set: sets[1]})
	for _, t := range resource.Types {
		r := request{url: t}
		if t == resource.Endpoint {
			r.subscribe = names
		}
		_, _ = s.receive(r)
	}
	drain(s)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if alone {
			s.diffs = &diffs{}
		}
		s.renew(snapshot.State{Set: sets[i%2]})
		drain(s)
	}
}

// drain sends and acknowledges everything that is due.
func drain(s *session) {
	for r := s.next(); r != nil; r = s.next() {
		_, _ = s.receive(request{url: r.typ, nonce: r.nonce})
	}
	s.confirmed()
}

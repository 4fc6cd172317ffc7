package server

import (
	"fmt"
	"strings"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
	"google.golang.org/protobuf/proto"
)

func TestResponsesAreCutByBytes(t *testing.T) {
	s := newSession("n", false, Limits{MessageBytes: 1000, Window: 100}.withDefaults(true), &diffs{})
	var rs []*resource.Resource
	for i := range 10 {
		rs = append(rs, resource.New(resource.Route, fmt.Sprint(i), []byte(strings.Repeat("x", 400))))
	}
	s.renew(snapshot.State{Set: resource.NewSet(rs, nil), Revision: 1, Version: 1})
	if _, err := s.receive(request{url: resource.Route, subscribe: []string{"*"}}); err != nil {
		t.Fatal(err)
	}
	n, total := 0, 0
	for r := s.next(); r != nil; r = s.next() {
		n++
		total += len(r.add)
		if len(r.add) > 2 {
			t.Fatalf("%d resources in one response", len(r.add))
		}
	}
	if n < 5 || total != 10 {
		t.Fatalf("%d responses, %d resources", n, total)
	}
}

// FuzzFirstMessages feeds a session with any bytes that parse as requests.
func FuzzFirstMessages(f *testing.F) {
	seed := func(ms ...*discovery.DeltaDiscoveryRequest) {
		var all []byte
		for _, m := range ms {
			b, err := proto.Marshal(m)
			if err != nil {
				f.Fatal(err)
			}
			all = append(append(all, byte(len(b))), b...)
		}
		f.Add(all, false)
		f.Add(all, true)
	}
	seed(&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Cluster)},
		&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Endpoint), ResourceNamesSubscribe: []string{"a", "*"}},
		&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Cluster), ResponseNonce: "1"})
	seed(&discovery.DeltaDiscoveryRequest{TypeUrl: string(resource.Route), InitialResourceVersions: map[string]string{"r": "1"},
		ResourceNamesSubscribe: []string{"r"}, ResourceNamesUnsubscribe: []string{"*", "r"}})
	set := resource.NewSet([]*resource.Resource{
		resource.New(resource.Cluster, "a", []byte("1")), resource.New(resource.Endpoint, "a", []byte("2")),
		resource.New(resource.Listener, "l", []byte("3")), resource.New(resource.Route, "r", []byte("4")),
	}, map[string]string{})
	f.Fuzz(func(t *testing.T, raw []byte, vectors bool) {
		s := newSession("n", vectors, Limits{Names: 50}.withDefaults(true), &diffs{})
		s.renew(snapshot.State{Set: set, Revision: 1, Version: 1})
		for i := 0; len(raw) > 0; i++ {
			n := min(int(raw[0]), len(raw)-1)
			var m discovery.DeltaDiscoveryRequest
			if proto.Unmarshal(raw[1:1+n], &m) != nil {
				return
			}
			raw = raw[1+n:]
			_, err := s.receive(request{
				url: resource.TypeURL(m.GetTypeUrl()), subscribe: m.GetResourceNamesSubscribe(),
				unsubscribe: m.GetResourceNamesUnsubscribe(), versions: m.GetInitialResourceVersions(),
				nonce: m.GetResponseNonce(), refused: m.GetErrorDetail() != nil, text: m.GetErrorDetail().GetMessage(),
			})
			if err != nil {
				return
			}
			sent := 0
			for r := s.next(); r != nil; r = s.next() {
				if sent++; sent > 1000 {
					t.Fatal("sending does not come to an end")
				}
			}
			s.confirmed()
			if i%3 == 2 {
				s.renew(snapshot.State{Set: nil, Revision: 2, Version: 2})
			}
		}
	})
}

package relay_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/protobuf/encoding/protowire"
)

// mebibytes returns resources of a type, each of 1 MiB. The client of the tests ignores their
// bytes.
func mebibytes(t resource.TypeURL, n int) (out []*resource.Resource) {
	for i := range n {
		text := make([]byte, 1<<20)
		copy(text, fmt.Sprint(i))
		body := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), text) // the name, in every type
		out = append(out, resource.New(t, fmt.Sprintf("big-%02d", i), body))
	}
	return out
}

// A first configuration that is larger than the window arrives completely, for any type and
// without an Envoy. Nothing is confirmed before Envoy has confirmed it.
func TestFirstConfigurationIsLargerThanTheWindow(t *testing.T) {
	for _, url := range []resource.TypeURL{resource.Cluster, resource.Endpoint, resource.Listener, resource.Route} {
		t.Run(string(url), func(t *testing.T) {
			big := mebibytes(url, 20)
			p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
			rev := p.publish(slices.Concat(big, []*resource.Resource{clusterA, endA, listener, routesA})...)
			r, _ := startRelay(t, dir, p.addr)
			within(t, "the relay is ready", r.Ready())
			if got := p.snaps.Progress(rev); len(got.Acknowledged) != 0 {
				t.Fatalf("confirmed without an Envoy: %+v", got)
			}
			c := local(t, dir, xdstest.Options{Relay: true}) // takes every type at once
			want := map[resource.TypeURL]int{resource.Cluster: 1, resource.Endpoint: 1, resource.Listener: 1, resource.Route: 1}
			want[url] += len(big)
			c.WaitFor(t, "everything", func(v xdstest.View) bool {
				for u, n := range want {
					if len(v.Names(u)) != n {
						return false
					}
				}
				return true
			})
			if got := p.settle(t, rev); len(got.Acknowledged) != 1 {
				t.Fatalf("progress %+v", got)
			}
		})
	}
}

// If Envoy refuses a part of such a configuration, the refusal still goes upstream.
func TestRefusalOfAnEarlyResponseGoesUpstream(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	big := mebibytes(resource.Cluster, 20)
	rev := p.publish(slices.Concat(big, []*resource.Resource{clusterA, endA, listener, routesA})...)
	r, _ := startRelay(t, dir, p.addr)
	within(t, "the relay is ready", r.Ready())
	c := local(t, dir, xdstest.Options{Relay: true, Reject: func(u resource.TypeURL, names []string) string {
		if u == resource.Cluster && slices.Contains(names, "big-03") {
			return "big-03: no"
		}
		return ""
	}})
	got := p.until(t, rev, func(n int, refused []string) bool { return len(refused) > 0 && n == 0 })
	if len(got.Rejected) != 1 || got.Rejected[0].Error != "big-03: no" || !slices.Contains(got.Rejected[0].Resources, "big-03") {
		t.Fatalf("progress %+v", got)
	}
	c.WaitFor(t, "everything else", func(v xdstest.View) bool { return len(v.Names(resource.Cluster)) == 20 })
	big[3] = resource.New(resource.Cluster, "big-03b", nil)
	rev = p.publish(slices.Concat(big, []*resource.Resource{clusterA, endA, listener, routesA})...)
	got = p.until(t, rev, func(n int, refused []string) bool { return n == 0 && len(refused) == 0 })
	if len(got.Acknowledged) != 1 {
		t.Fatalf("after the correction: %+v", got)
	}
}

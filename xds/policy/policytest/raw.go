package policytest

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/resource"
)

// finished returns what the raw stage of a policy makes of finished resources: the resource, if it
// is another one then, "removed", and what was left out.
func finished(t *testing.T, p *policy.Policy, s *policy.Selection, all []*resource.Resource) map[string]any {
	t.Helper()
	out := map[string]any{}
	for _, r := range all {
		var m proto.Message = new(clusterv3.Cluster)
		switch r.Type {
		case resource.Listener:
			m = new(listenerv3.Listener)
		case resource.Route:
			m = new(routev3.RouteConfiguration)
		}
		if err := proto.Unmarshal(r.Body, m); err != nil {
			t.Fatal(err)
		}
		d := &draft.Finished{Origin: draft.OriginOutbound, Proto: proto.Clone(m)}
		if strings.HasPrefix(r.Name, "inbound:") {
			d.Origin = draft.OriginInbound
		}
		if err := p.Patch(d, s); err != nil {
			t.Fatal(err)
		}
		changed := map[string]any{}
		var left []string
		for _, err := range d.Left {
			left = append(left, err.Error())
		}
		if left != nil {
			changed["left"] = left
		}
		switch {
		case d.Removed:
			changed["removed"] = true
		case !proto.Equal(m, d.Proto):
			changed["is"] = body(t, d.Proto)
		}
		if len(changed) > 0 {
			out[r.Name] = changed
		}
	}
	return out
}

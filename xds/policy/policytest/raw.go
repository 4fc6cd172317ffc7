package policytest

import (
	"encoding/json"
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

// removed is shown for a resource that the raw stage removes.
const removed = `"removed"`

// rawStage returns what the raw stage of a policy makes of the drafts, and what it adds.
func rawStage(t *testing.T, p *policy.Policy, s *policy.Selection, frozen []*resource.Resource) map[string]json.RawMessage {
	t.Helper()
	out := map[string]json.RawMessage{}
	patch := func(origin, key string, m proto.Message) {
		f := &draft.Finished{Origin: origin, Proto: proto.Clone(m)}
		if p.Patch != nil {
			if err := p.Patch(f, s); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		switch {
		case f.Removed:
			out[key] = json.RawMessage(removed)
		case origin == draft.OriginRaw || !proto.Equal(m, f.Proto):
			out[key] = body(t, f.Proto)
		}
	}
	for _, r := range frozen {
		m := messageOf(r.Type)
		if m == nil {
			continue
		}
		if err := proto.Unmarshal(r.Body, m); err != nil {
			t.Fatal(err)
		}
		origin := draft.OriginOutbound
		if strings.HasPrefix(r.Name, "inbound:") {
			origin = draft.OriginInbound
		}
		patch(origin, r.Name, m)
	}
	if p.Add != nil {
		added := &draft.Contribution{Mesh: meshName}
		if err := p.Add(added, s); err != nil {
			t.Error(err)
		}
		for _, c := range added.Clusters {
			patch(draft.OriginRaw, "added cluster "+c.GetName(), c)
		}
		for _, l := range added.Listeners {
			patch(draft.OriginRaw, "added listener "+l.GetName(), l)
		}
		for _, r := range added.Routes {
			patch(draft.OriginRaw, "added routes "+r.GetName(), r)
		}
	}
	return out
}

func messageOf(t resource.TypeURL) proto.Message {
	switch t {
	case resource.Cluster:
		return new(clusterv3.Cluster)
	case resource.Listener:
		return new(listenerv3.Listener)
	case resource.Route:
		return new(routev3.RouteConfiguration)
	}
	return nil
}

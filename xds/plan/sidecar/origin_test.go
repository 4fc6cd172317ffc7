package sidecar

import (
	"testing"

	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestOriginOfServices: a service may be named like something else, and its cluster stays one
// of an outbound.
func TestOriginOfServices(t *testing.T) {
	for _, tc := range []struct {
		url  resource.TypeURL
		name string
		want string
	}{
		{resource.Cluster, outboundPassthrough, draft.OriginOutbound},
		{resource.Cluster, inboundPassthrough, draft.OriginOutbound},
		{resource.Cluster, inboundName("10.0.0.1", 80), draft.OriginOutbound},
		{resource.Cluster, apart + outboundPassthrough, draft.OriginTransparent},
		{resource.Listener, inboundPassthrough, draft.OriginTransparent},
		{resource.Cluster, localCluster(80), draft.OriginInbound},
		{resource.Listener, inboundName("10.0.0.1", 80), draft.OriginInbound},
		{resource.Listener, outboundName("10.0.0.1", 80), draft.OriginOutbound},
	} {
		if got := originOf(&resource.Resource{Type: tc.url, Name: tc.name}); got != tc.want {
			t.Errorf("%s %s: %s, want %s", tc.url, tc.name, got, tc.want)
		}
	}
}

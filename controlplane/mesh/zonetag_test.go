package mesh_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
)

// TestInZone: the zone is in every tag set, instead of another one, the given spec is not written to, and
// what is complete is left as it is.
func TestInZone(t *testing.T) {
	inbounds := func(tags ...mesh.Tags) *mesh.Networking {
		n := &mesh.Networking{}
		for _, t := range tags {
			n.Inbound = append(n.Inbound, mesh.Inbound{Tags: t})
		}
		return n
	}
	gateway := func(tags mesh.Tags) *mesh.Networking {
		return &mesh.Networking{Gateway: &mesh.Gateway{Type: mesh.GatewayBuiltin, Tags: tags}}
	}
	east, west, none := mesh.Tags{"k": "v", mesh.TagZone: "east"}, mesh.Tags{"k": "v", mesh.TagZone: "west"}, mesh.Tags{"k": "v"}
	for name, test := range map[string]struct{ given, want *mesh.Networking }{
		"no zone":             {inbounds(none, none), inbounds(east, east)},
		"another zone":        {inbounds(east, west), inbounds(east, east)},
		"no tags":             {inbounds(nil), inbounds(mesh.Tags{mesh.TagZone: "east"})},
		"a gateway":           {gateway(west), gateway(east)},
		"a gateway, no tags":  {gateway(nil), gateway(mesh.Tags{mesh.TagZone: "east"})},
		"its own zone":        {inbounds(east), inbounds(east)},
		"nothing to write to": {nil, nil},
	} {
		complete := mesh.InZone("east")
		d := &mesh.Dataplane{Networking: test.given}
		got := complete(d).(*mesh.Dataplane)
		if diff := cmp.Diff(test.want, got.Networking); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if complete(got) != any(got) {
			t.Errorf("%s: what is complete is completed again", name)
		}
	}
	if diff := cmp.Diff([]mesh.Tags{{"k": "v", mesh.TagZone: "west"}, {"k": "v"}}, []mesh.Tags{west, none}); diff != "" {
		t.Errorf("what was given is written to: %s", diff)
	}
}

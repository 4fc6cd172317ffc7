package assembly

import (
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/places"
)

// TestOwnersOfLinks: the link of a proxy counts towards the limits of its token and its mesh.
// The link of a gateway has a place of its own.
func TestOwnersOfLinks(t *testing.T) {
	cp := openIn(t, t.TempDir())
	defer cp.close(t.Context())
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "127.0.0.2", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "web"}}}}}
	if _, _, err := cp.gate.As(model.System("test")).PutDocument(t.Context(), mesh.Dataplanes, mesh.Default, "web", d); err != nil {
		t.Fatal(err)
	}
	unbound, err := cp.mesh.tokens.Issue(t.Context(), identity.DataplaneTokenRequest{Mesh: mesh.Default})
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := cp.tokens.Gateway(model.DefaultControlPlane, "gw", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for node, test := range map[string]struct{ token, mesh string }{
		mesh.NodeID(mesh.Default, "web"): {unbound, mesh.Default}, "cp/default/gw": {gateway, ""},
	} {
		n, err := linkAuthenticator{cp}.Authenticate(t.Context(), node, test.token)
		if err != nil {
			t.Fatal(err)
		}
		id, _ := identity.Holder(test.token)
		if want := (places.Owner{Token: id, Mesh: test.mesh}); n.Owner != want || id == "" {
			t.Errorf("%s: %+v, want %+v", node, n.Owner, want)
		}
	}
}

package meshca

import (
	"crypto/x509"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// TestIdentityOfEgress: an egress has one name in a mesh that is left through egresses, and none in
// others. No proxy of the mesh gets that name. The certificate is for servers only.
func TestIdentityOfEgress(t *testing.T) {
	s := memstore.New()
	defer func() { _ = s.Close() }()
	wt := newWorkloadTest(t, s)
	if _, err := wt.IssueEgress(t.Context(), "m", "out"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an egress that does not exist: %v", err)
	}
	storetest.Place(t, s, mesh.ZoneEgresses, "", "out", &mesh.ZoneEgress{})
	if _, err := wt.IssueEgress(t.Context(), "m", "out"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("of a mesh that is not left through egresses: %v", err)
	}
	through := &mesh.Mesh{
		Routing: &mesh.Routing{ZoneEgress: true},
		MTLS:    &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}}},
	}
	storetest.Place(t, s, mesh.Meshes, "", "m", through)
	leaf, err := wt.IssueEgress(t.Context(), "m", "out")
	if err != nil {
		t.Fatal(err)
	}
	c := pemtext.Parsed(leaf.Certificate)[0]
	if len(c.URIs) != 1 || c.URIs[0].String() != "spiffe://m/zoneegress" || len(leaf.Sources) != 0 {
		t.Errorf("the names are %v, the tags %v", c.URIs, leaf.Sources)
	}
	if err := c.CheckSignatureFrom(wt.root.cert); err != nil {
		t.Error(err)
	}
	for usage, good := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageServerAuth: true, x509.ExtKeyUsageClientAuth: false} {
		if err := verify(chain(t, leaf), wt.root, identitytest.Epoch, usage); (err == nil) != good {
			t.Errorf("usage %v: %v", usage, err)
		}
	}
	// A dataplane of the name of the egress is somebody else.
	wt.sets("out", mesh.Tags{mesh.TagService: "web"})
	if other, err := wt.Issue(t.Context(), "m", "out"); err != nil || string(other.Certificate) == string(leaf.Certificate) {
		t.Errorf("a dataplane of the same name: %v", err)
	}
	again := func(same bool) {
		t.Helper()
		if next, err := wt.IssueEgress(t.Context(), "m", "out"); err != nil || (next == leaf) != same {
			t.Errorf("the same identity is given again: %v, want %v (%v)", next == leaf, same, err)
		}
	}
	again(true)
	wt.ForgetEgress("out")
	again(false)
	wt.sets("evil", mesh.Tags{mesh.TagService: "web"}, mesh.Tags{mesh.TagService: mesh.EgressService})
	if _, err := wt.Issue(t.Context(), "m", "evil"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a proxy that would be an egress: %v", err)
	}
}

package assembly

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// TestKeysOfAuthoritiesAreHandedOutToNobody: also if one came past the checks of what is written.
func TestKeysOfAuthoritiesAreHandedOutToNobody(t *testing.T) {
	s := memstore.New()
	defer func() { _ = s.Close() }()
	cert, key := admittest.Certificate(t)
	storetest.Place(t, s, mesh.Meshes, "", "m", &mesh.Mesh{})
	storetest.Place(t, s, mesh.Secrets, "m", "s", &mesh.Secret{Data: []byte(cert + key)})
	storetest.Place(t, s, mesh.ExternalServices, "m", "mail", &mesh.ExternalService{
		Networking: &mesh.ExternalNetworking{Address: "mail.example:443", TLS: &mesh.ExternalTLS{
			Enabled: true, ClientCert: &mesh.DataSource{InlineString: &cert}, ClientKey: &mesh.DataSource{Secret: "s"},
		}},
		Tags: mesh.Tags{mesh.TagService: "mail"},
	})
	held := identities{&ControlPlane{store: s}}
	external, err := held.External(t.Context(), "m", "mail")
	if err != nil || external == nil || len(external.Key) == 0 {
		t.Fatalf("something: %t, %v", external != nil, err)
	}
	listener, err := held.Listener(t.Context(), "m", "s")
	if err != nil || len(listener.Key) == 0 {
		t.Fatalf("something: %t, %v", listener != nil, err)
	}

	storetest.Place(t, s, mesh.Meshes, "", "other", &mesh.Mesh{MTLS: &mesh.MTLS{Backends: []mesh.Authority{
		{Name: "p", Type: mesh.AuthorityProvided, Conf: &mesh.AuthorityConf{Cert: &mesh.DataSource{InlineString: &cert}}},
	}}})
	const of = "that of an authority of mesh other"
	if p, err := held.External(t.Context(), "m", "mail"); p != nil || !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), of) {
		t.Errorf("for an ExternalService: something: %t, %v", p != nil, err)
	}
	if p, err := held.Listener(t.Context(), "m", "s"); p != nil || !fault.Is(err, fault.Forbidden) || !strings.Contains(err.Error(), of) {
		t.Errorf("for a listener: something: %t, %v", p != nil, err)
	}
}

package publish_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestKeysForServicesOutside: a proxy that may call a service gets what its set names, and nothing
// else: no other content, and not what another service has. Other proxies get nothing.
func TestKeysForServicesOutside(t *testing.T) {
	later := time.Now().Add(time.Hour)
	mine, newer := pair(t, false, later), pair(t, false, later)
	ids := &identities{external: map[string]*mesh.Presented{}}
	db := memstore.New()
	out := &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}
	views := view.New(db, append(all.Kinds(), sidecar.LocatingKinds()...), slog.New(slog.DiscardHandler))
	loop := publish.Begin(t, db, publish.Options{Views: views, Publisher: out, Parameters: parameters{}, Identities: ids}, nil)
	storetest.Put(t, db, mesh.Meshes, "", "m", &mesh.Mesh{})
	for _, d := range all.Defaults() {
		if d.Kind != trafficpermission.Kind {
			storetest.Put(t, db, d.Kind, "m", d.Prefix+"m", d.Spec())
		}
	}
	storetest.Put(t, db, trafficpermission.Kind, "m", "only", &trafficpermission.Spec{Connection: mesh.Connection{
		Sources: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "web"}}}, Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "mail"}}},
	}})
	cert, key := string(mine.Certificate), string(mine.Key)
	last := storetest.Put(t, db, mesh.ExternalServices, "m", "mail", &mesh.ExternalService{
		Networking: &mesh.ExternalNetworking{Address: "mail.example:443", TLS: &mesh.ExternalTLS{
			Enabled: true, ClientCert: &mesh.DataSource{InlineString: &cert}, ClientKey: &mesh.DataSource{InlineString: &key},
		}},
		Tags: mesh.Tags{mesh.TagService: "mail", mesh.TagProtocol: "http"},
	})
	for _, service := range []string{"web", "jobs"} {
		d := dataplane("127.0.0.1", service, "http")
		d.Networking.Outbound = []mesh.Outbound{{Port: 9999, Tags: mesh.Tags{mesh.TagService: "mail"}}}
		last = storetest.Put(t, db, mesh.Dataplanes, "m", service, d)
	}
	if err := loop.Settled(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"m.web", "m.jobs"} {
		release, err := loop.Connect(t.Context(), node, false)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	names := out.set("m.web").Secrets()
	if len(names) != 1 {
		t.Fatalf("who may call may have %v", names)
	}
	name := names[0]
	if names := out.set("m.jobs").Secrets(); len(names) > 0 {
		t.Errorf("who may not call may have %v", names)
	}
	presented := func(name string, p publish.Pair) *mesh.Presented {
		return &mesh.Presented{Name: name, ClientPair: &mesh.ClientPair{Chain: p.Certificate, Key: p.Key}}
	}
	ids.external["m mail"] = presented(name, mine)
	res, err := loop.Secret(t.Context(), "m.web", name, "")
	if err != nil {
		t.Fatal(err)
	}
	var s tlsv3.Secret
	if err := proto.Unmarshal(res.Body, &s); err != nil {
		t.Fatal(err)
	}
	if got := s.GetTlsCertificate(); s.GetName() != name || !bytes.Equal(got.GetCertificateChain().GetInlineBytes(), mine.Certificate) || !bytes.Equal(got.GetPrivateKey().GetInlineBytes(), mine.Key) {
		t.Errorf("the secret is %s with other content", s.GetName())
	}
	if _, err := loop.Secret(t.Context(), "m.jobs", name, ""); !fault.Is(err, fault.Forbidden) {
		t.Errorf("who may not call: %v", err)
	}
	if _, err := loop.Secret(t.Context(), "m.web", "external_client:secret:other:1", ""); !fault.Is(err, fault.Forbidden) {
		t.Errorf("of another service: %v", err)
	}
	for what, p := range map[string]*mesh.Presented{"newer": presented(name+"1", newer), "gone": nil} {
		ids.external["m mail"] = p
		if res, err := loop.Secret(t.Context(), "m.web", name, ""); !fault.Is(err, fault.Unavailable) || res != nil || strings.Contains(err.Error(), "PRIVATE") {
			t.Errorf("%s content: %v", what, err)
		}
	}
}

package publish_test

import (
	"bytes"
	"log/slog"
	"slices"
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
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

// TestListenerCertificates: a gateway gets the certificates that its listeners name, in the
// generation that its set wants, and other proxies get none.
func TestListenerCertificates(t *testing.T) {
	later := time.Now().Add(time.Hour)
	shown, newer := pair(t, false, later), pair(t, false, later)
	ids := &identities{listeners: map[string]publish.Pair{"m shop": shown}}
	db := memstore.New()
	out := &recorder{sets: map[string]*resource.Set{}, revisions: map[string]uint64{}}
	views := view.New(db, all.Kinds(), slog.New(slog.DiscardHandler))
	loop := publish.Begin(t, db, publish.Options{Views: views, Publisher: out, Parameters: parameters{}, Identities: ids}, nil)
	storetest.Put(t, db, mesh.Meshes, "", "m", &mesh.Mesh{})
	storetest.Put(t, db, mesh.Secrets, "m", "shop", &mesh.Secret{Data: slices.Concat(shown.Certificate, shown.Key)})
	storetest.Put(t, db, mesh.MeshGateways, "m", "g", &mesh.MeshGateway{
		Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "edge"}}},
		Conf: &mesh.MeshGatewayConf{Listeners: []mesh.GatewayListener{{
			Port: 443, Protocol: mesh.ListenerHTTPS, TLS: &mesh.GatewayTLS{Mode: mesh.TLSTerminate, Certificates: []mesh.DataSource{{Secret: "shop"}}},
		}}},
	})
	gw := &mesh.Dataplane{Networking: &mesh.Networking{Address: "127.0.0.1", Gateway: &mesh.Gateway{Type: mesh.GatewayBuiltin, Tags: mesh.Tags{mesh.TagService: "edge"}}}}
	storetest.Put(t, db, mesh.Dataplanes, "m", "web", dataplane("127.0.0.1", "web", "http"))
	if err := loop.Settled(t.Context(), storetest.Put(t, db, mesh.Dataplanes, "m", "gw", gw)); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"m.gw", "m.web"} {
		release, err := loop.Connect(t.Context(), node, false)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	name := mesh.SecretServer("shop")
	first, ok := out.set("m.gw").Generation(name)
	if !ok {
		t.Fatalf("the gateway may have %v", out.set("m.gw").Secrets())
	}
	res, err := loop.Secret(t.Context(), "m.gw", name, first)
	if err != nil {
		t.Fatal(err)
	}
	var s tlsv3.Secret
	if err := proto.Unmarshal(res.Body, &s); err != nil {
		t.Fatal(err)
	}
	if got := s.GetTlsCertificate(); !bytes.Equal(got.GetCertificateChain().GetInlineBytes(), shown.Certificate) || !bytes.Equal(got.GetPrivateKey().GetInlineBytes(), shown.Key) {
		t.Error("the secret has other content")
	}
	if _, err := loop.Secret(t.Context(), "m.web", name, first); !fault.Is(err, fault.Forbidden) {
		t.Errorf("another proxy: %v", err)
	}
	ids.listeners["m shop"] = newer
	if _, err := loop.Secret(t.Context(), "m.gw", name, first); !fault.Is(err, fault.Unavailable) {
		t.Errorf("newer content in an older generation: %v", err)
	}
	last := storetest.Put(t, db, mesh.Secrets, "m", "shop", &mesh.Secret{Data: slices.Concat(newer.Certificate, newer.Key)})
	if err := loop.Settled(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	second, _ := out.set("m.gw").Generation(name)
	if _, err := loop.Secret(t.Context(), "m.gw", name, second); err != nil || second == first {
		t.Errorf("the newer certificate: %v, generation %s after %s", err, second, first)
	}
}

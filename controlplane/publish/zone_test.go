package publish_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// TestZone: an ingress gets what the services of all meshes need, and a change of any of them.
func TestZone(t *testing.T) {
	db, snapshots := memstore.New(), snapshot.New()
	l := publish.Begin(t, db, publish.Options{Publisher: snapshots}, nil)
	secured := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}}
	storetest.Put(t, db, mesh.Meshes, "", "one", secured)
	storetest.Put(t, db, mesh.Meshes, "", "two", secured)
	const node = "zone/ingress/in"
	if _, err := l.Connect(t.Context(), node, false); !fault.Is(err, fault.NotFound) {
		t.Fatalf("an ingress that does not exist: %v", err)
	}
	if _, err := l.Connect(t.Context(), "zone/egress/in", false); !fault.Is(err, fault.NotFound) {
		t.Fatalf("an egress that does not exist: %v", err)
	}
	storetest.Put(t, db, mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 1}})
	release, err := l.Connect(t.Context(), node, false)
	if err != nil {
		t.Fatal(err)
	}
	has := func(clusters ...string) {
		t.Helper()
		set := snapshots.Get(node)
		if set.Len(resource.Cluster) != 2*len(clusters) { // the service, and the service in its zone
			t.Fatalf("there are %d clusters, not those of %v", set.Len(resource.Cluster), clusters)
		}
		for _, c := range clusters {
			if set.Get(resource.Cluster, c) == nil {
				t.Fatalf("there is no cluster %s", c)
			}
		}
		if set.Secrets() != nil {
			t.Fatal("an ingress may have secrets")
		}
	}
	has()
	shows := func(revision uint64) {
		t.Helper()
		if err := l.Settled(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	shows(storetest.Put(t, db, mesh.Dataplanes, "one", "a-1", zonal("a")))
	has("one:a")
	shows(storetest.Put(t, db, mesh.Dataplanes, "two", "b-1", zonal("b")))
	has("one:a", "two:b")
	shows(storetest.Put(t, db, mesh.Meshes, "", "one", &mesh.Mesh{}))
	has("two:b")
	// It cannot listen there, so it keeps what it has, and says so.
	shows(storetest.Put(t, db, mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "x.example", Port: 1}}))
	has("two:b")
	if fs := l.FailuresOf(publish.ZoneScope, publish.ZoneProxy(mesh.ProxyIngress, "in")); len(fs) != 1 || !fs[0].Kept {
		t.Errorf("failures are %v", fs)
	}
	concerns, err := l.Concerns(t.Context(), storetest.Put(t, db, mesh.Dataplanes, "two", "b-2", zonal("b")))
	if err != nil || !concerns(publish.ZoneScope) {
		t.Errorf("a dataplane does not concern the zone: %v", err)
	}
	release()
	if snapshots.Get(node) != nil {
		t.Error("an ingress that has left is published")
	}
	if set, err := l.Desired(t.Context(), node); err == nil || set != nil {
		t.Error("what it should have is known although it cannot be made")
	}
}

// TestZoneEgress: an egress gets what leads to other zones, beside an ingress of the same name, which
// gets something else.
func TestZoneEgress(t *testing.T) {
	db, snapshots := memstore.New(), snapshot.New()
	l := publish.Begin(t, db, publish.Options{Publisher: snapshots}, nil)
	secured := &mesh.Mesh{
		MTLS:    &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}},
		Routing: &mesh.Routing{ZoneEgress: true},
	}
	storetest.Put(t, db, mesh.Meshes, "", "one", secured)
	storetest.Put(t, db, mesh.Dataplanes, "one", "near-1", zonal("near"))
	storetest.Put(t, db, mesh.ZoneIngresses, "", "x", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 1}})
	storetest.Put(t, db, mesh.ZoneEgresses, "", "x", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.1", Port: 2}})
	storetest.Put(t, db, mesh.ZoneIngresses, "", "theirs", &mesh.ZoneIngress{
		Zone: "east", Networking: &mesh.ZoneIngressNetworking{AdvertisedAddress: "10.0.0.9", AdvertisedPort: 1},
		AvailableServices: []mesh.AvailableService{{Mesh: "one", Instances: 1, Tags: mesh.Tags{mesh.TagService: "far"}}},
	})
	for _, node := range []string{"zone/ingress/x", "zone/egress/x"} {
		release, err := l.Connect(t.Context(), node, false)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	for node, want := range map[string]string{"zone/ingress/x": "one:near", "zone/egress/x": "one:far"} {
		set := snapshots.Get(node)
		if set.Len(resource.Cluster) != 2 || set.Get(resource.Cluster, want) == nil {
			t.Errorf("%s has %d clusters, not those of %s", node, set.Len(resource.Cluster), want)
		}
		if desired, err := l.Desired(t.Context(), node); err != nil || !desired.Equal(set) {
			t.Errorf("%s should have something else than it has: %v", node, err)
		}
	}
	revision := storetest.Put(t, db, mesh.ZoneEgresses, "", "x", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "x.example", Port: 2}})
	if err := l.Settled(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	if fs := l.FailuresOf(publish.ZoneScope, publish.ZoneProxy(mesh.ProxyEgress, "x")); len(fs) != 1 || !fs[0].Kept {
		t.Errorf("failures are %v", fs)
	}
	if fs := l.FailuresOf(publish.ZoneScope, publish.ZoneProxy(mesh.ProxyIngress, "x")); len(fs) > 0 {
		t.Errorf("failures of the ingress are %v", fs)
	}
}

func zonal(service string) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: service}}}}}
}

// egressIdentities issues the identities of egresses by issuer, and what is presented outside.
type egressIdentities struct {
	*identities
	issuers map[string]string
}

func (i egressIdentities) Egress(_ context.Context, meshName, egress string) (publish.Workload, error) {
	if egress != "x" {
		return publish.Workload{}, fault.New(fault.NotFound, "no egress %s", egress)
	}
	return publish.Workload{Pair: i.node, Issuer: i.issuers[meshName]}, nil
}

// TestEgressSecrets: an egress gets its identity in meshes that are left through it, of the issuer
// that its set means, what it presents to services outside, and nothing else. Nobody else gets any
// of it.
func TestEgressSecrets(t *testing.T) {
	db, snapshots := memstore.New(), snapshot.New()
	ids := egressIdentities{&identities{node: pair(t, false, time.Now().Add(time.Hour)), external: map[string]*mesh.Presented{}}, map[string]string{"one": "a", "two": "b"}}
	views := view.New(db, append(all.Kinds(), sidecar.LocatingKinds()...), slog.New(slog.DiscardHandler))
	l := publish.Begin(t, db, publish.Options{Publisher: snapshots, Identities: ids, Views: views}, nil)
	put := func(name string, through bool) uint64 {
		m := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}, Routing: &mesh.Routing{ZoneEgress: through}}
		return storetest.Put(t, db, mesh.Meshes, "", name, m)
	}
	chain := &mesh.DataSource{Inline: ids.node.Certificate}
	key := &mesh.DataSource{Inline: ids.node.Key}
	for _, name := range []string{"one", "two"} {
		put(name, true)
		storetest.Put(t, db, mesh.Trusts, name, name, &mesh.Trust{Backend: "ca", Issuer: ids.issuers[name], Roots: ids.node.Certificate})
	}
	mail := &mesh.ExternalService{Tags: mesh.Tags{mesh.TagService: "mail"}, Networking: &mesh.ExternalNetworking{
		Address: "mail.example:443", TLS: &mesh.ExternalTLS{Enabled: true, ClientCert: chain, ClientKey: key},
	}}
	storetest.Put(t, db, mesh.ExternalServices, "one", "mail", mail)
	storetest.Put(t, db, mesh.ExternalServices, "two", "news", &mesh.ExternalService{Tags: mesh.Tags{mesh.TagService: "news"}, Networking: &mesh.ExternalNetworking{Address: "news.example:80"}})
	storetest.Put(t, db, mesh.ZoneEgresses, "", "x", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.1", Port: 2}})
	storetest.Put(t, db, mesh.ZoneIngresses, "", "x", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 1}})
	const node = "zone/egress/x"
	for _, id := range []string{node, "zone/ingress/x"} {
		release, err := l.Connect(t.Context(), id, false)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	gets := func(id, secret string) error {
		generation, _ := snapshots.Get(id).Generation(secret)
		_, err := l.Secret(t.Context(), id, secret, generation)
		return err
	}
	presented := ""
	for _, name := range snapshots.Get(node).Secrets() {
		if _, is := mesh.ParseExternalClient(name); is {
			presented = name
		}
	}
	ids.external["one mail"] = &mesh.Presented{Name: presented, ClientPair: &mesh.ClientPair{Chain: ids.node.Certificate, Key: ids.node.Key}}
	for _, secret := range []string{mesh.SecretIdentity("one"), mesh.SecretIdentity("two"), presented} {
		if err := gets(node, secret); err != nil {
			t.Errorf("%s: %v", secret, err)
		}
		if err := gets("zone/ingress/x", secret); !fault.Is(err, fault.Forbidden) {
			t.Errorf("an ingress gets %s: %v", secret, err)
		}
	}
	if err := gets(node, mesh.SecretIdentity("three")); !fault.Is(err, fault.Forbidden) {
		t.Errorf("the identity of another mesh: %v", err)
	}
	ids.issuers["one"] = "c" // and the set means another one
	if err := gets(node, mesh.SecretIdentity("one")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("an identity of another issuer: %v", err)
	}
	if err := l.Settled(t.Context(), put("one", false)); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{mesh.SecretIdentity("one"), presented} {
		if err := gets(node, secret); !fault.Is(err, fault.Forbidden) {
			t.Errorf("%s of a mesh that is no longer left through egresses: %v", secret, err)
		}
	}
}

package ingress_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/plan/ingress"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// zone is a zone in a store, with a planner that follows it.
type zone struct {
	t       *testing.T
	db      store.Store
	scope   *view.Scope[*view.Zone]
	planner *ingress.Planner
}

func newZone(t *testing.T) *zone {
	t.Helper()
	db := memstore.New()
	views := view.New(db, nil, slog.New(slog.DiscardHandler)).InZone("west")
	t.Cleanup(func() {
		views.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	z := &zone{t: t, db: db, planner: ingress.New()}
	var err error
	if z.scope, err = views.OwnZone(t.Context()); err != nil {
		t.Fatal(err)
	}
	return z
}

func (z *zone) put(k *model.Kind, scope, name string, spec any) {
	z.t.Helper()
	c, err := z.db.Update(z.t.Context(), model.Config, func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		if _, err := tx.Get(k, scope, name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	})
	z.follow(c.Revision, err)
}

func (z *zone) drop(k *model.Kind, scope, name string) {
	z.t.Helper()
	c, err := z.db.Update(z.t.Context(), model.Config, func(tx store.Tx) error { return tx.Delete(k, scope, name, 0) })
	z.follow(c.Revision, err)
}

// follow takes a write. Whatever was written before, the plan is that of a planner that knows
// nothing.
func (z *zone) follow(revision uint64, err error) {
	z.t.Helper()
	if err != nil {
		z.t.Fatal(err)
	}
	state, err := z.scope.Await(z.t.Context(), revision)
	if err != nil {
		z.t.Fatal(err)
	}
	z.planner.Update(state)
	fresh := ingress.New()
	fresh.Update(state)
	if want, err := fresh.Set("127.0.0.1", 10001); err != nil || !want.Equal(z.set()) {
		z.t.Fatalf("the plan is not that of a new planner: %v", err)
	}
}

func (z *zone) set() *resource.Set {
	z.t.Helper()
	set, err := z.planner.Set("127.0.0.1", 10001)
	if err != nil {
		z.t.Fatal(err)
	}
	return set
}

// names are the server names that are let in.
func (z *zone) names() (out []string) {
	for _, r := range z.set().All(resource.Listener) {
		var l listenerv3.Listener
		if err := proto.Unmarshal(r.Body, &l); err != nil {
			z.t.Fatal(err)
		}
		for _, c := range l.GetFilterChains() {
			out = append(out, c.GetFilterChainMatch().GetServerNames()...)
		}
	}
	slices.Sort(out)
	return out
}

func (z *zone) same(what string, want ...string) {
	z.t.Helper()
	if got := z.names(); !slices.Equal(got, want) {
		z.t.Errorf("%s: server names are\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func secured() *mesh.Mesh {
	return &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}}
}

func dataplane(address string, tags mesh.Tags) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Inbound: []mesh.Inbound{{Port: 8080, Tags: tags}}}}
}

func own() *mesh.ZoneIngress {
	return &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 10001}}
}

// TestServerNames: an ingress lets in what is for services of meshes with mutual TLS in its zone.
func TestServerNames(t *testing.T) {
	z := newZone(t)
	web := mesh.Tags{mesh.TagService: "web"}
	z.put(mesh.Meshes, "", "shop", secured())
	z.put(mesh.Meshes, "", "plain", &mesh.Mesh{})
	z.put(mesh.Dataplanes, "shop", "web-1", dataplane("10.0.0.1", web))
	z.put(mesh.Dataplanes, "plain", "web-1", dataplane("10.0.0.2", web))
	z.same("without an ingress")
	z.put(mesh.ZoneIngresses, "", "in", own())
	both := []string{"web{mesh=shop,mesh.io/zone=west}", "web{mesh=shop}"}
	z.same("with an ingress", both...)
	// An ingress of another zone has services, which must not be reached from here: connections
	// would go in circles.
	z.put(mesh.ZoneIngresses, "", "other", &mesh.ZoneIngress{
		Zone: "east", Networking: &mesh.ZoneIngressNetworking{AdvertisedAddress: "10.0.0.9", AdvertisedPort: 1},
		AvailableServices: []mesh.AvailableService{{Mesh: "shop", Instances: 1, Tags: mesh.Tags{mesh.TagService: "far"}}},
	})
	z.same("with an ingress of another zone", both...)
	notReady := dataplane("10.0.0.1", web)
	notReady.Networking.Inbound[0].State = mesh.StateNotReady
	z.put(mesh.Dataplanes, "shop", "web-1", notReady)
	z.same("without an instance that is ready")
	z.put(mesh.Dataplanes, "shop", "web-1", dataplane("10.0.0.1", web))
	z.put(mesh.Meshes, "", "plain", secured())
	z.same("when the other mesh has mutual TLS, too", "web{mesh=plain,mesh.io/zone=west}", "web{mesh=plain}", both[0], both[1])
	z.put(mesh.Meshes, "", "plain", &mesh.Mesh{})
	z.same("and no longer", both...)
	// Names are the same in upper and lower case, and Envoy refuses two chains of one name.
	z.put(mesh.Dataplanes, "shop", "web-1", dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "web", "v": "A"}))
	z.put(mesh.Dataplanes, "shop", "web-2", dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web", "v": "a"}))
	z.same("of tags that differ in case", "web{mesh=shop,mesh.io/zone=west,v=A}", both[0], "web{mesh=shop,v=A}", both[1])
	z.drop(mesh.Dataplanes, "shop", "web-1")
	z.drop(mesh.Dataplanes, "shop", "web-2")
	z.same("of a service that is gone")
}

// TestManyTags: very many sets of tags are cut, and what is left out is said.
func TestManyTags(t *testing.T) {
	z := newZone(t)
	z.put(mesh.Meshes, "", "shop", secured())
	z.put(mesh.ZoneIngresses, "", "in", own())
	for i := range 100 {
		z.put(mesh.Dataplanes, "shop", fmt.Sprint("web-", i), dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "web", mesh.TagInstance: fmt.Sprint(i)}))
	}
	if names := z.names(); len(names) != 64 || !slices.Contains(names, "web{mesh=shop}") {
		t.Errorf("%d server names: %v", len(names), names)
	}
	if fs := z.planner.Failures(); len(fs) != 1 || fs[0].Cell != "service shop:web" {
		t.Errorf("failures are %v", fs)
	}
}

// TestNowhere: an ingress must be told where to listen.
func TestNowhere(t *testing.T) {
	for _, address := range []string{"", "ingress.example"} {
		if set, err := ingress.New().Set(address, 10001); err == nil {
			t.Errorf("%q: %v", address, set)
		}
	}
}

// TestGolden: the plan of an ingress, which both versions of Envoy accept.
func TestGolden(t *testing.T) {
	z := newZone(t)
	z.put(mesh.Meshes, "", "shop", secured())
	z.put(mesh.ZoneIngresses, "", "in", own())
	z.put(mesh.Dataplanes, "shop", "web-1", dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "web", "version": "v1"}))
	z.put(mesh.Dataplanes, "shop", "web-2", dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web", "version": "v2"}))
	z.put(mesh.Dataplanes, "shop", "named-1", dataplane("db.example", mesh.Tags{mesh.TagService: "named"}))
	text, err := yaml.Marshal(plantest.Tree(t, z.set()))
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/ingress.golden.yaml", text)
	if z.set().Secrets() != nil {
		t.Error("an ingress may have secrets")
	}
	if text, err = protojson.Marshal(static(t, z.set())); err != nil {
		t.Fatal(err)
	}
	plantest.Validate(t, text)
}

// static makes a bootstrap with a set as static resources.
func static(t *testing.T, set *resource.Set) *bootstrapv3.Bootstrap {
	t.Helper()
	b := &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{}, Node: &corev3.Node{Id: "test", Cluster: "test"}}
	load := func(r *resource.Resource, m proto.Message) {
		if err := proto.Unmarshal(r.Body, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range set.All(resource.Listener) {
		l := new(listenerv3.Listener)
		load(r, l)
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	}
	for _, r := range set.All(resource.Cluster) {
		c := new(clusterv3.Cluster)
		load(r, c)
		if c.GetType() == clusterv3.Cluster_EDS {
			c.ClusterDiscoveryType, c.EdsClusterConfig = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}, nil
			c.LoadAssignment = new(endpointv3.ClusterLoadAssignment)
			load(set.Get(resource.Endpoint, c.GetName()), c.GetLoadAssignment())
		}
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
	return b
}

// failuresOf are the texts of the failures of a cell.
func (z *zone) failuresOf(cell string) (out []string) {
	for _, f := range z.planner.Failures() {
		if f.Cell == cell {
			out = append(out, f.Err.Error())
		}
	}
	return out
}

// TestNothingGoesInCircles: a dataplane that says it is where an ingress is gets no connections
// there, nor one whose name may lead anywhere, whichever was there first.
func TestNothingGoesInCircles(t *testing.T) {
	z := newZone(t)
	z.put(mesh.Meshes, "", "shop", secured())
	z.put(mesh.ZoneIngresses, "", "in", own())
	evil := func(address string, port uint32, service string) *mesh.Dataplane {
		d := dataplane(address, mesh.Tags{mesh.TagService: service})
		d.Networking.Inbound[0].Port = port
		return d
	}
	z.put(mesh.Dataplanes, "shop", "evil-1", evil("127.0.0.1", 10001, "evil"))
	z.put(mesh.Dataplanes, "shop", "evil-2", evil("::ffff:127.0.0.1", 10001, "evil"))
	z.put(mesh.Dataplanes, "shop", "named-1", evil("in.example", 10001, "named"))
	z.put(mesh.Dataplanes, "shop", "second-1", evil("203.0.113.5", 443, "second"))
	second := []string{"web{mesh=shop,mesh.io/zone=west}", "web{mesh=shop}"}
	for i := range second {
		second[i] = strings.Replace(second[i], "web", "second", 1)
	}
	z.same("before the second ingress", second...)
	also := own()
	also.Networking.Port, also.Networking.AdvertisedAddress, also.Networking.AdvertisedPort = 10002, "203.0.113.5", 443
	z.put(mesh.ZoneIngresses, "", "also", also)
	z.same("with the second ingress")
	for cell, n := range map[string]int{"service shop:evil": 2, "service shop:named": 1, "service shop:second": 1} {
		if fs := z.failuresOf(cell); len(fs) != 1 || !strings.Contains(fs[0], fmt.Sprint("cannot reach ", n, " of its instances")) {
			t.Errorf("%s: %v", cell, fs)
		}
	}
	z.drop(mesh.ZoneIngresses, "", "also")
	z.same("when it is gone", second...)
}

// TestRoomOfMeshes: a mesh with very many services or sets of tags takes no room of another one.
func TestRoomOfMeshes(t *testing.T) {
	z := newZone(t)
	z.put(mesh.Meshes, "", "a", secured())
	z.put(mesh.Meshes, "", "shop", secured())
	z.put(mesh.ZoneIngresses, "", "in", own())
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1"}}
	for i := range 5000 {
		tags := mesh.Tags{mesh.TagService: fmt.Sprintf("s-%04d", i), "a": fmt.Sprint(i), "b": "b", "c": "c"}
		d.Networking.Inbound = append(d.Networking.Inbound, mesh.Inbound{Port: uint32(i + 1), Tags: tags})
	}
	z.put(mesh.Dataplanes, "a", "all", d)
	z.put(mesh.Dataplanes, "shop", "web-1", dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web", "v": "1"}))
	names := z.names()
	if n := len(names); n != 4096+4 || !slices.Contains(names, "s-4095{mesh=a}") || !slices.Contains(names, "web{mesh=shop,v=1}") {
		t.Errorf("%d server names", n)
	}
	if fs := z.failuresOf("mesh a"); len(fs) != 1 || !strings.Contains(fs[0], "904 services are too many") {
		t.Errorf("failures are %v", fs)
	}
	d.Networking.Inbound = d.Networking.Inbound[:500]
	z.put(mesh.Dataplanes, "a", "all", d)
	if n := len(z.names()); n != 500*8+4 {
		t.Errorf("%d server names of fewer services", n)
	}
}

// TestNamesThatDifferInCase: of services that are the same in a server name one is reached, and
// the other one is said not to be.
func TestNamesThatDifferInCase(t *testing.T) {
	z := newZone(t)
	z.put(mesh.Meshes, "", "shop", secured())
	z.put(mesh.ZoneIngresses, "", "in", own())
	z.put(mesh.Dataplanes, "shop", "one", dataplane("10.0.0.1", mesh.Tags{mesh.TagService: "WEB"}))
	z.put(mesh.Dataplanes, "shop", "two", dataplane("10.0.0.2", mesh.Tags{mesh.TagService: "web"}))
	if fs := z.failuresOf("service shop:web"); len(fs) == 0 || !strings.Contains(fs[0], "WEB") {
		t.Errorf("failures are %v", z.planner.Failures())
	}
}

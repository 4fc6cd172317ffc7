// Package passingtest has what the tests of proxies that pass connections on have in common.
package passingtest

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/plantest"
	"github.com/meshgate/meshgate/xds/resource"
)

// Planner plans proxies of one type in a zone.
type Planner interface {
	Update(z *view.Zone)
	Set(address string, port uint32) (*resource.Set, error)
	Failures() []plan.Failure
}

// Zone is a zone west in a store, with a planner that follows it.
type Zone struct {
	t      *testing.T
	db     store.Store
	scope  *view.Scope[*view.Zone]
	new    func() Planner
	copied func(Planner) Planner
	kinds  []*model.Kind
	// Planner follows every write.
	Planner Planner
}

// New returns a zone without anything, followed by a planner that is made like this.
// kinds are those that meshes with policies hold.
func New[P interface {
	Planner
	Copy() P
}](t *testing.T, planner func() P, kinds ...*model.Kind) *Zone {
	t.Helper()
	db := memstore.New()
	views := view.New(db, kinds, slog.New(slog.DiscardHandler)).InZone("west")
	t.Cleanup(func() {
		views.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	z := &Zone{
		t: t, db: db, new: func() Planner { return planner() }, kinds: kinds, Planner: planner(),
		copied: func(p Planner) Planner { return p.(P).Copy() },
	}
	var err error
	if z.scope, err = views.OwnZone(t.Context()); err != nil {
		t.Fatal(err)
	}
	return z
}

// Put writes a resource.
func (z *Zone) Put(k *model.Kind, scope, name string, spec any) {
	z.t.Helper()
	z.plan(z.Write(k, scope, name, spec))
}

// Write writes a resource, and returns the state of the zone after it. The planner does not follow.
func (z *Zone) Write(k *model.Kind, scope, name string, spec any) *view.Zone {
	z.t.Helper()
	return z.state(storetest.Put(z.t, z.db, k, scope, name, spec))
}

// Fill writes new resources of a scope at once.
func (z *Zone) Fill(k *model.Kind, scope string, specs map[string]any) {
	z.t.Helper()
	c, err := z.db.Update(z.t.Context(), model.Config, func(tx store.Tx) error {
		for name, spec := range specs {
			if _, err := tx.Create(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		z.t.Fatal(err)
	}
	z.plan(z.state(c.Revision))
}

// Drop deletes a resource.
func (z *Zone) Drop(k *model.Kind, scope, name string) {
	z.t.Helper()
	c, err := z.db.Update(z.t.Context(), model.Config, func(tx store.Tx) error { return tx.Delete(k, scope, name, 0) })
	if err != nil {
		z.t.Fatal(err)
	}
	z.plan(z.state(c.Revision))
}

// state is that of a revision.
func (z *Zone) state(revision uint64) *view.Zone {
	z.t.Helper()
	state, err := z.scope.Await(z.t.Context(), revision, nil)
	if err != nil {
		z.t.Fatal(err)
	}
	return state
}

// plan takes a write. Whatever was written before, the plan is that of a planner that knows nothing,
// of a state that is read as a whole. A copy from before the write plans the same, unnoticed.
func (z *Zone) plan(state *view.Zone) {
	z.t.Helper()
	before, failures := z.Set(), z.Planner.Failures()
	apart := z.copied(z.Planner)
	apart.Update(state)
	if !before.Equal(z.Set()) || !reflect.DeepEqual(failures, z.Planner.Failures()) {
		z.t.Fatal("a planner notices what its copy plans")
	}
	z.Planner.Update(state)
	views := view.New(z.db, z.kinds, slog.New(slog.DiscardHandler)).InZone("west")
	defer views.Close()
	whole, err := views.OwnZone(z.t.Context())
	if err != nil {
		z.t.Fatal(err)
	}
	fresh := z.new()
	fresh.Update(whole.State())
	if want, err := fresh.Set("127.0.0.1", 10001); err != nil || !want.Equal(z.Set()) {
		z.t.Fatalf("the plan is not that of a new planner: %v", err)
	}
	if set, err := apart.Set("127.0.0.1", 10001); err != nil || !set.Equal(z.Set()) || fmt.Sprint(apart.Failures()) != fmt.Sprint(z.Planner.Failures()) {
		z.t.Fatalf("the plan is not that of a copy: %v\n%v\n%v", err, apart.Failures(), z.Planner.Failures())
	}
}

// Set is the set of a proxy.
func (z *Zone) Set() *resource.Set {
	z.t.Helper()
	set, err := z.Planner.Set("127.0.0.1", 10001)
	if err != nil {
		z.t.Fatal(err)
	}
	return set
}

// Names are the server names that are let in.
func (z *Zone) Names() (out []string) {
	for _, r := range z.Set().All(resource.Listener) {
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

// Closed are the server names of which every connection is closed.
func (z *Zone) Closed() (out []string) {
	for _, r := range z.Set().All(resource.Listener) {
		var l listenerv3.Listener
		if err := proto.Unmarshal(r.Body, &l); err != nil {
			z.t.Fatal(err)
		}
		for _, c := range l.GetFilterChains() {
			if c.GetTransportSocket() == nil && c.GetName() != c.GetFilterChainMatch().GetServerNames()[0] {
				out = append(out, c.GetFilterChainMatch().GetServerNames()...)
			}
		}
	}
	return out
}

// Same demands server names.
func (z *Zone) Same(what string, want ...string) {
	z.t.Helper()
	if got := z.Names(); !slices.Equal(got, want) {
		z.t.Errorf("%s: server names are\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Secured is a mesh with mutual TLS.
func Secured() *mesh.Mesh {
	return &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}}
}

// Dataplane has one inbound.
func Dataplane(address string, tags mesh.Tags) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Inbound: []mesh.Inbound{{Port: 8080, Tags: tags}}}}
}

// Crowd has very many inbounds, each of a service of its own.
func Crowd(prefix string, n int) *mesh.Dataplane {
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1"}}
	for i := range n {
		tags := mesh.Tags{mesh.TagService: fmt.Sprintf("%s-%04d", prefix, i), "a": fmt.Sprint(i), "b": "b", "c": "c"}
		d.Networking.Inbound = append(d.Networking.Inbound, mesh.Inbound{Port: uint32(i + 1), Tags: tags})
	}
	return d
}

// Ingress is an ingress of the zone.
func Ingress() *mesh.ZoneIngress {
	return &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.1", Port: 10001}}
}

// FailuresOf are the texts of the failures of a cell.
func (z *Zone) FailuresOf(cell string) (out []string) {
	for _, f := range z.Planner.Failures() {
		if f.Cell == cell {
			out = append(out, f.Err.Error())
		}
	}
	return out
}

// Golden compares the set of a proxy with a file, and has both versions of Envoy accept it.
func (z *Zone) Golden(file string) {
	z.t.Helper()
	text, err := yaml.Marshal(plantest.Tree(z.t, z.Set()))
	if err != nil {
		z.t.Fatal(err)
	}
	golden.Compare(z.t, file, text)
	if text, err = protojson.Marshal(static(z.t, z.Set())); err != nil {
		z.t.Fatal(err)
	}
	plantest.Validate(z.t, text)
}

// Bounded demands that nothing holds more for a connection than for one of a stranger.
func (z *Zone) Bounded() {
	z.t.Helper()
	b := static(z.t, z.Set()).GetStaticResources()
	if len(b.GetListeners()) == 0 || len(b.GetClusters()) == 0 {
		z.t.Error("there is nothing that connections come to, or lead to")
	}
	for _, l := range b.GetListeners() {
		if n := l.GetPerConnectionBufferLimitBytes().GetValue(); n != plan.ConnectionBuffer {
			z.t.Errorf("the listener %s holds %d bytes for a connection", l.GetName(), n)
		}
	}
	for _, c := range b.GetClusters() {
		if n := c.GetPerConnectionBufferLimitBytes().GetValue(); n != plan.ConnectionBuffer {
			z.t.Errorf("the cluster %s holds %d bytes for a connection", c.GetName(), n)
		}
	}
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
	for _, r := range set.All(resource.Secret) {
		x := new(tlsv3.Secret)
		load(r, x)
		b.StaticResources.Secrets = append(b.StaticResources.Secrets, x)
	}
	return b
}

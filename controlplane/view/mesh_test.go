package view_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

// permission is a policy with sources, trace one without.
type permission struct {
	mesh.Connection
	N int
}

type trace struct{ Selectors []mesh.Selector }

func (t *trace) SelectedSources() []map[string]string { return nil }

func (t *trace) SelectedDestinations() []map[string]string {
	return (&mesh.Connection{Destinations: t.Selectors}).SelectedDestinations()
}

var (
	permissions = &model.Kind{Name: "permission", Path: "permissions", Scoping: model.Mesh, New: func() any { return new(permission) }}
	traces      = &model.Kind{Name: "trace", Path: "traces", Scoping: model.Mesh, New: func() any { return new(trace) }}
	policies    = []*model.Kind{permissions, traces}
)

// fabric is a store with the view of one mesh.
type fabric struct {
	ctx   context.Context
	store store.Store
	scope *view.Scope[*view.Mesh]
	wake  chan struct{}
	sub   *view.Subscription[*view.Mesh]
	close func()
}

// fataler is a testing.T, testing.B or rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func openMesh(t fataler, s store.Store) *fabric {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	views := view.New(s, policies, slog.New(slog.DiscardHandler))
	scope, err := views.Mesh(ctx, mesh.Default)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	wake := make(chan struct{}, 1)
	return &fabric{ctx, s, scope, wake, scope.Subscribe(wake), func() {
		cancel()
		views.Close()
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}}
}

// commit runs fn and returns the change that the mesh's subscriber gets.
func (f *fabric) commit(t fataler, fn func(store.Tx) error) view.Change[*view.Mesh] {
	t.Helper()
	done, err := f.store.Update(f.ctx, model.Config, fn)
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	var merged view.Change[*view.Mesh]
	for {
		c := f.sub.Take()
		merged.State, merged.Keys, merged.All = c.State, append(merged.Keys, c.Keys...), merged.All || c.All
		if c.State.Revision() >= done.Revision {
			return merged
		}
		select {
		case <-f.wake:
		case <-f.ctx.Done():
			t.Fatalf("revision %d did not arrive", done.Revision)
		}
	}
}

// loaded returns the mesh as a plain load shows it.
func (f *fabric) loaded(t fataler) *view.Mesh {
	t.Helper()
	var m *view.Mesh
	err := f.store.View(f.ctx, func(r store.Reader) (err error) {
		m, err = view.LoadMesh(mesh.Default, policies, r)
		return err
	})
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return m
}

func set(k *model.Kind, scope, name string, spec any) func(store.Tx) error {
	return func(tx store.Tx) error {
		r := &model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}
		if _, err := tx.Get(k, scope, name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	}
}

func unset(k *model.Kind, scope, name string) func(store.Tx) error {
	return func(tx store.Tx) error { return tx.Delete(k, scope, name, 0) }
}

func inbound(service string, port uint32) mesh.Inbound {
	return mesh.Inbound{Port: port, Tags: mesh.Tags{mesh.TagService: service}}
}

func dataplane(address string, in ...mesh.Inbound) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: address, Inbound: in}}
}

func selects(services ...string) []mesh.Selector {
	var out []mesh.Selector
	for _, s := range services {
		out = append(out, mesh.Selector{Match: mesh.Tags{mesh.TagService: s}})
	}
	return out
}

// content is everything that the getters of a mesh return.
type content struct {
	Name       string
	Revision   uint64
	Spec       *view.Entry[mesh.Mesh]
	Trust      *view.Entry[mesh.Trust]
	Dataplanes []*view.Dataplane
	Services   []*view.MeshService
	Policies   map[string][]*view.Policy
	Candidates map[string][]string
	Egresses   string
}

// services lists the services of the tests. Nobody serves the last one.
var services = []string{"a", "b", "c", "nobody"}

func contentOf(m *view.Mesh) content {
	out := content{
		Name: m.Name(), Revision: m.Revision(), Spec: m.Spec(), Trust: m.Trust(),
		Policies: map[string][]*view.Policy{}, Candidates: map[string][]string{}, Egresses: fmt.Sprint(m.Egresses()),
	}
	out.Dataplanes = slices.SortedFunc(m.Dataplanes(), func(a, b *view.Dataplane) int { return cmp.Compare(a.ID, b.ID) })
	out.Services = slices.SortedFunc(m.Services(), func(a, b *view.MeshService) int { return cmp.Compare(a.Name, b.Name) })
	for _, k := range policies {
		out.Policies[k.Name] = slices.Collect(m.Policies(k))
		for _, s := range services {
			for p := range m.Candidates(k, s) {
				out.Candidates[k.Name+" "+s] = append(out.Candidates[k.Name+" "+s], p.Name)
			}
		}
	}
	return out
}

func diff(want, got any) string {
	return gocmp.Diff(want, got, cmpopts.EquateEmpty(), gocmp.Comparer(func(a, b *model.Kind) bool { return a == b }))
}

// TestEndpoints checks the rules for endpoints and their addresses.
func TestEndpoints(t *testing.T) {
	at := func(address string, port uint32, tags mesh.Tags) view.Endpoint {
		return view.Endpoint{Address: address, Port: port, Tags: tags, Dataplane: "d", Ready: true}
	}
	unready := func(e view.Endpoint) []view.Endpoint {
		e.Ready = false
		return []view.Endpoint{e}
	}
	tags := mesh.Tags{mesh.TagService: "a"}
	for _, tc := range []struct {
		name string
		spec *mesh.Dataplane
		want []*view.MeshService
	}{
		{"networking.address", dataplane("10.0.0.1", inbound("a", 80)), []*view.MeshService{{Name: "a", Endpoints: []view.Endpoint{at("10.0.0.1", 80, tags)}}}},
		{"inbound address", dataplane("10.0.0.1", mesh.Inbound{Port: 80, Address: "10.0.0.2", ServicePort: 81, Tags: tags}), []*view.MeshService{{Name: "a", Endpoints: []view.Endpoint{at("10.0.0.2", 80, tags)}}}},
		{"advertised address", &mesh.Dataplane{Networking: &mesh.Networking{
			Address: "10.0.0.1", AdvertisedAddress: "proxy.example", Inbound: []mesh.Inbound{{Port: 80, Address: "10.0.0.2", Tags: tags}},
		}}, []*view.MeshService{{Name: "a", Named: true, Endpoints: []view.Endpoint{at("proxy.example", 80, tags)}}}},
		{"sorted", dataplane("10.0.0.1", inbound("a", 90), inbound("a", 80)), []*view.MeshService{
			{Name: "a", Endpoints: []view.Endpoint{at("10.0.0.1", 80, tags), at("10.0.0.1", 90, tags)}},
		}},
		{"Ready", dataplane("10.0.0.1", mesh.Inbound{Port: 80, State: mesh.StateReady, Health: &mesh.Health{Ready: true}, Tags: tags}), []*view.MeshService{
			{Name: "a", Endpoints: []view.Endpoint{at("10.0.0.1", 80, tags)}},
		}},
		{"NotReady", dataplane("10.0.0.1", mesh.Inbound{Port: 80, State: mesh.StateNotReady, Tags: tags}), []*view.MeshService{{Name: "a", Endpoints: unready(at("10.0.0.1", 80, tags))}}},
		{"Ignored", dataplane("10.0.0.1", mesh.Inbound{Port: 80, State: mesh.StateIgnored, Tags: tags}), []*view.MeshService{{Name: "a"}}},
		{"health", dataplane("10.0.0.1", mesh.Inbound{Port: 80, Health: &mesh.Health{}, Tags: tags}), []*view.MeshService{{Name: "a", Endpoints: unready(at("10.0.0.1", 80, tags))}}},
		{"no service tag", dataplane("10.0.0.1", mesh.Inbound{Port: 80, Tags: mesh.Tags{"team": "x"}}), nil},
		{"no networking", &mesh.Dataplane{}, nil},
		{"gateway", &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Gateway: &mesh.Gateway{Tags: tags}}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := openMesh(t, memstore.New())
			defer f.close()
			c := f.commit(t, set(mesh.Dataplanes, mesh.Default, "d", tc.spec))
			if d := diff(tc.want, contentOf(c.State).Services); d != "" {
				t.Errorf("services (-want +got):\n%s", d)
			}
			c = f.commit(t, unset(mesh.Dataplanes, mesh.Default, "d"))
			if d := diff([]*view.MeshService(nil), contentOf(c.State).Services); d != "" {
				t.Errorf("after the deletion (-want +got):\n%s", d)
			}
		})
	}
}

// TestEndpointKinds distinguishes addresses from names.
func TestEndpointKinds(t *testing.T) {
	for address, want := range map[string]bool{"10.0.0.1": true, "fd00::1": true, "proxy.example": false} {
		if e := (view.Endpoint{Address: address}); e.IsIP() != want {
			t.Errorf("%s: an IP address is %v", address, e.IsIP())
		}
	}
}

// reads counts the views of a store.
type reads struct {
	store.Store
	n atomic.Int64
}

func (r *reads) View(ctx context.Context, fn func(store.Reader) error) error {
	r.n.Add(1)
	return r.Store.View(ctx, fn)
}

// TestMeshFilter: changes of resources outside of the view only advance its revision, even if
// they belong to a control plane with the mesh's name.
func TestMeshFilter(t *testing.T) {
	counted := &reads{Store: memstore.New()}
	f := openMesh(t, counted)
	defer f.close()
	before := f.commit(t, func(tx store.Tx) error {
		for i, fn := range []func(store.Tx) error{
			set(mesh.Meshes, "", mesh.Default, &mesh.Mesh{}),
			set(mesh.Trusts, mesh.Default, mesh.Default, &mesh.Trust{Backend: "ca"}),
			set(mesh.Dataplanes, mesh.Default, "d", dataplane("10.0.0.1", inbound("a", 80))),
			set(traces, mesh.Default, "t", &trace{}),
		} {
			if err := fn(tx); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
		return nil
	}).State
	for name, fn := range map[string]func(store.Tx) error{
		"secret elsewhere":      set(mesh.Secrets, "other", "s", &mesh.Secret{}),
		"gateway service":       set(gateway.Services, mesh.Default, alice, service()),
		"another mesh":          set(mesh.Meshes, "", "other", &mesh.Mesh{}),
		"dataplane elsewhere":   set(mesh.Dataplanes, "other", "d", dataplane("10.0.0.9", inbound("a", 80))),
		"policy elsewhere":      set(traces, "other", "t", &trace{}),
		"trust elsewhere":       set(mesh.Trusts, "other", "other", &mesh.Trust{}),
		"trust of another name": set(mesh.Trusts, mesh.Default, "other", &mesh.Trust{}),
	} {
		reads := counted.n.Load()
		c := f.commit(t, fn)
		if n := counted.n.Load() - reads; n > 0 {
			t.Errorf("%s: the store was read %d times", name, n)
		}
		if len(c.Keys) > 0 || c.All {
			t.Errorf("%s: told of %v", name, c.Keys)
		}
		if c.State.Service("a") != before.Service("a") || c.State.Spec() != before.Spec() || c.State.Trust() != before.Trust() {
			t.Errorf("%s: the content is another", name)
		}
	}
	c := f.commit(t, set(traces, mesh.Default, "t", &trace{Selectors: selects("a")}))
	want := []model.Key{{Kind: traces.Name, Scope: mesh.Default, Name: "t"}}
	if d := gocmp.Diff(want, c.Keys); d != "" {
		t.Errorf("keys of a policy (-want +got):\n%s", d)
	}
	if c.State.Service("a") != before.Service("a") {
		t.Error("a policy changed a service")
	}
}

// TestNoPolicy: a kind that was registered as a policy and selects nothing is refused, not
// left out.
func TestNoPolicy(t *testing.T) {
	s := memstore.New()
	update(t, s, set(mesh.Secrets, mesh.Default, "s", &mesh.Secret{}))
	err := s.View(t.Context(), func(r store.Reader) error {
		_, err := view.LoadMesh(mesh.Default, []*model.Kind{mesh.Secrets}, r)
		return err
	})
	if err == nil {
		t.Error("a secret passes as a policy")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

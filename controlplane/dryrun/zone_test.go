package dryrun_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/policy/timeout"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
)

func ingress(port uint32) *mesh.ZoneIngress {
	return &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "10.9.0.1", Port: port}}
}

func egress(address string) *mesh.ZoneEgress {
	return &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: address, Port: 10002}}
}

// theirs is the ingress of another zone.
func theirs(service string) *mesh.ZoneIngress {
	return &mesh.ZoneIngress{
		Zone: "east", Networking: &mesh.ZoneIngressNetworking{Address: "10.8.0.1", Port: 1, AdvertisedAddress: "10.8.0.1", AdvertisedPort: 1},
		AvailableServices: []mesh.AvailableService{{Mesh: meshName, Instances: 1, Tags: mesh.Tags{mesh.TagService: service}}},
	}
}

func external(service string) *mesh.ExternalService {
	return &mesh.ExternalService{Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: "http"}, Networking: &mesh.ExternalNetworking{Address: service + ".example:80"}}
}

func secured(egress bool) *mesh.Mesh {
	return &mesh.Mesh{
		MTLS:    &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}},
		Routing: &mesh.Routing{ZoneEgress: egress},
	}
}

func serving(service string) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.2.0.1", Inbound: []mesh.Inbound{{Port: 8080, Tags: mesh.Tags{mesh.TagService: service}}}}}
}

func without(k *model.Kind, name string) func(store.Tx) error {
	return func(tx store.Tx) error {
		scope := meshName
		if k.Scoping == model.Global {
			scope = ""
		}
		return tx.Delete(k, scope, name, 0)
	}
}

// newZone is a world whose mesh has mutual TLS and is left through an egress, with an ingress and an
// egress that are connected.
func newZone(t *testing.T, proxies int) *world {
	t.Helper()
	w := newWorld(t, proxies, max(1, proxies))
	roots, err := os.ReadFile("../mesh/testdata/external-ca.pem")
	w.must(err)
	w.must(w.write(w.ctx, func(tx store.Tx) error {
		for _, fn := range []func(store.Tx) error{
			put(mesh.Meshes, meshName, secured(true)),
			put(mesh.Trusts, meshName, &mesh.Trust{Backend: "ca", Issuer: "first", Roots: roots}),
			put(mesh.Dataplanes, "web-1", serving("web")),
			put(mesh.ZoneIngresses, "west.in", ingress(10001)), put(mesh.ZoneEgresses, "west.out", egress("10.9.0.2")),
		} {
			if err := fn(tx); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, node := range []string{"zone/ingress/west.in", "zone/egress/west.out"} {
		w.Connect(t, node)
	}
	w.Settle(t)
	return w
}

// told is an answer in short, with the differences of what is changed.
func told(a *dryrun.Answer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d compared, %d changed\n", a.Verdict, a.Nodes.Compared, a.Nodes.Changed)
	for _, c := range a.Changes {
		fmt.Fprintf(&b, "%s %v\n", c.Kind, c.Nodes)
		for _, r := range c.Resources {
			fmt.Fprintf(&b, "  %s %s %s\n", r.Change, r.Type[strings.LastIndexAny(r.Type, "./")+1:], r.Name)
			for _, e := range r.Diff {
				if r.Change == "changed" {
					fmt.Fprintf(&b, "    %s %s %.80s\n", e.Op, e.Path, e.Value)
				}
			}
		}
	}
	for _, p := range a.Problems {
		fmt.Fprintf(&b, "problem of %d, kept %t, already %t: %s: %s\n", p.Nodes, p.Kept, p.Already, p.Resource, p.Error)
	}
	for _, f := range a.Follows {
		fmt.Fprintf(&b, "then %s\n", f)
	}
	return b.String()
}

// TestProxiesOfTheZone is a conversation: what writes would do, and which of them are then made.
func TestProxiesOfTheZone(t *testing.T) {
	w, out := newZone(t, 0), bytes.Buffer{}
	for _, step := range []struct {
		what string
		fn   func(store.Tx) error
		make bool
	}{
		{"another service", put(mesh.Dataplanes, "db-1", serving("db")), true},
		{"a service in another zone", put(mesh.ZoneIngresses, "theirs", theirs("far")), true},
		{"that zone is switched off", put(mesh.Zones, "east", &mesh.Zone{Enabled: new(bool)}), false},
		{"a service outside the mesh", put(mesh.ExternalServices, "mail", external("mail")), true},
		{"who may call it", put(trafficpermission.Kind, "allow-all-m", &trafficpermission.Spec{Connection: mesh.Connection{
			Sources:      []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "web"}}},
			Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "mail"}}},
		}}), false},
		{"a policy for callers only", put(timeout.Kind, "slow", &timeout.Spec{}), false},
		{"where no egress can listen", put(mesh.ZoneEgresses, "west.out", egress("out.example")), true},
		{"and it does not get what comes after that, as before", put(mesh.Dataplanes, "db-1", serving("cache")), false},
		{"the mesh is no longer left through egresses", put(mesh.Meshes, meshName, secured(false)), false},
		{"the ingress is deleted", without(mesh.ZoneIngresses, "west.in"), false},
	} {
		a := w.try(step.fn)
		fmt.Fprintf(&out, "# %s\n%s\n", step.what, told(a))
		before := w.sets()
		if !step.make {
			continue
		}
		w.must(w.write(w.ctx, step.fn))
		w.Settle(t)
		for node, now := range w.sets() {
			if now.Equal(before[node]) == slices.Contains(changed(a), node) {
				t.Errorf("%s: %s has changed: %t", step.what, node, !now.Equal(before[node]))
			}
		}
		for _, c := range a.Changes {
			w.arrived(t, c)
		}
	}
	golden.Compare(t, "testdata/zone.txt", out.Bytes())
}

// TestProxiesOfTheZoneAreComparedFirst: there are few of them. If there are too many, whoever is
// written is compared, and one of each type.
func TestProxiesOfTheZoneAreComparedFirst(t *testing.T) {
	w := newZone(t, 3)
	w.must(w.write(w.ctx, func(tx store.Tx) error {
		for _, name := range []string{"a", "b"} {
			if err := put(mesh.ZoneIngresses, name, ingress(10003))(tx); err != nil {
				return err
			}
		}
		return nil
	}))
	for _, name := range []string{"a", "b"} {
		w.Connect(t, mesh.ZoneNodeID(mesh.ProxyIngress, name))
	}
	w.Settle(t)
	both := func(tx store.Tx) error {
		if err := put(mesh.ZoneIngresses, "b", ingress(10004))(tx); err != nil {
			return err
		}
		return put(mesh.Dataplanes, "db-1", serving("db"))(tx)
	}
	for limit, want := range map[int][]string{
		1: {"zone/ingress/b"},
		2: {"zone/egress/west.out", "zone/ingress/b"},
		3: {"zone/egress/west.out", "zone/ingress/a", "zone/ingress/b"},
	} {
		w.MaxNodes = limit
		a := w.try(both)
		want = slices.DeleteFunc(want, func(node string) bool { return node == "zone/egress/west.out" }) // nothing becomes of it
		if got := changed(a); !slices.Equal(got, want) || a.Nodes.Compared != limit || a.Nodes.Omitted != 7-limit {
			t.Errorf("of %d: %v, %+v", limit, got, a.Nodes)
		}
	}
}

// TestZonesThatAreLate: where the view of the zone shows an older state than the transaction has, its
// state is read in the transaction in the end.
func TestZonesThatAreLate(t *testing.T) {
	w := newZone(t, 0)
	calls := 0
	a, err := w.Run(w.ctx, func(ctx context.Context) error {
		calls++
		w.db.Lock() // nobody sees the write of somebody else before this one is undone
		defer w.db.Unlock()
		d := serving("web")
		d.Networking.Inbound[0].Port = uint32(9000 + calls)
		if err := w.write(w.ctx, put(mesh.Dataplanes, "web-1", d)); err != nil {
			return err
		}
		return w.write(ctx, put(mesh.Dataplanes, "db-1", serving("db")))
	})
	w.must(err)
	if w.db.read != 1 {
		t.Errorf("the dataplanes were read %d times while the store was locked", w.db.read)
	}
	if calls != 4 || !slices.Equal(changed(a), []string{"zone/ingress/west.in"}) || a.Revision != w.db.Revision() {
		t.Errorf("after %d attempts: %+v, %d", calls, a, w.db.Revision())
	}
	for _, r := range a.Changes[0].Resources {
		if r.Name == "m:web" {
			t.Errorf("the write of somebody else is shown, too: %+v", r)
		}
	}
}

// TestWhoIsShownProxiesOfTheZone: they belong to no mesh, so only those are shown what becomes of them
// who administrate everything.
func TestWhoIsShownProxiesOfTheZone(t *testing.T) {
	w := newZone(t, 0)
	w.Rules = access.New(access.Options{Roles: []access.Role{
		{Role: "admin", Meshes: []string{meshName}, Users: []string{"ada"}},
		{Role: "admin", Meshes: []string{meshName, "zone/ingress/west"}, Users: []string{"zoe"}},
		{Role: "admin", All: true, Users: []string{"paul"}},
	}})
	w.must(w.write(w.ctx, put(mesh.Meshes, meshName, secured(false)))) // so that no policy of it matters to the zone
	w.Settle(t)
	concerns, not := put(mesh.Dataplanes, "db-1", serving("db")), put(timeout.Kind, "slow", &timeout.Spec{})
	for user, want := range map[string]bool{"ada": false, "zoe": false, "paul": true} {
		w.ctx = model.WithActor(t.Context(), model.User(user))
		a := w.try(concerns)
		if shown := a.Withheld == "" && len(a.Writes) > 0 && len(a.Changes) > 0; shown != want || !shown && len(a.Writes)+len(a.Changes)+len(a.Problems)+len(a.Follows) > 0 {
			t.Errorf("%s: %+v", user, a)
		}
		if a.Nodes != (dryrun.Counts{Compared: 2, Changed: 1}) {
			t.Errorf("%s hears of %+v", user, a.Nodes)
		}
		if a := w.try(not); a.Withheld != "" || a.Nodes.Compared != 0 {
			t.Errorf("what does not concern them: %s: %+v", user, a)
		}
	}
}

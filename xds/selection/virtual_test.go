package selection_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/selection"
)

const demo = "demo"

var ctx = context.Background()

// meshOf reads a mesh with some resources.
func meshOf(t interface{ Fatal(...any) }, resources ...*model.Resource) *view.Mesh {
	return meshWith(t, nil, resources...)
}

// meshWith is meshOf with more kinds.
func meshWith(t interface{ Fatal(...any) }, kinds []*model.Kind, resources ...*model.Resource) (m *view.Mesh) {
	db := memstore.New()
	defer func() { _ = db.Close() }()
	_, err := db.Update(ctx, model.Config, func(tx store.Tx) error {
		for _, r := range resources {
			if r.Kind.Scoping != model.Global {
				r.Scope = demo
			}
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = db.View(ctx, func(r store.Reader) (err error) {
			m, err = view.LoadMesh(demo, kinds, r)
			return err
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func serving(name string, tags ...mesh.Tags) *model.Resource {
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1"}}
	for i, t := range tags {
		d.Networking.Inbound = append(d.Networking.Inbound, mesh.Inbound{Port: uint32(8000 + i), Tags: t})
	}
	return &model.Resource{Kind: mesh.Dataplanes, Name: name, Spec: d}
}

func naming(name, host, port string, selector mesh.Tags, parameters ...string) *model.Resource {
	v := &mesh.VirtualOutbound{Selectors: []mesh.Selector{{Match: selector}}, Conf: &mesh.VirtualOutboundConf{
		Host: host, Port: port, Parameters: []mesh.NameParameter{{Name: "service", TagKey: mesh.TagService}},
	}}
	for _, p := range parameters {
		v.Conf.Parameters = append(v.Conf.Parameters, mesh.NameParameter{Name: p})
	}
	return &model.Resource{Kind: mesh.VirtualOutbounds, Name: name, Spec: v}
}

func addressed(host, address string) *model.Resource {
	return &model.Resource{Kind: mesh.Addresses, Name: host, Spec: &mesh.Address{Address: address}}
}

// addressBefore is how addresses of services were made when none was stored.
func addressBefore(services []string) map[string]string {
	slices.Sort(services)
	taken, out := map[netip.Addr]bool{}, map[string]string{}
	for _, s := range services {
		h := fnv.New32a()
		_, _ = h.Write([]byte(s))
		n := h.Sum32()
		n ^= n >> 15
		n *= 0x2c1b3c6d
		n ^= n >> 12
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], 240<<24|n&0x0fffffff)
		a := netip.AddrFrom4(b)
		for taken[a] {
			a = a.Next()
		}
		taken[a] = true
		out[s] = a.String()
	}
	return out
}

// TestNothingMovesWithoutStoredAddresses: services of a mesh whose control plane has stored no
// address yet have those that they had when none was stored.
func TestNothingMovesWithoutStoredAddresses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		services := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c][-a-c._]{0,3}[a-c]`), 1, 8, rapid.ID[string]).Draw(rt, "services")
		var all []*model.Resource
		for _, s := range services {
			all = append(all, serving("d-"+s, mesh.Tags{mesh.TagService: s}))
		}
		got := map[string]string{}
		for _, o := range selection.Virtual(meshOf(rt, all...), nil) {
			got[o.Tags.Service()] = o.Address
			if o.Port != 80 {
				rt.Fatalf("%s is at port %d", o.Tags.Service(), o.Port)
			}
		}
		if diff := cmp.Diff(addressBefore(services), got); diff != "" {
			rt.Fatalf("addresses (-before +now):\n%s", diff)
		}
	})
}

func list(out []selection.Outbound) (texts []string) {
	for _, o := range out {
		texts = append(texts, o.Name()+" "+o.Tags.String())
	}
	return texts
}

// TestNamesOfAMesh: services have names of their own, inbounds those of VirtualOutbounds. A host
// name has one address, whatever its ports. Nothing without a stored address is there.
func TestNamesOfAMesh(t *testing.T) {
	m := meshOf(t,
		serving("b", mesh.Tags{mesh.TagService: "back_end", "version": "v1", "port": "8080"}, mesh.Tags{mesh.TagService: "back_end", "version": "v2", "port": "8080"}),
		serving("w", mesh.Tags{mesh.TagService: "web"}),
		naming("a", "{{.version}}.{{.service}}.shop", "{{.port}}", mesh.Tags{"version": "*"}, "version", "port"),
		naming("b", "{{.service}}.mesh", "81", mesh.Tags{mesh.TagService: "back_end"}),
		addressed("back_end.mesh", "240.0.0.1"), addressed("v1.back_end.shop", "240.0.0.2"), addressed("v2.back_end.shop", "240.0.0.3"),
	)
	out, hosts, left := selection.VirtualNamed(m, nil)
	if diff := cmp.Diff([]string{
		"240.0.0.1:80 mesh.io/service=back_end", "240.0.0.1:81 mesh.io/service=back_end",
		"240.0.0.2:8080 mesh.io/service=back_end,port=8080,version=v1", "240.0.0.3:8080 mesh.io/service=back_end,port=8080,version=v2",
	}, list(out)); diff != "" {
		t.Errorf("outbounds (-want +got):\n%s", diff)
	}
	known := map[string]string{}
	for host, a := range hosts {
		known[host] = a.String()
	}
	if diff := cmp.Diff(map[string]string{
		"back_end.mesh": "240.0.0.1", "back.end.mesh": "240.0.0.1", "v1.back_end.shop": "240.0.0.2", "v2.back_end.shop": "240.0.0.3",
	}, known); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if len(left) > 0 {
		t.Errorf("left out: %v", left)
	}
	if out, hosts, _ := selection.VirtualNamed(m, []string{"web"}); len(out)+len(hosts) > 0 {
		t.Errorf("who reaches web alone has %v %v", list(out), hosts)
	}
}

// TestCollisions: of two that give one name, the first VirtualOutbound wins, and services win
// against all.
func TestCollisions(t *testing.T) {
	rule := func(name, service string) *model.Resource {
		return naming(name, "shop.example", "80", mesh.Tags{mesh.TagService: service})
	}
	resources := func(rules ...*model.Resource) []*model.Resource {
		return append(rules,
			serving("a", mesh.Tags{mesh.TagService: "a"}), serving("b", mesh.Tags{mesh.TagService: "b"}),
			addressed("a.mesh", "240.0.0.1"), addressed("b.mesh", "240.0.0.2"), addressed("shop.example", "240.0.0.3"))
	}
	for name, c := range map[string]struct {
		rules []*model.Resource
		want  string
		left  []string
	}{
		"the first":          {[]*model.Resource{rule("x", "b"), rule("y", "a")}, "b", []string{`VirtualOutbound "y" also gives the name shop.example:80 to mesh.io/service=a; there the name leads to mesh.io/service=b`}},
		"the first, renamed": {[]*model.Resource{rule("z", "b"), rule("y", "a")}, "a", []string{`VirtualOutbound "z" also gives the name shop.example:80 to mesh.io/service=b; there the name leads to mesh.io/service=a`}},
		"alike":              {[]*model.Resource{rule("x", "b"), rule("y", "b")}, "b", nil},
		"a service": {[]*model.Resource{naming("x", "a.mesh", "80", mesh.Tags{mesh.TagService: "b"})}, "",
			[]string{`VirtualOutbound "x" also gives the name a.mesh:80 to mesh.io/service=b; there the name leads to mesh.io/service=a`}},
	} {
		out, _, left := selection.VirtualNamed(meshOf(t, resources(c.rules...)...), nil)
		got := map[string]string{}
		for _, o := range out {
			got[o.Name()] = o.Tags.Service()
		}
		want := map[string]string{"240.0.0.1:80": "a", "240.0.0.2:80": "b"}
		if c.want != "" {
			want["240.0.0.3:80"] = c.want
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: outbounds (-want +got):\n%s", name, diff)
		}
		var texts []string
		for i := range left {
			texts = append(texts, left[i].Error())
		}
		if diff := cmp.Diff(c.left, texts); diff != "" {
			t.Errorf("%s: left out (-want +got):\n%s", name, diff)
		}
	}
}

// TestServicesKeepTheirNames: whatever resolvers take for the name of a service means that service.
// Neither another service nor a VirtualOutbound takes it by another case or by dots; what a
// VirtualOutbound gives such a name at another port is at the address of the service.
func TestServicesKeepTheirNames(t *testing.T) {
	for name, c := range map[string]struct {
		services []string
		rule     *model.Resource
		want     map[string]string // by what resolvers look up
		extra    []string          // outbounds that are not those of the services
	}{
		"case of another service":  {[]string{"Backend", "backend"}, nil, map[string]string{"backend.mesh": "backend"}, nil},
		"dots of another service":  {[]string{"a_b", "a.b"}, nil, map[string]string{"a.b.mesh": "a.b", "a_b.mesh": "a_b"}, nil},
		"another port, by case":    {[]string{"Web", "x"}, naming("v", "web.mesh", "81", mesh.Tags{mesh.TagService: "x"}), map[string]string{"web.mesh": "Web", "x.mesh": "x"}, []string{"Web.mesh:81 x"}},
		"another port, by dots":    {[]string{"a_b", "x"}, naming("v", "a.b.mesh", "81", mesh.Tags{mesh.TagService: "x"}), map[string]string{"a.b.mesh": "a_b", "a_b.mesh": "a_b", "x.mesh": "x"}, []string{"a_b.mesh:81 x"}},
		"the same port, by case":   {[]string{"Web", "x"}, naming("v", "web.mesh", "80", mesh.Tags{mesh.TagService: "x"}), map[string]string{"web.mesh": "Web", "x.mesh": "x"}, nil},
		"the same port, by dots":   {[]string{"a_b", "x"}, naming("v", "a.b.mesh", "80", mesh.Tags{mesh.TagService: "x"}), map[string]string{"a.b.mesh": "a_b", "a_b.mesh": "a_b", "x.mesh": "x"}, nil},
		"names of the own machine": {[]string{"x"}, naming("v", "api.localhost", "80", mesh.Tags{mesh.TagService: "x"}), map[string]string{"x.mesh": "x"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var all []*model.Resource
			if c.rule != nil {
				all = append(all, c.rule)
			}
			for i, s := range c.services {
				all = append(all, serving(fmt.Sprint("d", i), mesh.Tags{mesh.TagService: s}))
			}
			m := meshOf(t, all...)
			out, hosts, _ := selection.VirtualNamed(m, nil)
			at := map[string]string{}
			for _, o := range out {
				if o.Port == mesh.ServicePort {
					at[o.Address] = o.Tags.Service()
				}
			}
			got := map[string]string{}
			for host, a := range hosts {
				got[host] = at[a.String()]
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			var extra []string
			names := selection.NamesOf(m)
			for _, n := range names.Known {
				if n.Host != mesh.ServiceHost(n.Tags.Service()) {
					extra = append(extra, fmt.Sprintf("%s:%d %s", n.Host, n.Port, n.Tags.Service()))
				}
			}
			if diff := cmp.Diff(c.extra, extra); diff != "" {
				t.Errorf("further names (-want +got):\n%s", diff)
			}
		})
	}
}

// host is a sample of resources that bring host names with them.
type host struct{ Name string }

// Locates implements view.Locating.
func (h *host) Locates() []view.Endpoint {
	return []view.Endpoint{{Address: h.Name, Port: 443, Tags: mesh.Tags{mesh.TagService: "beyond", "version": "v9"}, Ready: true}}
}

// Hosts implements view.Hosting.
func (h *host) Hosts() []mesh.Name {
	return []mesh.Name{{Host: h.Name, Port: 443, Tags: mesh.Tags{mesh.TagService: "beyond"}}}
}

var hostKind = &model.Kind{Name: "host", Path: "hosts", Scoping: model.Mesh, Class: model.Config, New: func() any { return new(host) }}

// TestNamesBeyondTheMesh: what lies beyond the mesh has the name of its service and its own host
// names, and VirtualOutbounds name it, too.
func TestNamesBeyondTheMesh(t *testing.T) {
	m := meshWith(t, []*model.Kind{hostKind}, &model.Resource{Kind: hostKind, Name: "b", Spec: &host{"api.example"}},
		naming("x", "{{.service}}.shop", "80", mesh.Tags{"version": "v9"}))
	var got []string
	for _, n := range selection.NamesOf(m).Known {
		got = append(got, fmt.Sprintf("%s:%d %s", n.Host, n.Port, n.Tags))
	}
	if diff := cmp.Diff([]string{"api.example:443 mesh.io/service=beyond", "beyond.mesh:80 mesh.io/service=beyond", "beyond.shop:80 mesh.io/service=beyond"}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if !m.Brings(hostKind, "b") || m.Brings(hostKind, "c") {
		t.Error("it is not known which resource brings host names")
	}
}

// TestNamesFollowChanges holds a followed view against one that is read from nothing, for random
// dataplanes and VirtualOutbounds that come, change and go.
func TestNamesFollowChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		db := memstore.New()
		defer func() { _ = db.Close() }()
		views := view.New(db, nil, slog.New(slog.DiscardHandler))
		defer views.Close()
		scope, err := views.Mesh(ctx, demo)
		if err != nil {
			rt.Fatal(err)
		}
		wake := make(chan struct{}, 1)
		sub := scope.Subscribe(wake)
		defer sub.Close()
		one := func(from ...string) string { return rapid.SampledFrom(from).Draw(rt, "one") }
		for range rapid.IntRange(1, 12).Draw(rt, "commits") {
			commit, err := db.Update(ctx, model.Config, func(tx store.Tx) error {
				for range rapid.IntRange(1, 3).Draw(rt, "writes") {
					var r *model.Resource
					switch one("dataplane", "rule", "address") {
					case "dataplane":
						r = serving(one("a", "b", "c"), mesh.Tags{mesh.TagService: one("x", "y"), "port": one("1", "2", "no")}, mesh.Tags{mesh.TagService: one("x", "y"), "port": "3"})
					case "rule":
						r = naming(one("r", "s"), one("{{.service}}.shop", "fixed.shop"), one("{{.port}}", "80"), mesh.Tags{mesh.TagService: one("x", "*")}, "port")
					default:
						r = addressed(one("x.mesh", "y.mesh"), "")
						r.Spec = &mesh.Address{Address: map[string]string{"x.mesh": "240.0.0.1", "y.mesh": "240.0.0.2"}[r.Name]}
					}
					if r.Kind.Scoping != model.Global {
						r.Scope = demo
					}
					_, err := tx.Get(r.Kind, demo, r.Name)
					switch {
					case err != nil:
						_, err = tx.Create(r)
					case rapid.Bool().Draw(rt, "delete"):
						err = tx.Delete(r.Kind, demo, r.Name, 0)
					default:
						_, err = tx.Update(r, 0)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				rt.Fatal(err)
			}
			m := sub.Take().State
			for m.Revision() < commit.Revision {
				<-wake
				m = sub.Take().State
			}
			var fresh *view.Mesh
			if err := db.View(ctx, func(r store.Reader) (err error) { fresh, err = view.LoadMesh(demo, nil, r); return err }); err != nil {
				rt.Fatal(err)
			}
			if diff := cmp.Diff(described(fresh), described(m)); diff != "" {
				rt.Fatalf("names (-from nothing +followed):\n%s", diff)
			}
		}
	})
}

func described(m *view.Mesh) (out []string) {
	for _, n := range m.VirtualNames() {
		out = append(out, fmt.Sprintf("%s: %s:%d %s", n.By, n.Host, n.Port, n.Tags))
	}
	o, hosts, left := selection.VirtualNamed(m, nil)
	return append(append(out, list(o)...), fmt.Sprint(hosts), fmt.Sprint(left))
}

// acrossAt is a gateway of a mesh with one host, at a port.
func acrossAt(of, service, host string, port uint32) *mesh.Crossing {
	c := &mesh.Crossing{Mesh: of, Roots: []byte("roots")}
	c.Add(service, &mesh.GatewayListener{Port: port, Hostname: host}, nil)
	return c
}

// TestNamesAcrossMeshes: a mesh has its own names first, at no port another mesh has them too, and of
// other meshes it has only those that these hold.
func TestNamesAcrossMeshes(t *testing.T) {
	taken := acrossAt("evil", "a", "door.example", 80)
	taken.Taken = []string{"door.example"}
	var own []*model.Resource
	for name, c := range map[string]*mesh.Crossing{
		demo: acrossAt(demo, "z", "own.example", 80), "other": acrossAt("other", "a", "own.example", 81), "third": acrossAt("third", "a", "web.shop", 81),
		"evil": taken, "office": acrossAt("office", "door", "door.example", 80),
	} {
		own = append(own, &model.Resource{Kind: mesh.Crossings, Name: name, Spec: c})
	}
	m := meshWith(t, []*model.Kind{mesh.Crossings}, append(own,
		&model.Resource{Kind: mesh.Meshes, Name: demo, Spec: &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}}}}},
		serving("web-1", mesh.Tags{mesh.TagService: "web"}), naming("x", "{{.service}}.shop", "80", nil))...)
	names := selection.NamesOf(m)
	var got, left []string
	for _, n := range names.Known {
		got = append(got, fmt.Sprintf("%s:%d %s", n.Host, n.Port, n.Tags.Service()))
	}
	for i := range names.Left {
		left = append(left, names.Left[i].Error())
	}
	if diff := cmp.Diff([]string{"door.example:80 door@@office", "web.mesh:80 web", "web.shop:80 web", "own.example:80 z@@" + demo}, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{
		`gateway "a" of mesh "other" also has the name own.example:81; here the name leads to @port=80,mesh.io/service=z@@` + demo,
		`gateway "a" of mesh "third" also has the name web.shop:81; here the name leads to mesh.io/service=web`,
	}, left); diff != "" {
		t.Errorf("names that are left out (-want +got):\n%s", diff)
	}
}

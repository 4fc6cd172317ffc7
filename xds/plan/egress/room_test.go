package egress_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan/passing/passingtest"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
)

// several is a zone with an egress and meshes that trust a root. In each of them but the first
// something outside is called.
func several(t *testing.T, names ...string) *passingtest.Zone {
	t.Helper()
	z := passingtest.New(t, fresh, kinds...)
	z.Put(mesh.ZoneEgresses, "", "out", own())
	for i, name := range names {
		z.Put(mesh.Meshes, "", name, through())
		trusting(t, z, name, "one")
		if i > 0 {
			z.Put(mesh.ExternalServices, name, "mail", external("mail.example:25", mesh.Tags{mesh.TagService: "mail", "v": "1"}, nil))
		}
	}
	return z
}

// manyTags has so many sets of tags that no service has more.
func manyTags(name, protocol string) mesh.Tags {
	return mesh.Tags{mesh.TagService: name, mesh.TagProtocol: protocol, "a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}
}

func bodies(z *passingtest.Zone) (sum int) {
	for _, u := range resource.Types {
		for r := range z.Set().Each(u) {
			sum += len(r.Body)
		}
	}
	return sum
}

// TestLargePermissions: what a mesh says about its callers takes no room of other meshes, whatever
// it calls outside, and of its own services most where there are many sets of tags.
func TestLargePermissions(t *testing.T) {
	var who []mesh.Selector
	for i := range 4000 {
		who = append(who, mesh.Selector{Match: mesh.Tags{mesh.TagService: fmt.Sprintf("client-%d", i)}})
	}
	for _, protocol := range []string{mesh.ProtocolTCP, mesh.ProtocolHTTP} {
		t.Run(protocol, func(t *testing.T) {
			z := several(t, "a-shop", "bank", "post")
			services := map[string]any{"files": external("files.example:443", service("files"), nil)}
			for i := range 70 {
				name := fmt.Sprintf("large-%02d", i)
				services[name] = external(name+".example:443", manyTags(name, protocol), nil)
			}
			z.Fill(mesh.ExternalServices, "a-shop", services)
			if names := z.Names(); len(names) < 1000 || len(z.Planner.Failures()) == 0 {
				t.Fatalf("%d chains, failures are %v", len(names), z.Planner.Failures())
			}
			to := []mesh.Selector{{Match: mesh.Tags{"a": "1"}}}
			z.Put(trafficpermission.Kind, "a-shop", "large", &trafficpermission.Spec{Connection: mesh.Connection{Sources: who, Destinations: to}})
			for _, name := range []string{"files{mesh=a-shop}", "large-00{mesh=a-shop}", "mail{mesh=bank,v=1}", "mail{mesh=bank}", "mail{mesh=post,v=1}", "mail{mesh=post}"} {
				if !slices.Contains(z.Names(), name) {
					t.Errorf("nobody reaches %s", name)
				}
			}
			if n := bodies(z); n > 9<<20 {
				t.Errorf("an egress has %d bytes", n)
			}
			of := z.FailuresOf("mesh a-shop")
			if len(of) != 1 || !strings.HasSuffix(of[0], " services outside the mesh need more than 8388608 bytes of configuration: callers cannot reach them") {
				t.Errorf("failures are %v", of)
			}
			of = z.FailuresOf("service a-shop:large-00")
			if !slices.ContainsFunc(of, func(s string) bool { return strings.Contains(s, "sets of tags need more than") }) {
				t.Errorf("failures are %v", of)
			}
			if of := z.FailuresOf("mesh bank"); len(of) > 0 {
				t.Errorf("failures are %v", of)
			}
		})
	}
}

// TestManyServicesOutside: the more meshes there are, the fewer services each may have, and what has
// no room is not called where somebody else says that it is.
func TestManyServicesOutside(t *testing.T) {
	z := several(t, "shop", "bank", "post", "news")
	services := map[string]any{}
	for i := range 1024 {
		name := fmt.Sprintf("s-%04d", i)
		services[name] = external(name+".example:25", service(name), nil)
	}
	services["z"] = external("z.example:25", service("z"), nil)
	z.Fill(mesh.ExternalServices, "shop", services)
	z.Put(mesh.ZoneIngresses, "", "east-in", ingressOf("east", "10.0.0.9", 1, service("z")))
	last := func(what string, want ...string) {
		t.Helper()
		names := z.Names()
		if got := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !strings.HasPrefix(n, "z{") }); !slices.Equal(got, want) {
			t.Errorf("%s: %v", what, got)
		}
		if !slices.Contains(names, "s-1023{mesh=shop}") || !slices.Contains(names, "mail{mesh=bank,v=1}") {
			t.Errorf("%s: not all are reached", what)
		}
	}
	last("of four meshes", "z{mesh=shop,mesh.io/zone=east}", "z{mesh=shop}")
	if fs := z.Planner.Failures(); len(fs) > 0 {
		t.Errorf("failures are %v", fs)
	}
	z.Put(mesh.Meshes, "", "work", through())
	last("of five meshes of which one calls nothing", "z{mesh=shop,mesh.io/zone=east}", "z{mesh=shop}")
	z.Put(mesh.ExternalServices, "work", "mail", external("mail.example:25", service("mail"), nil))
	last("of five meshes")
	if of := z.FailuresOf("mesh shop"); !slices.Equal(of, []string{"1 services outside the mesh are too many: callers cannot reach them"}) {
		t.Errorf("failures are %v", of)
	}
	z.Drop(mesh.Meshes, "", "work")
	last("of four meshes again", "z{mesh=shop,mesh.io/zone=east}", "z{mesh=shop}")
}

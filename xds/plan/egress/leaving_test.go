package egress_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/machine"
	"github.com/meshgate/meshgate/xds/plan/passing/passingtest"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
)

func roots(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../controlplane/mesh/testdata/external-ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// trusting has a mesh trust a root.
func trusting(t *testing.T, z *passingtest.Zone, meshName, issuer string) {
	t.Helper()
	z.Put(mesh.Trusts, meshName, meshName, &mesh.Trust{Backend: "ca", Issuer: issuer, Roots: []byte(roots(t))})
}

func external(address string, tags mesh.Tags, protection *mesh.ExternalTLS) *mesh.ExternalService {
	return &mesh.ExternalService{Tags: tags, Networking: &mesh.ExternalNetworking{Address: address, TLS: protection}}
}

func from(tags mesh.Tags, to mesh.Tags) mesh.Connection {
	return mesh.Connection{Sources: []mesh.Selector{{Match: tags}}, Destinations: []mesh.Selector{{Match: to}}}
}

func service(name string) mesh.Tags { return mesh.Tags{mesh.TagService: name} }

// permit lets one service call another one.
func permit(z *passingtest.Zone, name string, who, to mesh.Tags) {
	z.Put(trafficpermission.Kind, "shop", name, &trafficpermission.Spec{Connection: from(who, to)})
}

// outside is a zone with an egress and a mesh that trusts a root.
func outside(t *testing.T) *passingtest.Zone {
	t.Helper()
	z := passingtest.New(t, fresh, kinds...)
	z.Put(mesh.ZoneEgresses, "", "out", own())
	z.Put(mesh.Meshes, "", "shop", through())
	trusting(t, z, "shop", "one")
	return z
}

// TestServicesOutside: an egress has what is for services outside of meshes that want it, as soon as
// it can know who calls, and asks for no secrets of others.
func TestServicesOutside(t *testing.T) {
	z := passingtest.New(t, fresh, kinds...)
	z.Put(mesh.Meshes, "", "shop", through())
	z.Put(mesh.ExternalServices, "shop", "mail", external("mail.example:25", service("mail"), nil))
	z.Same("without an egress")
	z.Put(mesh.ZoneEgresses, "", "out", own())
	z.Same("without roots")
	trusting(t, z, "shop", "one")
	z.Same("with roots", "mail{mesh=shop}")
	first, _ := z.Set().Generation(mesh.SecretIdentity("shop"))
	trusting(t, z, "shop", "two")
	if next, ok := z.Set().Generation(mesh.SecretIdentity("shop")); !ok || next == first {
		t.Errorf("another issuer makes no other identity: %s", next)
	}
	z.Put(mesh.Meshes, "", "bank", passingtest.Secured())
	z.Put(mesh.Meshes, "", "bank", through())
	z.Put(mesh.ExternalServices, "bank", "mail", external("mail.example:25", mesh.Tags{mesh.TagService: "mail", "v": "1"}, nil))
	z.Same("of a second mesh without roots", "mail{mesh=shop}")
	if z.Set().AllowsSecret(mesh.SecretIdentity("bank")) {
		t.Error("the egress may ask for an identity that it does not need")
	}
	trusting(t, z, "bank", "three")
	z.Same("of two meshes", "mail{mesh=bank,v=1}", "mail{mesh=bank}", "mail{mesh=shop}")
	for _, name := range []string{"bank", "shop"} {
		if !z.Set().AllowsSecret(mesh.SecretIdentity(name)) || z.Set().Get(resource.Secret, mesh.SecretCA(name)) == nil {
			t.Errorf("the egress has no identity in %s, or not its roots", name)
		}
	}
	z.Put(mesh.Meshes, "", "shop", passingtest.Secured())
	z.Same("of a mesh that does not want it", "mail{mesh=bank,v=1}", "mail{mesh=bank}")
	if z.Set().AllowsSecret(mesh.SecretIdentity("shop")) {
		t.Error("the egress keeps an identity that it does not need")
	}
	z.Put(mesh.Meshes, "", "shop", through())
	z.Same("that wants it again", "mail{mesh=bank,v=1}", "mail{mesh=bank}", "mail{mesh=shop}")
	z.Drop(mesh.ExternalServices, "bank", "mail")
	z.Same("without one of the services", "mail{mesh=shop}")
	z.Drop(mesh.Meshes, "", "shop")
	z.Same("without the mesh")
	if z.Set().Secrets() != nil {
		t.Error("an egress without services outside may ask for secrets")
	}
}

// TestOutsideComesFirst: what has a name outside is called there, whoever says that it serves it in
// another zone.
func TestOutsideComesFirst(t *testing.T) {
	z := outside(t)
	z.Put(mesh.ZoneIngresses, "", "east-in", ingressOf("east", "10.0.0.9", 1, service("mail")))
	z.Same("in another zone", "mail{mesh=shop,mesh.io/zone=east}", "mail{mesh=shop}")
	z.Put(mesh.ExternalServices, "shop", "mail", external("mail.example:25", service("mail"), nil))
	var c clusterv3.Cluster
	if err := proto.Unmarshal(z.Set().Get(resource.Cluster, "shop:mail").Body, &c); err != nil {
		t.Fatal(err)
	}
	if c.GetType() != clusterv3.Cluster_STRICT_DNS || z.Set().Get(resource.Endpoint, "shop:mail") != nil {
		t.Errorf("the cluster is of type %s", c.GetType())
	}
}

// TestDifferentPermissions: who may call one of several endpoints cannot call the others by it.
func TestDifferentPermissions(t *testing.T) {
	z := outside(t)
	of := func(v string) mesh.Tags { return mesh.Tags{mesh.TagService: "mail", "v": v} }
	z.Put(mesh.ExternalServices, "shop", "one", external("one.example:25", of("1"), nil))
	z.Put(mesh.ExternalServices, "shop", "two", external("two.example:25", of("2"), nil))
	permit(z, "all", service("web"), service("mail"))
	if fs := z.Planner.Failures(); len(fs) > 0 {
		t.Errorf("failures are %v", fs)
	}
	permit(z, "second", service("jobs"), of("2"))
	z.Same("of two endpoints", "mail{mesh=shop,v=1}", "mail{mesh=shop,v=2}", "mail{mesh=shop}")
	fs := z.Planner.Failures()
	if len(fs) != 1 || !strings.Contains(fs[0].Err.Error(), "different permissions") {
		t.Errorf("failures are %v", fs)
	}
	if names := z.Closed(); !slices.Equal(names, []string{"mail{mesh=shop}"}) {
		t.Errorf("closed are %v", names)
	}
}

// TestOutsideIsTaken: the agent of an egress takes services outside whose names it was started with,
// unchanged, and of others nothing but clusters without endpoints, for a reason that says what it
// lacks.
func TestOutsideIsTaken(t *testing.T) {
	z := outside(t)
	ca := &mesh.DataSource{Inline: []byte(roots(t))}
	z.Put(mesh.ExternalServices, "shop", "mail", external("mail.example:443", mesh.Tags{mesh.TagService: "mail", mesh.TagProtocol: "http"}, &mesh.ExternalTLS{Enabled: true, CACert: ca}))
	z.Put(mesh.ExternalServices, "shop", "files", external("192.0.2.7:21", service("files"), nil))
	clusters := map[bool]int{}
	for r := range z.Set().Each(resource.Cluster) {
		name, body := r.Name, r.Body
		byName := strings.HasPrefix(name, "shop:mail")
		clusters[byName]++
		bounds := machine.Bounds{Elsewhere: true, Names: []hostname.Suffix{"mail.example"}}
		if own, err := bounds.Admit(string(resource.Cluster), body); err != nil || string(own) != string(body) {
			t.Errorf("%s: %v", name, err)
		}
		bounds.Names = []hostname.Suffix{"post.example"}
		if _, err := bounds.Admit(string(resource.Cluster), body); (err != nil) != byName {
			t.Errorf("%s, not permitted: %v", name, err)
		}
		_, left, err := bounds.Endpoints(string(resource.Cluster), body)
		if err != nil || (len(left) == 1) != byName || byName && !strings.Contains(left[0].Error(), "--external-name") {
			t.Errorf("%s, not permitted: %v, %v", name, left, err)
		}
	}
	if clusters[true] == 0 || clusters[false] == 0 {
		t.Errorf("clusters are %v", clusters)
	}
}

// TestOutsideGolden: the plan of an egress with services outside, which both versions of Envoy
// accept.
func TestOutsideGolden(t *testing.T) {
	z := outside(t)
	ca := &mesh.DataSource{Inline: []byte(roots(t))}
	z.Put(mesh.ExternalServices, "shop", "mail", external("mail.example:443", mesh.Tags{mesh.TagService: "mail", mesh.TagProtocol: "http"}, &mesh.ExternalTLS{Enabled: true, CACert: ca}))
	z.Put(mesh.ExternalServices, "shop", "files", external("192.0.2.7:21", service("files"), nil))
	permit(z, "web", service("web"), service("mail"))
	permit(z, "jobs", service("jobs"), service("files"))
	z.Put(ratelimit.Kind, "shop", "few", &ratelimit.Spec{
		Connection: from(service("web"), service("mail")),
		Conf:       &ratelimit.Conf{HTTP: &ratelimit.HTTP{Requests: 3, Interval: mesh.Of(time.Second)}},
	})
	status, half := uint32(503), 50.0
	z.Put(faultinjection.Kind, "shop", "late", &faultinjection.Spec{
		Connection: from(service("web"), service("mail")),
		Conf:       &faultinjection.Conf{Abort: &faultinjection.Abort{HTTPStatus: &status, Percentage: &half}},
	})
	z.Bounded()
	z.Golden("testdata/outside.golden.yaml")
}

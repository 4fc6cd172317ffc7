package sidecar_test

import (
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
)

func external(address, service, ca string) *mesh.ExternalService {
	n := &mesh.ExternalNetworking{Address: address}
	if ca != "" {
		n.TLS = &mesh.ExternalTLS{Enabled: true, CACert: &mesh.DataSource{InlineString: &ca}}
	}
	return &mesh.ExternalService{Networking: n, Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: "http"}}
}

// TestExternalServiceNeedsAPermission: proxies have the cluster exactly while a permission for the
// service's tags admits them. settle holds each step against a plan from nothing.
func TestExternalServiceNeedsAPermission(t *testing.T) {
	w := newWorldOf(t, all.Policies())
	for _, d := range all.Defaults() {
		if d.Kind == trafficpermission.Kind {
			w.drop(trafficpermission.Kind, d.Prefix+meshName)
		}
	}
	w.put(mesh.ExternalServices, meshName, "mail", external("mail.example:80", "mail", ""))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "mail"))
	w.put(mesh.Dataplanes, meshName, "jobs-1", dataplane("127.0.0.31", "jobs", "http", "mail"))
	w.joined("web-1", "jobs-1")
	calls := func(step, proxy string, want bool) {
		t.Helper()
		set := w.planner.Set(proxy)
		validate(t, set)
		has := false
		for c := range set.Each(resource.Cluster) {
			has = has || strings.HasPrefix(c.Name, "mail@by-name")
		}
		rt := load(t, set.Get(resource.Route, "outbound:mail"), new(routev3.RouteConfiguration))
		last := rt.GetVirtualHosts()[0].GetRoutes()
		status := last[len(last)-1].GetDirectResponse().GetStatus()
		if has != want || (status == 403) == want {
			t.Errorf("%s: %s has a cluster: %v, and is answered %d; want a call: %v", step, proxy, has, status, want)
		}
		told := slices.ContainsFunc(w.planner.Unserved(proxy), func(f plan.Failure) bool {
			return f.Err.Error() == `no permission of the mesh lets this proxy call "mail"`
		})
		if told == want {
			t.Errorf("%s: %s is told that it has no permission: %v", step, proxy, told)
		}
	}
	permit := func(source string) {
		w.put(trafficpermission.Kind, meshName, "p", &trafficpermission.Spec{Connection: connection(source, "mail")})
		w.settle()
	}
	calls("nobody", "web-1", false)
	calls("nobody", "jobs-1", false)
	permit("web")
	calls("web", "web-1", true)
	calls("web", "jobs-1", false)
	w.put(mesh.ExternalServices, meshName, "mail", external("mail.example:443", "mail", rootCA))
	w.settle()
	if w.planner.Set("web-1").Get(resource.Cluster, "mail@by-name") != nil {
		t.Error("a cluster with TLS has the name of the one in clear")
	}
	calls("by TLS", "web-1", true)
	permit("jobs")
	calls("jobs", "web-1", false)
	calls("jobs", "jobs-1", true)
	w.drop(trafficpermission.Kind, "p")
	w.settle()
	calls("no more", "jobs-1", false)
}

package sidecar_test

import (
	"crypto/x509"
	"encoding/pem"
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

// clientPEM is a certificate that proxies present, and its key.
var clientPEM = madeClient("caller of a host beyond")

// presenting is a service to which proxies present what a secret holds. Without a secret they
// present clientPEM.
func presenting(address, service, secret string) *mesh.ExternalService {
	s := external(address, service, rootCA)
	source := &mesh.DataSource{InlineString: &clientPEM}
	if secret != "" {
		source = &mesh.DataSource{Secret: secret}
	}
	s.Networking.TLS.ClientCert, s.Networking.TLS.ClientKey = source, source
	return s
}

// TestExternalServiceSubsets: permission for some endpoints of a service gives nobody the secrets of
// the others, and neither does asking for endpoints that there are none of.
func TestExternalServiceSubsets(t *testing.T) {
	w := newWorldOf(t, all.Policies())
	w.only("web", mesh.AnyValue)
	a, b := external("a.example:443", "mail", rootCA), presenting("b.example:443", "mail", "")
	a.Tags["version"], b.Tags["version"] = "a", "b"
	w.put(mesh.ExternalServices, meshName, "a", a)
	w.put(mesh.ExternalServices, meshName, "b", b)
	web := dataplane("127.0.0.31", "web", "http", "mail")
	ask := func(version string) (clusters int, secrets []string) {
		web.Networking.Outbound[0].Tags = mesh.Tags{mesh.TagService: "mail", "version": version}
		w.put(mesh.Dataplanes, meshName, "web-1", web)
		w.joined("web-1")
		w.settle()
		for c := range w.planner.Set("web-1").Each(resource.Cluster) {
			if strings.HasPrefix(c.Name, "mail") {
				clusters++
			}
		}
		return clusters, slices.DeleteFunc(w.planner.Set("web-1").Secrets(), func(name string) bool { return !strings.Contains(name, "external_client") })
	}
	permit := func(versions string) {
		w.raw("{type: TrafficPermission, mesh: demo, name: only, sources: [{match: {mesh.io/service: web}}], destinations: [{match: {mesh.io/service: mail, version: " + versions + "}}]}")
	}
	for _, tc := range []struct {
		permitted, version string
		clusters, secrets  int
	}{
		{"a", "a", 1, 0},
		{"a", "b", 0, 0},
		{"a", "none", 0, 0},
		{"b", "b", 1, 1},
		{"b", "a", 0, 0},
		{`"*"`, "none", 0, 0},
		{`"*"`, "a", 1, 0},
		{`"*"`, "b", 1, 1},
	} {
		permit(tc.permitted)
		if clusters, secrets := ask(tc.version); clusters != tc.clusters || len(secrets) != tc.secrets {
			t.Errorf("who may call version %s and calls %s has %d clusters and %q", tc.permitted, tc.version, clusters, secrets)
		}
	}

	// What is wrong with one does not keep anybody from the other.
	b.Networking.TLS.ClientCert = &mesh.DataSource{Secret: "none"}
	w.put(mesh.ExternalServices, meshName, "b", b)
	if clusters, _ := ask("a"); clusters != 1 {
		t.Errorf("there are %d clusters of an endpoint beside one that cannot be called", clusters)
	}
}

// TestExternalServiceClients: exactly the proxies that may call a service may ask for the secret
// that its cluster names. Other content is another secret of the same cluster. What cannot be
// presented leaves no cluster.
func TestExternalServiceClients(t *testing.T) {
	w := newWorldOf(t, all.Policies())
	w.only("web", mesh.AnyValue)
	permit := func(source string) {
		w.put(trafficpermission.Kind, meshName, "only", permission(source, mesh.AnyValue))
		w.settle()
	}
	w.put(mesh.ExternalServices, meshName, "mail", presenting("mail.example:443", "mail", "client"))
	w.put(mesh.ExternalServices, meshName, "news", presenting("news.example:443", "news", ""))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "mail", "news"))
	w.put(mesh.Dataplanes, meshName, "jobs-1", dataplane("127.0.0.31", "jobs", "http", "mail", "news"))
	w.joined("web-1", "jobs-1")
	held := func(proxy, service string) (secret, cluster string) {
		set := w.planner.Set(proxy)
		if err := coherent(set, false); err != nil {
			t.Error(err)
		}
		for _, name := range set.Secrets() {
			if of, ok := mesh.ParseExternalClient(name); ok && of == service {
				secret = name
			}
		}
		for c := range set.Each(resource.Cluster) {
			if strings.HasPrefix(c.Name, service+"@by-name") {
				cluster = c.Name
			}
		}
		return secret, cluster
	}
	none := func(step, proxy, service string) {
		t.Helper()
		if secret, cluster := held(proxy, service); secret+cluster != "" {
			t.Errorf("%s: %s has %s for %s", step, proxy, secret, cluster)
		}
	}
	const wrong = `the ExternalService at mail.example:443: networking.tls.clientCert: could not load data: Resource not found: type="Secret" name="client" mesh="demo"`
	none("without a secret", "web-1", "mail")
	if !slices.ContainsFunc(w.planner.Failures("web-1"), func(f plan.Failure) bool { return strings.HasSuffix(f.Err.Error(), wrong) }) {
		t.Errorf("a missing secret is not told: %v", w.planner.Failures("web-1"))
	}
	news, toNews := held("web-1", "news")
	if news == "" || toNews == "" {
		t.Errorf("an inline client: %q for %q", news, toNews)
	}
	w.put(mesh.Secrets, meshName, "client", &mesh.Secret{Data: []byte(clientPEM)})
	w.settle()
	first, cluster := held("web-1", "mail")
	if first == "" || cluster == "" {
		t.Fatalf("with a secret: %q for %q", first, cluster)
	}
	none("not permitted", "jobs-1", "mail")
	none("not permitted", "jobs-1", "news")
	w.put(mesh.Secrets, meshName, "client", &mesh.Secret{Data: otherClient(t)})
	w.settle()
	second, next := held("web-1", "mail")
	if second == "" || second == first || next != cluster {
		t.Errorf("after a rotation: %q for %q, before %q for %q", second, next, first, cluster)
	}
	if same, to := held("web-1", "news"); same != news || to != toNews {
		t.Errorf("the rotation concerns another service: %q for %q", same, to)
	}
	w.put(mesh.Secrets, meshName, "client", &mesh.Secret{Data: []byte("x")})
	w.settle()
	none("with a bad secret", "web-1", "mail")
	w.put(mesh.Secrets, meshName, "client", &mesh.Secret{Data: []byte(clientPEM)})
	w.settle()
	permit("jobs")
	none("no longer permitted", "web-1", "mail")
	if secret, _ := held("jobs-1", "mail"); secret != first {
		t.Errorf("who is permitted now has %q, want %q", secret, first)
	}
}

// otherClient makes another certificate with its key.
func otherClient(t *testing.T) []byte {
	t.Helper()
	c := newCertifier()
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})...)
}

// TestExternalServiceLimits: a RateLimit is one bucket in the proxy of a caller, whatever the number
// of routes. Outbounds to services of the mesh have none, whose own proxies count.
func TestExternalServiceLimits(t *testing.T) {
	w := newWorldOf(t, all.Policies())
	w.put(mesh.ExternalServices, meshName, "mail", external("mail.example:80", "mail", ""))
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.2", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "mail", "backend"))
	w.put(mesh.Dataplanes, meshName, "jobs-1", dataplane("127.0.0.31", "jobs", "http", "mail", "backend"))
	w.raw("type: TrafficRoute\nmesh: demo\nname: two\nsources: [{match: {mesh.io/service: '*'}}]\ndestinations: [{match: {mesh.io/service: mail}}]\n" +
		"conf: {http: [{match: {path: {prefix: /a}}, destination: {mesh.io/service: mail}}, {match: {path: {prefix: /b}}, destination: {mesh.io/service: mail}}], destination: {mesh.io/service: mail}}")
	limit := func(source string) {
		w.raw("type: RateLimit\nmesh: demo\nname: l\nsources: [{match: {mesh.io/service: " + source + "}}]\ndestinations: [{match: {mesh.io/service: '*'}}]\nconf: {http: {requests: 5, interval: 10s}}")
		w.settle()
	}
	const filter = "envoy.filters.http.local_ratelimit"
	buckets := func(proxy, service string) (n int) {
		set := w.planner.Set(proxy)
		validate(t, set)
		host := load(t, set.Get(resource.Route, "outbound:"+service), new(routev3.RouteConfiguration)).GetVirtualHosts()[0]
		for _, r := range host.GetRoutes() {
			if r.GetTypedPerFilterConfig()[filter] != nil {
				n++
			}
		}
		if host.GetTypedPerFilterConfig()[filter] != nil {
			n++
		}
		filters := 0
		for l := range set.Each(resource.Listener) {
			if strings.HasPrefix(l.Name, "outbound:") && slices.Contains(l.Routes, "outbound:"+service) && strings.Contains(string(l.Body), filter) {
				filters++
			}
		}
		if filters != n {
			t.Errorf("%s has %d buckets for %s and %d filters", proxy, n, service, filters)
		}
		return n
	}
	w.joined("web-1", "jobs-1")
	for _, c := range []struct {
		source    string
		web, jobs int
	}{{"web", 1, 0}, {"jobs", 0, 1}, {"'*'", 1, 1}, {"nobody", 0, 0}} {
		limit(c.source)
		if web, jobs := buckets("web-1", "mail"), buckets("jobs-1", "mail"); web != c.web || jobs != c.jobs {
			t.Errorf("limits of %s: %d and %d buckets, want %d and %d", c.source, web, jobs, c.web, c.jobs)
		}
		if n := buckets("web-1", "backend") + buckets("jobs-1", "backend"); n > 0 {
			t.Errorf("limits of %s: %d buckets for a service of the mesh", c.source, n)
		}
	}
	limit("web")
	w.drop(mesh.ExternalServices, "mail")
	w.settle()
	if n := buckets("web-1", "backend"); n > 0 {
		t.Errorf("without the service outside: %d buckets", n)
	}
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

// TestExternalServiceByTargets: a MeshTrafficPermission names callers in its items, and what is called
// by its target. Proxies of different callers do not share what they reach, whichever comes first.
func TestExternalServiceByTargets(t *testing.T) {
	for _, order := range [][]string{{"web-1", "jobs-1"}, {"jobs-1", "web-1"}} {
		w := newWorldOf(t, all.Policies())
		w.put(mesh.ExternalServices, meshName, "mail", external("mail.example:80", "mail", ""))
		w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "mail"))
		w.put(mesh.Dataplanes, meshName, "jobs-1", dataplane("127.0.0.31", "jobs", "http", "mail"))
		permit := func(target, items string) {
			w.raw("type: MeshTrafficPermission\nmesh: demo\nname: p\nspec:\n  targetRef: " + target + "\n  from: " + items)
			w.settle()
		}
		reached := func() (who []string) {
			for _, proxy := range []string{"jobs-1", "web-1"} {
				for c := range w.planner.Set(proxy).Each(resource.Cluster) {
					if strings.HasPrefix(c.Name, "mail@by-name") {
						who = append(who, proxy)
					}
				}
			}
			return who
		}
		const web = "{targetRef: {kind: MeshService, name: web}, default: {action: Allow}}"
		permit("{kind: Mesh}", "["+web+"]")
		w.joined(order...)
		for _, step := range []struct {
			target, items string
			want          []string
		}{
			{"{kind: Mesh}", "[" + web + "]", []string{"web-1"}},
			{"{kind: MeshService, name: mail}", "[" + web + "]", []string{"web-1"}},
			{"{kind: MeshService, name: mail}", "[{targetRef: {kind: Mesh}, default: {action: Allow}}, {targetRef: {kind: MeshService, name: web}, default: {action: Deny}}]", []string{"jobs-1"}},
			{"{kind: Mesh}", "[{targetRef: {kind: Mesh}, default: {action: Allow}}]", []string{"jobs-1", "web-1"}},
			{"{kind: Mesh}", "[{targetRef: {kind: Mesh}, default: {action: Deny}}]", nil},
		} {
			permit(step.target, step.items)
			if got := reached(); !slices.Equal(got, step.want) {
				t.Errorf("%v first, %s %s: %v reach it, want %v", order[0], step.target, step.items, got, step.want)
			}
		}
	}
}

// TestExternalServiceIsNotTaken: a proxy that is registered for the service of an ExternalService
// does not get its requests.
func TestExternalServiceIsNotTaken(t *testing.T) {
	w := newWorldOf(t, all.Policies())
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "mail"))
	w.put(mesh.Dataplanes, meshName, "thief-1", dataplane("127.0.0.31", "mail", "http"))
	w.put(mesh.ExternalServices, meshName, "mail", external("mail.example:443", "mail", rootCA))
	w.put(trafficpermission.Kind, meshName, "p", &trafficpermission.Spec{Connection: connection("web", "mail")})
	w.joined("web-1")
	led := func() (to []string) {
		for c := range w.planner.Set("web-1").Each(resource.Cluster) {
			if strings.HasPrefix(c.Name, "mail") {
				to = append(to, c.Name)
			}
		}
		return to
	}
	if to := led(); len(to) != 1 || !strings.HasPrefix(to[0], "mail@by-name") {
		t.Errorf("requests are led to %v", to)
	}
	w.drop(mesh.Dataplanes, "thief-1")
	w.settle()
	w.put(mesh.Dataplanes, meshName, "thief-1", dataplane("127.0.0.31", "mail", "http"))
	w.settle()
	if to := led(); len(to) != 1 || !strings.HasPrefix(to[0], "mail@by-name") {
		t.Errorf("after a thief has come, requests are led to %v", to)
	}
}

package edge

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/xds/resource"
)

func balanced(w *world) {
	w.put(gateway.Upstreams, id(5, 1), 1, &gateway.Upstream{Name: "pool.test"})
	w.put(gateway.Targets, id(6, 1), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "10.0.0.1:80", Weight: 1})
	s := serviceSpec("")
	s.Host = "Pool.test"
	w.put(gateway.Services, id(1, 1), 1, s)
	w.put(gateway.Routes, id(2, 1), 1, routeSpec(id(1, 1), "/p"))
}

// clusterOf returns the name of the only cluster of the world's service.
func clusterOf(t *testing.T, set *resource.Set) string {
	t.Helper()
	for c := range set.Each(resource.Cluster) {
		if strings.HasPrefix(c.Name, "service:"+id(1, 1)) {
			return c.Name
		}
	}
	t.Fatal("the service has no cluster")
	return ""
}

func TestTargetsAreAnAssignment(t *testing.T) {
	w := newWorld(t)
	balanced(w)
	p := NewPlanner(testParams)
	set := p.Plan(w.state()).Set
	cluster := clusterOf(t, set)
	if set.Get(resource.Endpoint, cluster) == nil {
		t.Fatal("the cluster has no assignment")
	}
	for _, step := range []struct {
		name string
		edit func()
		want []string
	}{
		{"another target", func() {
			w.put(gateway.Targets, id(6, 2), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "10.0.0.2:80", Weight: 1})
		}, []string{cluster}},
		{"a weight", func() {
			w.put(gateway.Targets, id(6, 2), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "10.0.0.2:80", Weight: 0})
		}, []string{cluster}},
		{"a target that gets nothing anyway", func() { w.drop(gateway.Targets, id(6, 2)) }, nil},
		{"the last target", func() { w.drop(gateway.Targets, id(6, 1)) }, []string{cluster}},
	} {
		step.edit()
		next := p.Plan(w.state()).Set
		if diff := cmp.Diff(step.want, changed(set, next)); diff != "" {
			t.Errorf("%s: changed (-want +got):\n%s", step.name, diff)
		}
		set = next
	}
	w.put(gateway.Upstreams, id(5, 1), 2, &gateway.Upstream{Name: "pool.test", Algorithm: gateway.LeastConnections})
	set = p.Plan(w.state()).Set
	if next := clusterOf(t, set); next == cluster || set.Get(resource.Endpoint, next) == nil {
		t.Error("another algorithm is no other cluster with an assignment")
	}
	w.put(gateway.Targets, id(6, 3), 1, &gateway.UpstreamTarget{Upstream: id(5, 1), Target: "up.test:80", Weight: 1})
	set = p.Plan(w.state()).Set
	var c clusterv3.Cluster
	load(t, set.Get(resource.Cluster, clusterOf(t, set)), &c)
	if c.GetType() != clusterv3.Cluster_STRICT_DNS || set.Len(resource.Endpoint) != 0 {
		t.Errorf("a name among the targets: %v with %d assignments", c.GetType(), set.Len(resource.Endpoint))
	}
}

func TestCertificatesChangeChainsAlone(t *testing.T) {
	w := newWorld(t)
	balanced(w)
	p := NewPlanner(testParams)
	before := p.Plan(w.state()).Set
	w.put(gateway.Certificates, id(7, 1), 1, &gateway.Certificate{Cert: "c", Key: "k"})
	if got := p.Plan(w.state()).Set; !got.Equal(before) {
		t.Error("a certificate that nobody asks for changes something")
	}
	w.put(gateway.SNIs, id(8, 1), 1, &gateway.SNI{Name: "a.test", Certificate: id(7, 1)})
	named := p.Plan(w.state()).Set
	if diff := cmp.Diff([]string{"gateway:https:8443"}, changed(before, named)); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	var was, is listenerv3.Listener
	load(t, before.Get(resource.Listener, "gateway:https:8443"), &was)
	load(t, named.Get(resource.Listener, "gateway:https:8443"), &is)
	is.FilterChains = slices.DeleteFunc(is.FilterChains, func(c *listenerv3.FilterChain) bool { return len(c.GetFilterChainMatch().GetServerNames()) > 0 })
	if !proto.Equal(&was, &is) {
		t.Error("more than a filter chain has changed, which drains every connection")
	}
	secret := SecretCertificate(id(7, 1), false)
	first, _ := named.Generation(secret)
	w.put(gateway.Certificates, id(7, 1), 1, &gateway.Certificate{Cert: "d", Key: "l"})
	again := p.Plan(w.state()).Set
	second, ok := again.Generation(secret)
	if len(changed(named, again)) != 0 || !ok || first == second {
		t.Errorf("a replaced certificate changes %v and leads from generation %s to %s", changed(named, again), first, second)
	}
	w.put(gateway.Certificates, id(7, 2), 1, &gateway.Certificate{Cert: "c", Key: "k"})
	s := serviceSpec("")
	s.Protocol, s.ClientCertificate = "https", id(7, 2)
	w.put(gateway.Services, id(1, 1), 1, s)
	if !p.Plan(w.state()).Set.AllowsSecret(SecretCertificate(id(7, 2), false)) {
		t.Error("the client certificate of a service may not be had")
	}
	w.drop(gateway.Routes, id(2, 1))
	if p.Plan(w.state()).Set.AllowsSecret(SecretCertificate(id(7, 2), false)) {
		t.Error("the client certificate of a service that no route uses may be had")
	}
}

func TestTrustedPeersHaveChainsOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Certificates, id(7, 1), 1, &gateway.Certificate{Cert: "c", Key: "k"})
	w.put(gateway.SNIs, id(8, 1), 1, &gateway.SNI{Name: "a.test", Certificate: id(7, 1)})
	params := testParams
	params.Trusted = "10.0.0.0/8,2001:db8::1/128"
	set := NewPlanner(params).Plan(w.state()).Set
	for listener, want := range map[string][]string{
		"gateway:http:8000":  {"default [] 0", "default:trusted [] 2"},
		"gateway:https:8443": {"default [] 0", "certificate:" + id(7, 1) + " [a.test] 0", "default:trusted [] 2", "certificate:" + id(7, 1) + ":trusted [a.test] 2"},
	} {
		var l listenerv3.Listener
		load(t, set.Get(resource.Listener, listener), &l)
		var got []string
		for _, c := range l.FilterChains {
			m := c.GetFilterChainMatch()
			got = append(got, c.Name+" ["+strings.Join(m.GetServerNames(), " ")+"] "+string(rune('0'+len(m.GetDirectSourcePrefixRanges()))))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: chains (-want +got):\n%s", listener, diff)
		}
	}
	validate(t, set)
}

func TestSecretNames(t *testing.T) {
	for _, alternative := range []bool{false, true} {
		got, alt, ok := ParseCertificate(SecretCertificate(id(7, 1), alternative))
		if got != id(7, 1) || alt != alternative || !ok {
			t.Errorf("parsed %q %t %t", got, alt, ok)
		}
	}
	for _, name := range []string{SecretServer, SecretIdentity, SecretCA, SecretServer + ":", SecretServer + "::alt", ""} {
		if got, _, ok := ParseCertificate(name); ok {
			t.Errorf("%s is of certificate %q", name, got)
		}
	}
}

func TestUnresolvedIdentitiesFailClosed(t *testing.T) {
	w := newWorld(t)
	balanced(w)
	s, _ := w.state().Service(id(1, 1))
	spec := *s.Spec
	spec.Protocol, spec.CACertificates = "https", []string{id(9, 1)}
	broken := *s
	broken.Spec = &spec
	k, _ := clusterKeyOf(w.state(), &broken, testParams)
	if c, err := serviceCluster(k); err == nil {
		t.Errorf("a cluster whose authority is missing was built: %s", c.Body)
	}
	spec.CACertificates, spec.ClientCertificate = nil, id(7, 9)
	if k, _ = clusterKeyOf(w.state(), &broken, testParams); k.tls.missing == "" {
		t.Error("a missing client certificate is not noticed")
	}
}

// TestExpectedStatuses: every status is a success unless it is configured as a failure. The
// ranges neither touch nor overlap.
func TestExpectedStatuses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		status := rapid.IntRange(100, 599)
		a := gateway.ActiveCheck{
			Healthy:   gateway.ProbedHealthy{HTTPStatuses: rapid.SliceOf(status).Draw(t, "healthy")},
			Unhealthy: gateway.ProbedUnhealthy{HTTPStatuses: rapid.SliceOf(status).Draw(t, "unhealthy"), HTTPFailures: rapid.IntRange(0, 1).Draw(t, "failures")},
		}
		ranges := expected(a)
		for i, r := range ranges {
			if r.Start >= r.End || i > 0 && r.Start <= ranges[i-1].End {
				t.Fatalf("ranges %v", ranges)
			}
		}
		for s := 100; s < 600; s++ {
			want := a.Unhealthy.HTTPFailures == 0 || !slices.Contains(a.Unhealthy.HTTPStatuses, s) || slices.Contains(a.Healthy.HTTPStatuses, s)
			got := false
			for _, r := range ranges {
				got = got || r.Start <= int64(s) && int64(s) < r.End
			}
			if got != want {
				t.Fatalf("status %d is a success: %t", s, got)
			}
		}
	})
}

func TestHostHeaders(t *testing.T) {
	w := newWorld(t)
	w.put(gateway.Upstreams, id(5, 1), 1, &gateway.Upstream{Name: "pool.test", HostHeader: "shown.test:81"})
	g := w.state()
	for _, tc := range []struct {
		protocol, host string
		port           int
		want           string
	}{
		{"http", "a.test", 80, "a.test"}, {"http", "a.test", 443, "a.test:443"}, {"https", "a.test", 443, "a.test"},
		{"grpc", "a.test", 80, "a.test"}, {"grpcs", "a.test", 443, "a.test"}, {"wss", "a.test", 80, "a.test:80"},
		{"http", "::1", 80, "[::1]"}, {"http", "[::1]", 81, "[::1]:81"}, {"http", "POOL.test", 80, "shown.test:81"},
	} {
		s := serviceSpec("")
		s.Protocol, s.Host, s.Port = tc.protocol, tc.host, tc.port
		w.put(gateway.Services, id(1, 1), 1, s)
		service, _ := w.state().Service(id(1, 1))
		if got := serviceAuthority(g, service); got != tc.want {
			t.Errorf("%s://%s:%d has the host %q, want %q", tc.protocol, tc.host, tc.port, got, tc.want)
		}
	}
}

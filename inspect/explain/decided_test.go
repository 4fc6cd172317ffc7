package explain_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/inspect/explain"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/policy/meshtrafficpermission"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
	"github.com/meshgate/meshgate/xds/policy/target"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

// pair is a mesh in which web calls backend, which has two versions.
func pair(t *testing.T) *world {
	w := newWorld(t, "demo")
	w.under(mesh.ModeStrict, []byte("root"))
	for i, version := range []string{"v1", "v2"} {
		name := "backend-" + version
		w.put(mesh.Dataplanes, "demo", name, &mesh.Dataplane{Networking: &mesh.Networking{
			Address: "10.0.0." + []string{"2", "3"}[i], Inbound: []mesh.Inbound{{
				Port: 8080, ServicePort: 9080, Tags: mesh.Tags{mesh.TagService: "backend", mesh.TagProtocol: "http", "version": version},
			}},
		}})
		w.joined = append(w.joined, name)
	}
	w.put(mesh.Dataplanes, "demo", "web-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http"}}},
		Outbound: []mesh.Outbound{{Port: 10001, Tags: service("backend")}},
	}})
	w.joined = append(w.joined, "web-1")
	return w
}

// steps lists the steps of an explanation with the resources that decide.
func steps(e *explain.Explanation) (out []string) {
	add := func(list []explain.Step) {
		for _, s := range list {
			text := s.Proxy + " " + s.Step
			for _, r := range s.Decided {
				text += " " + r.Type + "/" + r.Name
			}
			out = append(out, text)
		}
	}
	add(e.Steps)
	for i := range e.Endpoints {
		add(e.Endpoints[i].Steps)
	}
	return out
}

// TestPoliciesThatDecide: each step names the policy that decides there.
func TestPoliciesThatDecide(t *testing.T) {
	w := pair(t)
	w.put(trafficroute.Kind, "demo", "versions", &trafficroute.Spec{Connection: connection("web", "backend"), Conf: &trafficroute.Conf{
		Split: []trafficroute.Split{
			{Weight: new(uint32(90)), Destination: mesh.Tags{mesh.TagService: "backend", "version": "v1"}},
			{Weight: new(uint32(10)), Destination: mesh.Tags{mesh.TagService: "backend", "version": "v2"}},
		},
	}})
	w.put(trafficpermission.Kind, "demo", "web", &trafficpermission.Spec{Connection: connection("web", "backend")})
	w.put(faultinjection.Kind, "demo", "others", &faultinjection.Spec{Connection: connection("jobs", "backend"), Conf: fault(100)})
	w.put(faultinjection.Kind, "demo", "slow", &faultinjection.Spec{Connection: connection("web", "backend"), Conf: fault(10)})
	w.put(ratelimit.Kind, "demo", "everybody", &ratelimit.Spec{Connection: connection("*", "backend"), Conf: limit(5)})
	w.put(ratelimit.Kind, "demo", "web", &ratelimit.Spec{Connection: connection("web", "backend"), Conf: limit(1)})
	w.put(meshtokenauth.Kind, "demo", "tokens", tokensOfBackend())
	w.put(meshtrafficpermission.Kind, "demo", "rules", &meshtrafficpermission.Resource{Spec: &meshtrafficpermission.Spec{
		TargetRef: &target.Ref{Kind: target.ServiceSubset, Name: "backend", Tags: mesh.Tags{"version": "v2"}},
		From: []target.Item[meshtrafficpermission.Conf]{{
			TargetRef: &target.Ref{Kind: target.Service, Name: "web"}, Default: &meshtrafficpermission.Conf{Action: meshtrafficpermission.Deny},
		}},
	}})
	w.plan()
	e := w.explain(explain.Question{Source: "web-1", Destination: "backend", Path: "/", Method: "GET"})
	want := `web-1 listener Dataplane/web-1
web-1 connection
web-1 route TrafficRoute/versions
web-1 split TrafficRoute/versions
web-1 retry Retry/retry-all-demo
web-1 cluster TrafficRoute/versions
web-1 cluster TrafficRoute/versions
backend-v1 listener Dataplane/backend-v1
backend-v1 connection Mesh/demo
backend-v1 route
backend-v1 permission TrafficPermission/web
backend-v1 fault FaultInjection/slow
backend-v1 limit RateLimit/web
backend-v1 token MeshTokenAuth/tokens
backend-v2 listener Dataplane/backend-v2
backend-v2 connection Mesh/demo
backend-v2 route
backend-v2 permission MeshTrafficPermission/rules`
	if got := strings.Join(steps(e), "\n"); got != want {
		t.Errorf("steps are\n%s\nwant\n%s", got, want)
	}
	if e.Outcome.Verdict != explain.Depends || len(e.Endpoints) != 2 {
		t.Fatalf("the outcome is %+v", e.Outcome)
	}
	for i, x := range []struct {
		share  float64
		status uint32
		by     string
	}{{90, 401, "token"}, {10, 403, "permission"}} {
		got := e.Endpoints[i]
		if got.Share != x.share || got.Outcome.Verdict != explain.Refused || got.Outcome.Status != x.status || got.Outcome.By.Step != x.by {
			t.Errorf("endpoint %d: %+v", i, got)
		}
	}
}

func fault(percentage float64) *faultinjection.Conf {
	return &faultinjection.Conf{Abort: &faultinjection.Abort{Percentage: &percentage, HTTPStatus: new(uint32(500))}}
}

func limit(n uint32) *ratelimit.Conf {
	return &ratelimit.Conf{HTTP: &ratelimit.HTTP{Requests: n, Interval: mesh.Of(time.Minute)}}
}

// TestOutcomes: what is not there is an outcome, and what is not known is said.
func TestOutcomes(t *testing.T) {
	w := pair(t)
	w.put(mesh.Dataplanes, "demo", "away-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "10.0.0.9", Inbound: []mesh.Inbound{{Port: 80, Tags: service("away")}}, Outbound: []mesh.Outbound{{Port: 10001, Tags: service("backend")}},
	}})
	w.plan()
	for _, test := range []struct{ source, destination, verdict, text string }{
		{"web-1", "backend", explain.Allowed, "2 endpoints are possible"},
		{"web-1", "127.0.0.1:10001", explain.Allowed, "2 endpoints are possible"},
		{"web-1", "nothing", explain.Refused, "web-1 has no outbound for the service nothing, which nobody in the mesh serves"},
		{"web-1", "away", explain.Refused, "web-1 has no outbound for the service away: "},
		{"web-1", "10.9.9.9:80", explain.Unknown, "does not go through the proxy"},
		{"away-1", "backend", explain.Unknown, "cannot say: the proxy of away-1 has not connected"},
	} {
		e := w.explain(explain.Question{Source: test.source, Destination: test.destination, Path: "/", Method: "GET"})
		if e.Outcome.Verdict != test.verdict || !strings.Contains(e.Outcome.Text+": ", test.text) {
			t.Errorf("%s to %s: %+v", test.source, test.destination, e.Outcome)
		}
	}
}

// TestNoTokenIsShown: no part of an answer contains the token, which was looked at.
func TestNoTokenIsShown(t *testing.T) {
	w := pair(t)
	w.put(meshtokenauth.Kind, "demo", "tokens", tokensOfBackend())
	w.plan()
	q, err := explain.Read(map[string][]string{"source": {"web-1"}, "destination": {"backend"}, "token": {canary}}, "", "source", "destination", "token")
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	w.record = func(_ context.Context, _ string, hash contract.Hash) (*contract.Record, contract.Answer, uint64, error) {
		if hash == contract.HashToken([]byte(canary)) {
			looked++
		}
		return nil, contract.Unknown, 1, nil
	}
	e := w.explain(q)
	text, err := json.Marshal(e)
	if err != nil || strings.Contains(string(text), canary) {
		t.Errorf("the token is shown, or %v: %s", err, text)
	}
	if by := e.Outcome.By; looked != 2 || len(e.Endpoints) != 2 || e.Outcome.Status != 401 || by == nil || by.Step != "token" {
		t.Errorf("the token was looked at %d times: %s", looked, dump(e))
	}
}

// canary is a token that nothing else looks like.
const canary = "c4n4ry-7f3e9a5b21d84c60-t0k3n"

// tokensOfBackend demands tokens from everybody who calls backend.
func tokensOfBackend() *meshtokenauth.Resource {
	return &meshtokenauth.Resource{Spec: &meshtokenauth.Spec{
		TargetRef: &target.Ref{Kind: target.Service, Name: "backend"},
		From: []target.Item[meshtokenauth.Default]{{
			TargetRef: &target.Ref{Kind: target.Mesh}, Default: &meshtokenauth.Default{Config: &meshtokenauth.Config{GlobalCredentials: true}},
		}},
	}}
}

// TestDirectAccess: an instance that is called by its own address is called as the service that it
// is of, and decides as it does for others.
func TestDirectAccess(t *testing.T) {
	w := pair(t)
	ask := func() *explain.Explanation {
		return w.explain(explain.Question{Source: "web-1", Destination: "10.0.0.2:8080", Path: "/", Method: "GET"})
	}
	w.put(mesh.Dataplanes, "demo", "web-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http"}}},
		TransparentProxying: &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001, DirectAccessServices: []string{"backend"}},
	}})
	w.plan()
	e := ask()
	if e.Outcome.Verdict != explain.Allowed || len(e.Endpoints) != 1 || e.Endpoints[0].Address != "10.0.0.2:8080" || e.Endpoints[0].Cluster != "@direct_access:backend:15001" {
		t.Error(dump(e))
	}
	w.put(trafficpermission.Kind, "demo", "others", &trafficpermission.Spec{Connection: connection("others", "backend")})
	w.plan()
	if e = ask(); e.Outcome.Verdict != explain.Refused {
		t.Error(dump(e))
	}
}

// TestTransparentProxies: names, services and addresses of transparent proxies, and what passes
// through.
func TestTransparentProxies(t *testing.T) {
	w := pair(t)
	w.put(mesh.Dataplanes, "demo", "web-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http"}}},
		TransparentProxying: &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001},
	}})
	w.plan()
	for _, test := range []struct{ destination, verdict, text string }{
		{"backend", explain.Allowed, "2 endpoints"},
		{"backend.mesh:80", explain.Allowed, "2 endpoints"},
		{"192.0.2.1:443", explain.Allowed, "1 endpoints"},
		{"example.test:443", explain.Allowed, "1 endpoints"},
		{"10.0.0.2:8080", explain.Refused, "the proxy demands TLS, and the caller speaks clear text"},
	} {
		e := w.explain(explain.Question{Source: "web-1", Destination: test.destination, Path: "/", Method: "GET"})
		if e.Outcome.Verdict != test.verdict || !strings.Contains(e.Outcome.Text, test.text) {
			t.Errorf("%s: %s", test.destination, dump(e))
		}
	}
	w.put(mesh.Dataplanes, "demo", "web-1", &mesh.Dataplane{Networking: &mesh.Networking{
		Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "web", mesh.TagProtocol: "http"}}},
		TransparentProxying: &mesh.TransparentProxying{RedirectPortInbound: 15006, RedirectPortOutbound: 15001, ReachableServices: []string{"web", "gone"}},
	}})
	w.plan()
	for destination, want := range map[string]string{
		"backend": "web-1 has no outbound for the service backend, which its reachableServices leave out",
		"gone":    "web-1 has no outbound for the service gone, which nobody in the mesh serves",
	} {
		e := w.explain(explain.Question{Source: "web-1", Destination: destination, Path: "/", Method: "GET"})
		if e.Outcome.Verdict != explain.Refused || e.Outcome.Text != want {
			t.Errorf("%s, left out: %s", destination, dump(e))
		}
	}
}

// TestThroughEgress: a request through an egress of the zone is not said to have left the mesh, nor
// to have arrived.
func TestThroughEgress(t *testing.T) {
	w := pair(t)
	w.put(mesh.Meshes, "", "demo", &mesh.Mesh{
		MTLS:    &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}}},
		Routing: &mesh.Routing{ZoneEgress: true},
	})
	w.put(trafficpermission.Kind, "demo", "web", &trafficpermission.Spec{Connection: connection("web", "backend")})
	w.put(mesh.ExternalServices, "demo", "backend", &mesh.ExternalService{
		Tags: mesh.Tags{mesh.TagService: "backend", mesh.TagProtocol: "http"}, Networking: &mesh.ExternalNetworking{Address: "192.0.2.9:80"},
	})
	w.put(mesh.ZoneEgresses, "", "out", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "10.0.0.77", Port: 10002}})
	w.plan()
	e := w.explain(explain.Question{Source: "web-1", Destination: "backend", Path: "/", Method: "GET"})
	if len(e.Endpoints) != 1 || e.Endpoints[0].Outcome.Verdict != explain.Unknown || e.Endpoints[0].Address != "10.0.0.77:10002" || !strings.Contains(e.Endpoints[0].Steps[0].Text, "egress of the zone") {
		t.Errorf("endpoints are %+v", e.Endpoints)
	}
}

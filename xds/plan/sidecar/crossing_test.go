package sidecar_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/resource"
)

// crossingOf is what others know of a mesh with some roots.
func crossingOf(name, roots string) *mesh.Crossing {
	return &mesh.Crossing{Mesh: name, Roots: []byte(roots)}
}

// acrossDoor is what others know of a mesh with a gateway.
func acrossDoor(name string, addresses ...string) *mesh.Crossing {
	c := crossingOf(name, rootCA)
	l := &mesh.GatewayListener{Port: 18080, Hostname: "door.example"}
	c.Add("door", l, nil)
	for _, a := range addresses {
		c.Add("door", l, &mesh.CrossEndpoint{Address: a})
	}
	return c
}

// callers are proxies that call a gateway of office: one that lists it, and one by its name.
func callers(w *world) {
	pair("http")(w)
	w.under(mesh.ModeStrict)
	web := dataplane("127.0.0.3", "web", "http", "backend")
	web.Networking.Outbound = append(web.Networking.Outbound, mesh.Outbound{Port: 10002, Tags: mesh.Tags{mesh.TagService: "door", mesh.TagMesh: "office"}})
	w.put(mesh.Dataplanes, meshName, "web-1", web)
	w.put(mesh.Dataplanes, meshName, "all-1", transparent("127.0.0.4", "all", "http"))
	w.put(mesh.Crossings, "", "office", acrossDoor("office", "127.0.0.61", "127.0.0.62"))
	w.put(mesh.Crossings, "", meshName, crossingOf(meshName, rootCA))
	for host, a := range map[string]string{"backend.mesh": "240.0.0.1", "web.mesh": "240.0.0.2", "all.mesh": "240.0.0.3", "door.example": "240.0.0.4"} {
		w.put(mesh.Addresses, meshName, host, &mesh.Address{Address: a})
	}
}

// called is a mesh with a gateway that other meshes may call.
func called(w *world) {
	pair("http")(w)
	w.under(mesh.ModeStrict)
	w.put(mesh.Dataplanes, meshName, "edge-1", entrance("127.0.0.51"))
	t := w.t.(*testing.T)
	w.gateway(t, "  - {port: 18080, protocol: HTTP, hostname: edge.example, crossMesh: true}\n")
	w.gatewayRoute(t, "backend", `
  http:
    rules:
    - matches: [{path: {match: PREFIX, value: /}}]
      backends: [{weight: 1, destination: {mesh.io/service: backend}}]
`)
	w.put(mesh.Crossings, "", meshName, acrossDoor(meshName, "127.0.0.51"))
	c := crossingOf("third", rootCA)
	c.Withdrawn = 2
	w.put(mesh.Crossings, "", "third", c)
}

// TestCallersDemandTheGatewayOfItsMesh: a caller proves who it is in its own mesh, and demands the
// identity of the gateway under the roots of the other mesh.
func TestCallersDemandTheGatewayOfItsMesh(t *testing.T) {
	w := newWorld(t)
	callers(w)
	w.settle()
	w.joined("web-1", "all-1")
	for _, name := range []string{"web-1", "all-1"} {
		set := w.planner.Set(name)
		var found bool
		for c := range set.Each(resource.Cluster) {
			if !strings.HasPrefix(c.Name, "door@@office") {
				continue
			}
			found = true
			var tls tlsv3.UpstreamTlsContext
			if err := load(t, c, new(clusterv3.Cluster)).GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls); err != nil {
				t.Fatal(err)
			}
			v := tls.GetCommonTlsContext().GetCombinedValidationContext()
			if ca := v.GetValidationContextSdsSecretConfig().GetName(); ca != mesh.SecretCA("office") || !set.AllowsSecret(ca) || set.Get(resource.Secret, ca) == nil {
				t.Errorf("%s trusts %q", name, ca)
			}
			if own := tls.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs()[0].GetName(); own != mesh.SecretIdentity(meshName) {
				t.Errorf("%s presents %q", name, own)
			}
			names := v.GetDefaultValidationContext().GetMatchTypedSubjectAltNames()
			if len(names) != 1 || names[0].GetMatcher().GetExact() != "spiffe://office/door" {
				t.Errorf("%s demands %v", name, names)
			}
		}
		if !found {
			t.Errorf("%s has no cluster for the gateway: %v", name, w.planner.Unserved(name))
		}
	}
	w.put(mesh.Crossings, "", "office", crossingOf("office", rootCA))
	w.settle()
	if got := w.planner.Unserved("web-1"); !slices.ContainsFunc(got, func(f plan.Failure) bool {
		return f.Err.Error() == `mesh "office" has no gateway "door" that other meshes may call, no mutual TLS, or no roots that others are told of`
	}) {
		t.Errorf("nothing says that the gateway is gone: %v", got)
	}
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
	w.settle()
	if got := w.planner.Unserved("web-1"); !slices.ContainsFunc(got, func(f plan.Failure) bool {
		return f.Err.Error() == `gateway "door" of mesh "office" cannot be called: this mesh has no mutual TLS`
	}) {
		t.Errorf("nothing says that mutual TLS is missing: %v", got)
	}
}

// TestGatewaysWithoutRootsAreNotCalled: a cluster that calls a gateway of another mesh comes with the roots
// by which it judges, and goes with them. Else its proxy would wait for a secret that does not come.
func TestGatewaysWithoutRootsAreNotCalled(t *testing.T) {
	for _, addresses := range [][]string{nil, {"127.0.0.61", "127.0.0.62"}} {
		w := newWorld(t)
		callers(w)
		rootless := acrossDoor("office", addresses...)
		rootless.Roots = nil
		w.put(mesh.Crossings, "", "office", rootless)
		w.settle()
		w.joined("web-1", "all-1")
		check := func(roots bool) {
			t.Helper()
			for _, name := range []string{"web-1", "all-1"} {
				set, calls := w.planner.Set(name), false
				for c := range set.Each(resource.Cluster) {
					calls = calls || bytes.Contains(c.Body, []byte(mesh.SecretCA("office")))
				}
				if got := len(w.judges(t, name)) > 0; calls != roots || got != roots {
					t.Errorf("%v with roots (%t): %s has a cluster that judges by them: %t, and roots: %t", addresses, roots, name, calls, got)
				}
			}
			said := slices.ContainsFunc(w.planner.Unserved("web-1"), func(f plan.Failure) bool {
				return strings.Contains(f.Err.Error(), "no roots that others are told of")
			})
			if said == roots {
				t.Errorf("%v with roots (%t): it is said that none are known: %t", addresses, roots, said)
			}
		}
		check(false)
		for _, roots := range []bool{true, false, true} {
			w.put(mesh.Crossings, "", "office", rootless)
			if roots {
				w.put(mesh.Crossings, "", "office", acrossDoor("office", addresses...))
			}
			w.settle()
			check(roots)
		}
	}
}

// TestOnlyWhatChangedMovesProxies: another gateway of another mesh is an assignment of those who call
// it, and roots of a mesh without gateways are nobody's business but that of gateways.
func TestOnlyWhatChangedMovesProxies(t *testing.T) {
	w := newWorld(t)
	callers(w)
	w.settle()
	w.joined("backend-1", "web-1", "all-1")
	w.put(mesh.Crossings, "", "office", acrossDoor("office", "127.0.0.61", "127.0.0.63"))
	if moved := w.settle(); len(moved) != 2 || moved["backend-1"] {
		t.Errorf("another endpoint moved %v", moved)
	}
	w.put(mesh.Crossings, "", "third", crossingOf("third", rootCA))
	if moved := w.settle(); len(moved) != 0 {
		t.Errorf("roots of callers moved %v", moved)
	}
}

// TestGatewaysJudgeEachMeshByItsOwnRoots: the listener demands a certificate, and each mesh has its
// own roots.
func TestGatewaysJudgeEachMeshByItsOwnRoots(t *testing.T) {
	w := newWorldOf(t, all.Policies())
	called(w)
	w.settle()
	w.joined("edge-1", "web-1")
	set := w.planner.Set("edge-1")
	l := load(t, set.Get(resource.Listener, "gateway:127.0.0.51:18080"), new(listenerv3.Listener))
	var tls tlsv3.DownstreamTlsContext
	if err := l.GetFilterChains()[0].GetTransportSocket().GetTypedConfig().UnmarshalTo(&tls); err != nil {
		t.Fatal(err)
	}
	if got := tls.GetCommonTlsContext().GetCombinedValidationContext().GetValidationContextSdsSecretConfig().GetName(); got != mesh.SecretCrossing || !tls.GetRequireClientCertificate().GetValue() {
		t.Errorf("the listener judges callers by %q", got)
	}
	var judge tlsv3.SPIFFECertValidatorConfig
	secret := load(t, set.Get(resource.Secret, mesh.SecretCrossing), new(tlsv3.Secret))
	if err := secret.GetValidationContext().GetCustomValidatorConfig().GetTypedConfig().UnmarshalTo(&judge); err != nil {
		t.Fatal(err)
	}
	var domains []string
	for _, d := range judge.GetTrustDomains() {
		domains = append(domains, d.GetName())
	}
	if !slices.Equal(domains, []string{meshName, "third"}) {
		t.Errorf("the roots are those of %v", domains)
	}
	again := crossingOf("third", rootCA)
	again.Withdrawn = 3
	w.put(mesh.Crossings, "", "third", again)
	if moved := w.settle(); !moved["edge-1"] || moved["backend-1"] {
		t.Errorf("the withdrawal of a root moved %v", moved)
	}
	l = load(t, w.planner.Set("edge-1").Get(resource.Listener, "gateway:127.0.0.51:18080"), new(listenerv3.Listener))
	if got := l.GetFilterChains()[0].GetMetadata().GetFilterMetadata()[mesh.MetadataTrust].GetFields()["withdrawn"].GetStringValue(); got != "third=3," {
		t.Errorf("connections of before a root was withdrawn go on: %q", got)
	}
	w.put(mesh.Meshes, "", meshName, &mesh.Mesh{})
	w.settle()
	if w.planner.Set("edge-1").Get(resource.Listener, "gateway:127.0.0.51:18080") != nil {
		t.Error("without mutual TLS somebody listens")
	}
	if got := w.planner.Failures("edge-1"); len(got) != 1 || !strings.Contains(got[0].Err.Error(), "needs mutual TLS") {
		t.Errorf("the failures are %v", got)
	}
}

// TestRootsAreBounded: whoever is left out is said.
func TestRootsAreBounded(t *testing.T) {
	w := newWorld(t)
	called(w)
	w.put(mesh.Crossings, "", "aaa", crossingOf("aaa", strings.Repeat("x", 1<<20-len(rootCA)-1)))
	full := acrossDoor(meshName, "127.0.0.51")
	full.Full = true
	w.put(mesh.Crossings, "", meshName, full)
	w.settle()
	w.joined("edge-1")
	got := w.planner.Failures("edge-1")
	if len(got) != 2 || !strings.Contains(got[1].Err.Error(), "than other meshes are told of") {
		t.Errorf("the failures are %v", got)
	}
	if got = got[:1]; !strings.Contains(got[0].Err.Error(), "nobody from 1 of them is let in, aaa among them") {
		t.Errorf("the failures are %v", got)
	}
	w.put(mesh.Crossings, "", "aaa", crossingOf("aaa", ""))
	w.put(mesh.Crossings, "", meshName, acrossDoor(meshName, "127.0.0.51"))
	w.settle()
	if got := w.planner.Failures("edge-1"); len(got) != 1 || !strings.Contains(got[0].Err.Error(), "nobody from 1 of them is let in, aaa among them") {
		t.Errorf("the failures are %v", got)
	}
}

// TestTakenNamesAreSaid: the gateway whose name another mesh had before.
func TestTakenNamesAreSaid(t *testing.T) {
	w := newWorld(t)
	called(w)
	w.settle()
	w.joined("edge-1")
	c := acrossDoor(meshName, "127.0.0.51")
	c.Taken = []string{"edge.example"}
	w.put(mesh.Crossings, "", meshName, c)
	w.settle()
	if got := w.planner.Failures("edge-1"); len(got) != 1 || !strings.Contains(got[0].Err.Error(), "another mesh had the name edge.example before") {
		t.Errorf("the failures are %v", got)
	}
}

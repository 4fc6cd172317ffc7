package sidecar_test

import (
	"errors"
	"path/filepath"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
)

func conf(s *policy.Selection, key string) string { return policy.First[sample](s).text(key) }

func said(key, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: key, Value: value}}
}

// collector is a policy with a backend of the mesh. It is chosen for every sort of place at
// once, contributes the backend to every place that uses it, and marks everything that it
// edits.
var collector = &policy.Policy{
	Kind: sampleKind("Collector"), Phase: policy.Settings,
	Attachment: policy.ByProxy | policy.AllByInbound | policy.ByOutbound | policy.ByDestination,
	Facts: func(w policy.World, chosen []*view.Policy) any {
		name := chosen[0].Spec.(*sample).text("backend")
		if w.Mesh == nil || w.Mesh.Tracing == nil {
			return ""
		}
		for _, b := range w.Mesh.Tracing.Backends {
			if b.Name == name {
				return b.Conf["url"]
			}
		}
		return ""
	},
	Edits: policy.Edits{
		Callers: func(r *draft.Routes, s *policy.Selection) error {
			return r.ForSources(policy.First[sample](s).Sources, func(route *routev3.Route) {
				route.ResponseHeadersToAdd = append(route.ResponseHeadersToAdd, said("x-inbound", s.Policies[0].Name))
			})
		},
		Route: func(r *draft.Route, s *policy.Selection) error {
			r.Proto.ResponseHeadersToAdd = append(r.Proto.ResponseHeadersToAdd, said("x-outbound", s.Policies[0].Name))
			return nil
		},
		Target: func(x *draft.Target, s *policy.Selection) error {
			if x.Weight != nil {
				x.Weight.ResponseHeadersToAdd = append(x.Weight.ResponseHeadersToAdd, said("x-destination", s.Policies[0].Name+" "+x.Tags["version"]))
			}
			return nil
		},
		Cluster: func(d *draft.Cluster, s *policy.Selection) error {
			d.Proto.PerConnectionBufferLimitBytes = nil
			d.Proto.ConnectTimeout = durationpb.New(7e9)
			return nil
		},
		Contribute: func(c *draft.Contribution, s *policy.Selection) error {
			url, _ := s.Facts.(string)
			if url == "" {
				return errors.New("the mesh has no such backend")
			}
			name := draft.Marked("collector:" + conf(s, "backend"))
			c.Clusters = append(c.Clusters, staticCluster(name, url))
			c.Secrets = append(c.Secrets, &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{
				Secret: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "x"}},
			}}})
			l := &listenerv3.Listener{Name: name, Address: address4("127.0.0.9", 9411)}
			f, err := draft.NetworkFilter("envoy.filters.network.tcp_proxy", &tcpv3.TcpProxy{StatPrefix: "collector", ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: name}})
			l.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{f}}}
			c.Listeners = append(c.Listeners, l)
			return err
		},
	},
}

func address4(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port}}}}
}

func staticCluster(name, host string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(1e9), ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: address4(host, 9411)}},
		}}}}},
	}
}

// template patches finished resources as its conf says.
var template = &policy.Policy{
	Kind: sampleKind("Template"), Phase: policy.Settings, Attachment: policy.ByProxy,
	Edits: policy.Edits{
		Patch: func(f *draft.Finished, s *policy.Selection) error {
			switch m := f.Proto.(type) {
			case *clusterv3.Cluster:
				f.Removed = m.GetName() == conf(s, "remove")
			case *listenerv3.Listener:
				if m.GetName() == conf(s, "break") {
					return errors.New("no such filter")
				}
				m.StatPrefix = f.Origin
			case *routev3.RouteConfiguration:
				if f.Origin == draft.OriginOutbound {
					m.ResponseHeadersToRemove = append(m.ResponseHeadersToRemove, "server")
				}
			}
			return nil
		},
		Add: func(c *draft.Contribution, s *policy.Selection) error {
			if name := conf(s, "add"); name != "" {
				c.Clusters = append(c.Clusters, staticCluster(name, "127.0.0.8"), staticCluster("spare", "127.0.0.8"))
			}
			return nil
		},
	},
}

func seamed(t *testing.T) *world {
	w := newWorldOf(t, append(all.Policies(), collector, template))
	pair("http")(w)
	w.under(mesh.ModeStrict)
	w.traced("127.0.0.7", "127.0.0.6")
	w.put(trafficroute.Kind, meshName, "split", split("backend", 1, 2))
	everybody := []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "*"}}}
	w.put(collector.Kind, meshName, "all", &sample{Connection: mesh.Connection{
		Sources: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "web", "team": "a"}}, {Match: mesh.Tags{mesh.TagService: "jobs"}}}, Destinations: everybody,
	}, Conf: map[string]any{"backend": "one"}})
	w.put(template.Kind, meshName, "web", &sample{Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "web"}}}, Conf: map[string]any{
		"remove": "spare", "add": "extra", "break": "inbound:127.0.0.3:8080",
	}})
	return w
}

// traced gives the mesh two tracing backends.
func (w *world) traced(one, two string) {
	m := mtls(mesh.ModeStrict)
	m.Tracing = &mesh.Tracing{Backends: []mesh.TracingBackend{
		{Name: "one", Type: "zipkin", Conf: map[string]any{"url": one}}, {Name: "two", Type: "zipkin", Conf: map[string]any{"url": two}},
	}}
	w.put(mesh.Meshes, "", meshName, m)
}

// TestSeams compares what sample policies make at every seam with a golden file, and validates
// it with Envoy.
func TestSeams(t *testing.T) {
	w := seamed(t)
	sets := map[string]any{}
	w.joined("backend-1", "web-1")
	for _, name := range []string{"backend-1", "web-1"} {
		set := w.planner.Set(name)
		sets[name] = tree(t, w, name, set)
		validate(t, set)
	}
	text, err := yaml.Marshal(sets)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "seams.golden.yaml"), text)
}

// TestFactsOfTheMesh: a changed backend affects those that use it, and nothing else.
func TestFactsOfTheMesh(t *testing.T) {
	w := seamed(t)
	w.joined("backend-1", "web-1")
	w.traced("127.0.0.7", "127.0.0.66") // the other backend
	if changed := w.settle(); len(changed) != 0 {
		t.Errorf("a backend that nobody uses changes %v", changed)
	}
	w.traced("127.0.0.77", "127.0.0.66")
	if changed := w.settle(); !changed["web-1"] || !changed["backend-1"] {
		t.Errorf("a backend in use changes only %v", changed)
	}
	if got := w.planner.Set("web-1").Get(resource.Cluster, "@collector:one"); got == nil {
		t.Error("the backend is gone")
	}
	w.drop(collector.Kind, "all")
	w.settle()
	if set := w.planner.Set("web-1"); set.Get(resource.Cluster, "@collector:one") != nil || set.AllowsSecret("@collector:one") {
		t.Error("the backend is there without anybody who uses it")
	}
}

// TestRawStageIsMemoised: a changed endpoint causes no new patches, and the effect of the
// stage ends with its policy.
func TestRawStageIsMemoised(t *testing.T) {
	patches := 0
	counted := *template
	counted.Patch = func(f *draft.Finished, s *policy.Selection) error { patches++; return template.Patch(f, s) }
	w := newWorldOf(t, append(all.Policies(), &counted))
	pair("http")(w)
	w.put(template.Kind, meshName, "web", &sample{Selectors: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: "web"}}}, Conf: map[string]any{"add": "extra"}})
	set := w.joined("web-1")
	if set.Get(resource.Cluster, "extra") == nil || patches == 0 {
		t.Fatal("the stage did nothing")
	}
	w.put(mesh.Dataplanes, meshName, "backend-2", dataplane("127.0.0.4", "backend", "http"))
	change := w.take()
	w.planner.Update(change.State, change.Keys, change.All)
	if before, changed := patches, w.planner.Plan(); changed["web-1"] == nil || patches != before {
		t.Errorf("%d patches for an endpoint, changed are %v", patches-before, changed)
	}
	w.drop(template.Kind, "web")
	w.settle()
	if w.planner.Set("web-1").Get(resource.Cluster, "extra") != nil {
		t.Error("the stage stays without its policy")
	}
}

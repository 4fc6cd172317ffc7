package sidecar_test

import (
	_ "embed"
	"errors"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/plan/sidecar"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/circuitbreaker"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
	"github.com/meshgate/meshgate/xds/resource"
)

// rootCA is a certificate that signs no other.
//
//go:embed testdata/beyond.pem
var rootCA string

// outsideKind is the kind of resources that name a host beyond the mesh.
var outsideKind = &model.Kind{
	Name: "Outside", Path: "outsides", Scoping: model.Mesh, Class: model.Config, New: func() any { return new(outsideSpec) },
	Document: &model.Document{Type: "Outside", Singular: "outside", Plural: "outsides"},
}

// outsideSpec is a host beyond the mesh that bears tags as dataplanes do.
type outsideSpec struct {
	Address string    `json:"address"`
	Tags    mesh.Tags `json:"tags"`
	// CA signs the certificate of the host; without one it is called in clear.
	CA string `json:"ca,omitempty"`
}

// Locates implements view.Locating.
func (s *outsideSpec) Locates() []view.Endpoint {
	host, port, err := net.SplitHostPort(s.Address)
	if err != nil {
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil
	}
	return []view.Endpoint{{Address: host, Port: uint32(n), Tags: s.Tags, Ready: true}}
}

// outsides is a sample kind of destinations: hosts that Envoy resolves, which prove who
// they are by a public name and want to know nothing of the mesh.
type outsides struct{}

// authority is what a cluster of outsides demands of its host.
type authority struct{ ca string }

func (outsides) Kind() *model.Kind { return outsideKind }

func (outsides) Find(m *view.Mesh, service string) view.Destination {
	if l := m.Located(outsideKind, service); l != nil {
		return l
	}
	return nil
}

func (outsides) Inline(mesh.Tags, view.Destination) bool { return true }

func (outsides) Transport(_ sidecar.Around, _ mesh.Tags, d view.Destination) sidecar.Transport {
	return sidecar.Transport{Own: authority{d.(*view.Located).Specs[0].(*outsideSpec).CA}}
}

func (outsides) Keeps(_ sidecar.Around, was, due sidecar.Transport) bool {
	if due.Own.(authority).ca == "unsaid" {
		panic("nobody knows what is due")
	}
	return was == due
}

func (outsides) Cluster(d *draft.Cluster, in sidecar.ClusterInput) error {
	c := d.Proto
	c.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STRICT_DNS}
	c.DnsLookupFamily = clusterv3.Cluster_V4_PREFERRED
	c.LoadAssignment = in.Members
	var err error
	if c.TypedDnsResolverConfig, err = plan.Resolver(); err != nil {
		return err
	}
	d.HTTP = &upstreamsv3.HttpProtocolOptions{UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}},
		},
	}}
	ca := in.Transport.Own.(authority).ca
	switch ca {
	case "":
		return nil
	case "broken", "unsaid":
		return errors.New("no certificate")
	}
	host := in.Destination.Members()[0].Address
	packed, err := anypb.New(&tlsv3.UpstreamTlsContext{Sni: host, CommonTlsContext: &tlsv3.CommonTlsContext{
		ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: ca}},
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{{
				SanType: tlsv3.SubjectAltNameMatcher_DNS, Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: host}},
			}},
		}},
	}})
	if err != nil {
		return err
	}
	c.TransportSocket = &corev3.TransportSocket{Name: "envoy.transport_sockets.tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}
	return nil
}

// Lead: a host is asked for by its own name, and several by that of the first resource.
func (outsides) Lead(_ mesh.Tags, d view.Destination) any {
	return d.(*view.Located).Specs[0].Locates()[0].Address
}

func (outsides) Route(t *draft.Target, lead any) error {
	t.Ask(lead.(string))
	return nil
}

// abroad is a strict mesh with a service of its own and two beyond it. web calls
// all three, jobs the service of the mesh and one beyond.
func abroad(t testing.TB) *world {
	w := newWorldBeyond(t)
	w.put(mesh.Trusts, meshName, meshName, trust("root"))
	w.under(mesh.ModeStrict)
	w.put(outsideKind, meshName, "mail", outside("mail.example:443", "mail", rootCA))
	w.put(outsideKind, meshName, "maps", outside("maps.example:80", "maps", ""))
	w.put(mesh.Dataplanes, meshName, "backend-1", dataplane("127.0.0.11", "backend", "http"))
	w.put(mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.21", "web", "http", "backend", "mail", "maps"))
	w.put(mesh.Dataplanes, meshName, "jobs-1", dataplane("127.0.0.31", "jobs", "http", "backend", "maps"))
	w.joined("backend-1", "web-1", "jobs-1")
	return w
}

func outside(address, service, ca string) *outsideSpec {
	return &outsideSpec{Address: address, CA: ca, Tags: mesh.Tags{mesh.TagService: service, mesh.TagProtocol: "http"}}
}

// newWorldBeyond is a mesh whose planner knows the sample kind, too.
func newWorldBeyond(t testing.TB) *world { return newWorldOf(t, all.Policies(), outsides{}) }

// TestDestinationBeyondTheMesh holds what a sample kind of destinations makes against a
// golden file and Envoy's own validation: policies edit its clusters like any other.
func TestDestinationBeyondTheMesh(t *testing.T) {
	w := abroad(t)
	w.put(circuitbreaker.Kind, meshName, "few", breaker("web", "mail", 3))
	w.put(trafficroute.Kind, meshName, "halves", halves("backend", "maps"))
	w.put(mesh.Dataplanes, meshName, "any-1", transparent("127.0.0.41", "any", "http"))
	w.joined("any-1")
	sets := map[string]any{}
	for _, name := range []string{"web-1", "any-1"} {
		set := w.planner.Set(name)
		validate(t, set)
		sets[name] = tree(t, w, name, set)
		if out := w.planner.Unserved(name); len(out) > 0 {
			t.Errorf("destinations beyond the mesh count as unserved: %v", out)
		}
	}
	text, err := yaml.Marshal(sets)
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, filepath.Join("testdata", "beyond.golden.yaml"), text)
}

// halves leads every second request for a service to another one.
func halves(service, other string) *trafficroute.Spec {
	half := uint32(1)
	return &trafficroute.Spec{Connection: connection(mesh.AnyValue, service), Conf: &trafficroute.Conf{Split: []trafficroute.Split{
		{Weight: &half, Destination: mesh.Tags{mesh.TagService: service}}, {Weight: &half, Destination: mesh.Tags{mesh.TagService: other}},
	}}}
}

// TestChangesOfDestinationsReachThoseWhoCallThem makes one change after the other and
// demands that exactly these proxies get exactly that. settle holds each against a plan
// from nothing.
func TestChangesOfDestinationsReachThoseWhoCallThem(t *testing.T) {
	w := abroad(t)
	w.hold(t, []string{"backend-1", "web-1", "jobs-1"}, []step{
		{"an address", func() { w.put(outsideKind, meshName, "mail", outside("mx.example:443", "mail", rootCA)) },
			map[string][]string{"web-1": {"+mail@by-name", "+outbound:mail"}}},
		{"its authority", func() { w.put(outsideKind, meshName, "maps", outside("maps.example:80", "maps", rootCA)) },
			map[string][]string{"web-1": {"+maps@by-name"}, "jobs-1": {"+maps@by-name"}}},
		{"another host of one service", func() { w.put(outsideKind, meshName, "maps-2", outside("10.1.1.1:81", "maps", rootCA)) },
			map[string][]string{"web-1": {"+maps@by-name"}, "jobs-1": {"+maps@by-name"}}},
		{"it moves to a service that nobody calls", func() { w.put(outsideKind, meshName, "maps-2", outside("10.1.1.1:81", "news", rootCA)) },
			map[string][]string{"web-1": {"+maps@by-name"}, "jobs-1": {"+maps@by-name"}}},
		{"one that nobody calls", func() { w.put(outsideKind, meshName, "maps-2", outside("10.1.1.2:81", "news", "")) }, nil},
		{"an endpoint of the mesh", func() { w.put(mesh.Dataplanes, meshName, "backend-2", dataplane("127.0.0.12", "backend", "http")) },
			map[string][]string{"web-1": {"+backend"}, "jobs-1": {"+backend"}}},
		{"the mesh serves it, too", func() { w.put(mesh.Dataplanes, meshName, "mail-1", dataplane("127.0.0.13", "mail", "http")) },
			map[string][]string{"web-1": {"+mail", "-mail@by-name", "+mail", "+outbound:mail"}}},
		{"the mesh serves it no more", func() { w.drop(mesh.Dataplanes, "mail-1") },
			map[string][]string{"web-1": {"+mail@by-name", "-mail", "-mail", "+outbound:mail"}}},
		{"it is gone", func() { w.drop(outsideKind, "mail") },
			map[string][]string{"web-1": {"+mail", "-mail@by-name", "+mail", "+outbound:127.0.0.1:10002", "-outbound:mail"}}},
	})
}

// step is a change.
type step struct {
	name   string
	change func()
	// want are the names of what changes, by proxy.
	want map[string][]string
}

// hold makes one change after the other and demands that exactly what a step says changes
// at some proxies.
func (w *world) hold(t *testing.T, proxies []string, steps []step) {
	t.Helper()
	for _, step := range steps {
		t.Run(step.name, func(t *testing.T) {
			before := map[string]*resource.Set{}
			for _, name := range proxies {
				before[name] = w.planner.Set(name)
			}
			step.change()
			w.settle()
			got := map[string][]string{}
			for name, set := range before {
				if names := changed(set, w.planner.Set(name)); len(names) > 0 {
					got[name] = names
				}
			}
			if !maps.EqualFunc(got, step.want, slices.Equal[[]string]) {
				t.Errorf("changed are\n%v, want\n%v", got, step.want)
			}
		})
	}
}

// TestDestinationThatCannotBeMade: a cluster stays as it was while what it demands of its
// host is what is due, and goes if not, or if its kind cannot tell.
func TestDestinationThatCannotBeMade(t *testing.T) {
	for _, ca := range []string{"broken", "unsaid"} {
		t.Run(ca, func(t *testing.T) {
			w := abroad(t)
			w.put(outsideKind, meshName, "maps", outside("maps.example:80", "maps", ca))
			w.replan()
			for _, name := range []string{"web-1", "jobs-1"} {
				if w.planner.Set(name).Get(resource.Cluster, "maps@by-name") != nil {
					t.Errorf("%s still calls in clear what is to prove itself", name)
				}
				if len(w.planner.Failures(name)) == 0 {
					t.Errorf("nobody hears of it at %s", name)
				}
			}
			if w.planner.Set("web-1").Get(resource.Cluster, "mail@by-name") == nil {
				t.Error("another destination went along")
			}
		})
	}
}

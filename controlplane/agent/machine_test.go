package agent

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/resource"
)

// workloadAt returns the cluster of a workload.
func workloadAt(t *testing.T, address string, port uint32) []byte {
	t.Helper()
	body, err := proto.Marshal(&clusterv3.Cluster{LoadAssignment: &endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
				Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
			}}},
		}}}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestWorkloadsAreNotTheAgents: the holder of a proxy's token chooses where its workload
// is, but not at the ports of the agent and of Envoy, nor on other machines.
func TestWorkloadsAreNotTheAgents(t *testing.T) {
	p := newJoinPlane(t)
	o, _ := p.options(t)
	o.StatusAddress, o.AdminPort, o.WorkloadAddresses = "127.0.0.1:0", 9901, []netip.Prefix{netip.MustParsePrefix("192.0.2.0/28")}
	a := newAgent(t, o)
	stop, err := a.serveStatus(&status{})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	port := uint32(a.statusPort)
	live, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/live", port))
	if err != nil || live.StatusCode != http.StatusOK {
		t.Fatalf("the status is not at its port: %v %v", live, err)
	}
	_ = live.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	const operators, elsewhere = "answers operators", "neither this machine"
	for _, test := range []struct {
		address string
		port    uint32
		sidecar string
		gateway string
	}{
		{"127.0.0.1", 8080, "", ""}, {"192.0.2.1", 8080, "", ""}, {"192.0.2.77", 8080, elsewhere, ""},
		{"127.0.0.1", 9901, operators, operators}, {"::1", 9901, operators, operators}, {"127.0.0.1", port, operators, operators}, {"0.0.0.0", port, operators, operators},
	} {
		a.Sidecar = o.Sidecar
		_, err := a.machine().Admit(string(resource.Cluster), workloadAt(t, test.address, test.port))
		a.Sidecar = nil
		_, asGateway := a.machine().Admit(string(resource.Cluster), workloadAt(t, test.address, test.port))
		for _, x := range []struct {
			got  error
			want string
		}{{err, test.sidecar}, {asGateway, test.gateway}} {
			if (x.got == nil) != (x.want == "") || x.got != nil && !strings.Contains(x.got.Error(), x.want) {
				t.Errorf("%s:%d: %v, want %q", test.address, test.port, x.got, x.want)
			}
		}
	}
}

// TestAgentsTakeTheirOwnFilter: an agent takes the filter in its own mode only. A sidecar has
// the module.
func TestAgentsTakeTheirOwnFilter(t *testing.T) {
	asks, err := anypb.New(&authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_Disabled{Disabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	table, err := proto.Marshal(&routev3.RouteConfiguration{TypedPerFilterConfig: map[string]*anypb.Any{contract.ExtAuthzFilter: asks}})
	if err != nil {
		t.Fatal(err)
	}
	for mode, taken := range map[contract.Mode]bool{contract.ModeModule: false, contract.ModeGolang: false, contract.ModeExtAuthz: true} {
		a := &Agent{Options: Options{Filter: mode}}
		if _, err := a.machine().Admit(string(resource.Route), table); (err == nil) != taken {
			t.Errorf("%s: %v", mode, err)
		}
	}
	a := &Agent{Options: Options{Sidecar: &Sidecar{}}}
	if _, err := a.machine().Admit(string(resource.Route), table); err == nil || !strings.Contains(err.Error(), "filter.mode module") {
		t.Errorf("a sidecar: %v", err)
	}
}

// TestAgentsLendNoControlPlane: a proxy of a mesh beside the control plane leads nobody to ports
// where that trusts its machine, also after a start without it. A gateway may lead there.
func TestAgentsLendNoControlPlane(t *testing.T) {
	p := newJoinPlane(t)
	p.trusting = []uint16{8001}
	o, _ := p.options(t)
	leads := func(a *Agent) bool {
		t.Helper()
		_, err := a.machine().Admit(string(resource.Cluster), workloadAt(t, "127.0.0.1", 8001))
		if err != nil && !strings.Contains(err.Error(), "for an administrator") {
			t.Fatal(err)
		}
		return err == nil
	}
	a := newAgent(t, o)
	if !leads(a) {
		t.Error("before the control plane has said anything")
	}
	if _, err := a.enrolFirst(t.Context()); err != nil {
		t.Fatal(err)
	}
	if leads(a) {
		t.Error("an enrolled proxy lends the control plane")
	}
	next := newAgent(t, o)
	if err := next.dir.refresh(next); err != nil {
		t.Fatal(err)
	}
	if leads(next) {
		t.Error("one that starts without the control plane lends it")
	}
	next.Sidecar = nil
	if !leads(next) {
		t.Error("a gateway leads nobody there")
	}
	p.trusting = nil
	if _, err := a.enrolFirst(t.Context()); err != nil || !leads(a) {
		t.Errorf("what the control plane no longer trusts: %v", err)
	}
}

// TestLentLate: a proxy that started before the ports were known is judged by them once they are: after
// its enrolment, or when it registers again.
func TestLentLate(t *testing.T) {
	p := newJoinPlane(t)
	p.cluster = workloadAt(t, "127.0.0.1", 8001)
	o, _ := p.options(t)
	for name, hear := range map[string]func(*Agent, context.Context){"enrolled later": (*Agent).enrolLater, "registered again": (*Agent).registerAgain} {
		t.Run(name, func(t *testing.T) {
			p.trusting = nil
			a := newAgent(t, o)
			told := make(chan error, 100)
			stream, err := a.newRelayTo(t.Context(), func(err error) { told <- err })
			if err != nil {
				t.Fatal(err)
			}
			a.relay.Store(stream)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- stream.Run(ctx) }()
			defer func() { stop(); <-ended }()
			if err := <-told; err != nil {
				t.Fatal(err)
			}
			p.trusting = []uint16{8001}
			hear(a, t.Context())
			if err := <-told; err != nil { // the stream on which it hears of the refusal
				t.Fatal(err)
			}
			if _, err := a.machine().Admit(string(resource.Cluster), p.cluster); err == nil {
				t.Error("the ports are not guarded")
			}
		})
	}
}

// TestEgressesLeadToNames: of the proxies of zones only egresses lead to names, and only to those that
// they were started with.
func TestEgressesLeadToNames(t *testing.T) {
	for proxyType, takes := range map[string]map[string]bool{
		mesh.ProxyEgress:  {"mail.example.com": true, "mail.example.org": false, "localhost": false},
		mesh.ProxyIngress: {"mail.example.com": false},
	} {
		a := &Agent{Options: Options{Sidecar: &Sidecar{ZoneType: proxyType}, ExternalNames: []hostname.Suffix{"example.com"}}}
		for name, want := range takes {
			if err := a.machine().Reaches(name, 443); (err == nil) != want {
				t.Errorf("%s, %s: %v", proxyType, name, err)
			}
		}
	}
}

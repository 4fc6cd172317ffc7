package machine_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	factsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	proxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/proxy_protocol/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/hostname"
	"github.com/meshgate/meshgate/xds/machine"
)

const adminPort, statusPort = 9901, 9902

// here is the machine of a sidecar whose only interface has the address 10.0.0.7.
var here = machine.Bounds{
	Admin: adminPort, Status: statusPort, Workloads: true, Allowed: []netip.Prefix{netip.MustParsePrefix("172.18.0.0/16"), netip.MustParsePrefix("169.254.7.0/24")},
	Local: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil },
}

func at(address string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: address, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// leading returns a cluster with an endpoint of its own.
func leading(kind clusterv3.Cluster_DiscoveryType, e *endpointv3.Endpoint) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: "any", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: kind},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: e},
		}}}}},
	}
}

func holds(t *testing.T, b machine.Bounds, what string, m proto.Message, want string) {
	t.Helper()
	_, err := admit(t, b, m)
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

const operators, secrets, elsewhere = "answers operators", "where machines are told secrets", "--workload-address"

// TestWorkloadsAreOfTheMachine: a dataplane token alone must not make a proxy forward to any
// address that its machine can reach.
func TestWorkloadsAreOfTheMachine(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1": "", "127.9.9.9": "", "::1": "", "10.0.0.7": "", "::ffff:10.0.0.7": "", "172.18.0.5": "", "169.254.7.1": "", "0.0.0.0": "",
		"10.0.0.8": elsewhere, "8.8.8.8": elsewhere, "2001:db8::1": elsewhere, "169.254.169.254": elsewhere, "fe80::1": elsewhere, "fd00:ec2::254": elsewhere, "db.example": elsewhere, "": elsewhere,
	} {
		holds(t, here, address, leading(clusterv3.Cluster_STATIC, &endpointv3.Endpoint{Address: at(address, 80)}), want)
		other := &endpointv3.Endpoint{Address: at("127.0.0.1", 80), AdditionalAddresses: []*endpointv3.Endpoint_AdditionalAddress{{Address: at(address, 80)}}}
		holds(t, here, address+" beside another", leading(clusterv3.Cluster_STATIC, other), want)
	}
	// Destinations may be elsewhere, and so may those of gateways.
	holds(t, here, "an assignment", address(at("10.0.0.8", 80)), "")
	holds(t, here, "a name", leading(clusterv3.Cluster_STRICT_DNS, &endpointv3.Endpoint{Address: at("db.example", 80)}), "")
	holds(t, machine.Bounds{}, "of a gateway", leading(clusterv3.Cluster_STATIC, &endpointv3.Endpoint{Address: at("10.0.0.8", 80)}), "")
	blind := here
	blind.Local = func() ([]netip.Addr, error) { return nil, errors.New("no") }
	holds(t, blind, "who does not know itself", leading(clusterv3.Cluster_STATIC, &endpointv3.Endpoint{Address: at("10.0.0.7", 80)}), elsewhere)
	holds(t, blind, "who does not know itself", address(at("10.0.0.7", adminPort)), operators)
	system := machine.Bounds{Workloads: true}
	holds(t, system, "of the interfaces", leading(clusterv3.Cluster_STATIC, &endpointv3.Endpoint{Address: at("192.0.2.1", 80)}), elsewhere)
}

// TestApplicationsAreOfTheMachine: an agent asks for metrics where workloads are, and nowhere else.
func TestApplicationsAreOfTheMachine(t *testing.T) {
	for address, good := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "10.0.0.7:80": true, "172.18.0.9:80": true, "169.254.7.7:80": true, "[::ffff:127.0.0.1]:80": true,
		"10.0.0.8:80": false, "192.0.2.1:80": false, "169.254.169.254:80": false, "[fd00:ec2::254]:80": false,
		"127.0.0.1:9901": false, "10.0.0.7:9902": false, "[::1]:9901": false, "172.18.0.9:9901": true,
	} {
		if err := here.Asks(netip.MustParseAddrPort(address)); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestUnreadMachine: a refusal that is made only because the addresses of the machine are not known
// says so, and none other does.
func TestUnreadMachine(t *testing.T) {
	blind := here
	blind.Local = func() ([]netip.Addr, error) { return nil, errors.New("no") }
	for address, unread := range map[string]bool{
		"10.0.0.7:80": true, "10.0.0.8:80": true, "172.18.0.9:9901": true, "127.0.0.1:9901": false, "169.254.169.254:80": true,
	} {
		if err := blind.Asks(netip.MustParseAddrPort(address)); err == nil || errors.Is(err, machine.ErrUnread) != unread {
			t.Errorf("%s: %v", address, err)
		}
		if err := here.Asks(netip.MustParseAddrPort(address)); errors.Is(err, machine.ErrUnread) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := blind.Asks(netip.MustParseAddrPort("127.0.0.1:80")); err != nil {
		t.Error(err)
	}
}

// TestStrangersAreLedElsewhere: a proxy that leads strangers, such as an ingress, leads them to no
// address of its own machine but those it was started with, and to no name.
func TestStrangersAreLedElsewhere(t *testing.T) {
	b := here
	b.Workloads, b.Elsewhere = false, true
	for _, own := range []string{"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "10.0.0.7"} {
		holds(t, b, own, address(at(own, 5682)), elsewhere)
		holds(t, b, own, leading(clusterv3.Cluster_EDS, &endpointv3.Endpoint{Address: at(own, 5682)}), elsewhere)
	}
	for name, want := range map[string]string{"localhost": "which is this machine", "db.example": "nobody knows whether that will be this machine: an egress needs --external-name"} {
		holds(t, b, name, address(at(name, 5682)), want)
	}
	holds(t, b, "another machine", address(at("10.0.0.8", 5682)), "")
	b.Allowed = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	holds(t, b, "an address that it was started with", address(at("127.0.0.3", 8080)), "")
	holds(t, b, "the port of operators there", address(at("127.0.0.3", adminPort)), operators)
}

// TestNamesForStrangers: of names, such a proxy leads to those that it was started with, never to its
// own, and to no port of operators by any.
func TestNamesForStrangers(t *testing.T) {
	some, all := here, here
	some.Workloads, some.Elsewhere, some.Names = false, true, []hostname.Suffix{"example.org", "example.com"}
	all.Workloads, all.Elsewhere, all.Names = false, true, []hostname.Suffix{hostname.Any}
	const trusting = 5681
	some.Trusting = func() []uint16 { return []uint16{trusting} }
	all.Trusting = some.Trusting
	const unknown, own, number, trusts = "--external-name", "which is this machine", "may read as an address", "for an administrator"
	for _, test := range []struct {
		name      string
		port      uint32
		some, all string
	}{
		{"example.com", 443, "", ""}, {"Mail.Example.com.", 443, "", ""}, {"a.b.example.org", 443, "", ""},
		{"mail.example", 443, unknown, ""}, {"badexample.com", 443, unknown, ""}, {"example.com.test", 443, unknown, ""}, {"com", 443, unknown, ""},
		{"localhost", 443, own, own}, {"a.LocalHost.", 443, own, own}, {"metadata.google.internal", 80, own, own}, {"localhost\x00.example.com", 443, unknown, unknown},
		{"mail.example.com", adminPort, operators, operators}, {"mail.example.com", statusPort, operators, operators}, {"mail.example.com", trusting, trusts, trusts},
		{"0x7f000001", 443, unknown, number}, {"127.1", 443, unknown, number},
	} {
		for _, x := range []struct {
			what string
			b    machine.Bounds
			want string
		}{{"some: ", some, test.some}, {"all: ", all, test.all}} {
			holds(t, x.b, x.what+test.name, leading(clusterv3.Cluster_STRICT_DNS, &endpointv3.Endpoint{Address: at(test.name, test.port)}), x.want)
		}
	}
	probe := &endpointv3.Endpoint{Address: at("mail.example.com", 443), HealthCheckConfig: &endpointv3.Endpoint_HealthCheckConfig{Hostname: "mail.example.com"}}
	holds(t, some, "a check without an address", leading(clusterv3.Cluster_STRICT_DNS, probe), "")
	probe.HealthCheckConfig.Address = at("mail.example", 0)
	holds(t, some, "a check at another name", leading(clusterv3.Cluster_STRICT_DNS, probe), unknown)
	// Addresses are what they were.
	holds(t, all, "loopback", address(at("127.0.0.1", 443)), elsewhere)
	holds(t, all, "metadata", address(at("169.254.169.254", 80)), secrets)
}

// TestNothingLeadsToOperatorsPorts covers proxies of a mesh, gateways and health checks, whose
// requests can have any method and path.
func TestNothingLeadsToOperatorsPorts(t *testing.T) {
	wide := here
	wide.Allowed = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	gateway := here
	gateway.Workloads = false
	for what, b := range map[string]machine.Bounds{"sidecar": here, "all allowed": wide, "gateway": gateway} {
		for _, address1 := range []string{"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "10.0.0.7", "localhost", "a.LocalHost."} {
			for _, port := range []uint32{adminPort, statusPort} {
				holds(t, b, what+": "+address1, address(at(address1, port)), operators)
				holds(t, b, what+": "+address1, leading(clusterv3.Cluster_STRICT_DNS, &endpointv3.Endpoint{Address: at(address1, port)}), operators)
			}
			holds(t, b, what+": "+address1, address(at(address1, 9100)), "")
		}
		holds(t, b, what+": another machine", address(at("10.0.0.8", adminPort)), "")
		holds(t, b, what+": a name", leading(clusterv3.Cluster_STRICT_DNS, &endpointv3.Endpoint{Address: at("a.example", adminPort)}), operators)
		holds(t, b, what+": a name", leading(clusterv3.Cluster_STRICT_DNS, &endpointv3.Endpoint{Address: at("a.example", statusPort)}), "")
		for _, odd := range []string{"127.1", "2130706433", "0x7f000001", "0X7F000001", "0177.0.0.1", "a.0x7f.", "0x", "127.0x", "340282366920938463463374607431768211456"} {
			holds(t, b, what+": "+odd, address(at(odd, 80)), "may read as an address")
		}
		for _, name := range []string{"9f3c2a4b5d6e", "db-1", "1.example", "2048game"} {
			holds(t, b, what+": "+name, address(at(name, 80)), "")
		}
		probe := func(e, of *corev3.Address, port uint32) proto.Message {
			return leading(clusterv3.Cluster_STRICT_DNS, &endpointv3.Endpoint{Address: e, HealthCheckConfig: &endpointv3.Endpoint_HealthCheckConfig{Address: of, PortValue: port}})
		}
		holds(t, b, what+": its port", probe(at("127.0.0.1", 9100), nil, adminPort), operators)
		holds(t, b, what+": its address", probe(at("10.0.0.8", adminPort), at("127.0.0.1", 0), 0), operators)
		holds(t, b, what+": both", probe(at("10.0.0.8", 80), at("127.0.0.1", 0), statusPort), operators)
		holds(t, b, what+": neither", probe(at("10.0.0.8", 80), at("127.0.0.1", 0), 9100), "")
		holds(t, b, what+": of all", &clusterv3.Cluster{HealthChecks: []*corev3.HealthCheck{{AltPort: wrapperspb.UInt32(adminPort)}}}, operators)
		holds(t, b, what+": of all", &clusterv3.Cluster{HealthChecks: []*corev3.HealthCheck{{AltPort: wrapperspb.UInt32(9100)}}}, "")
	}
	named := &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_NamedPort{NamedPort: "admin"},
	}}}
	holds(t, here, "a port by name", address(named), "a port by a name")
}

// TestLinkLocalAddressesMustBeAllowed: clouds give machines their credentials at such
// addresses.
func TestLinkLocalAddressesMustBeAllowed(t *testing.T) {
	for text, want := range map[string]string{
		"169.254.169.254": secrets, "fe80::1": secrets, "fe80::1%eth0": secrets, "::ffff:169.254.169.254": secrets, "fd00:ec2::254": secrets, "100.100.100.200": secrets,
		"fd00:ec2::23": secrets, "fd20:ce::254": secrets, "168.63.129.16": secrets, "192.0.0.192": secrets, "fd00:42::42": secrets,
		"169.254.7.1": "", "10.0.0.8": "", "fd00::1": "",
	} {
		holds(t, here, text, address(at(text, 80)), want)
		holds(t, here, text, leading(clusterv3.Cluster_STRICT_DNS, &endpointv3.Endpoint{Address: at(text, 80)}), want)
	}
	holds(t, machine.Bounds{}, "with nothing said", address(at("169.254.169.254", 80)), secrets)
}

// TestRequestsChooseNoAddress: redirected connections go to their original address. No header
// and no filter may choose another one.
func TestRequestsChooseNoAddress(t *testing.T) {
	original := func(c *clusterv3.Cluster_OriginalDstLbConfig_) proto.Message {
		m := &clusterv3.Cluster{ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_ORIGINAL_DST}, LbPolicy: clusterv3.Cluster_CLUSTER_PROVIDED}
		m.UpstreamBindConfig = &corev3.BindConfig{SourceAddress: at("169.254.9.9", 0).GetSocketAddress()} // the source address, not the destination
		if c != nil {
			m.LbConfig = c
		}
		return m
	}
	state := func(key string) proto.Message {
		return &listenerv3.Listener{Address: at("0.0.0.0", adminPort), FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(t, &statev3.Config{OnNewConnection: []*factsv3.FilterStateValue{{
				Key: &factsv3.FilterStateValue_ObjectKey{ObjectKey: key},
			}}})},
		}}}}}
	}
	const chosen = "has each request choose"
	holds(t, here, "as it went", original(nil), "")
	holds(t, here, "by a header", original(&clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{UseHttpHeader: true}}), chosen)
	holds(t, here, "another port", original(&clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{UpstreamPortOverride: wrapperspb.UInt32(adminPort)}}), chosen)
	holds(t, here, "by a filter", state("envoy.network.transport_socket.original_dst_address"), chosen)
	holds(t, here, "another fact, and a listener", state("meshgate.fact"), "")
}

// TestClientsChooseNoAddress: a header of the PROXY protocol tells where a connection was
// going to, and a cluster of original destinations believes it.
func TestClientsChooseNoAddress(t *testing.T) {
	filter, err := anypb.New(&proxyv3.ProxyProtocol{})
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]*listenerv3.Listener{
		"a listener filter": {Name: "l", ListenerFilters: []*listenerv3.ListenerFilter{{
			Name: "any", ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: filter},
		}}},
		"a field of a chain": {Name: "l", FilterChains: []*listenerv3.FilterChain{{UseProxyProto: wrapperspb.Bool(true)}}},
	} {
		holds(t, here, name, l, "choose the address")
	}
}

// TestNobodyIsLentTheControlPlane: where the control plane is on the machine and trusts whoever is
// there, nothing leads to its ports: no address of the machine, and no name, which may become one.
func TestNobodyIsLentTheControlPlane(t *testing.T) {
	const trusted, plane = "for an administrator", 5681
	beside := here
	beside.Trusting = func() []uint16 { return []uint16{8001, plane} }
	for to, want := range map[string]string{
		"127.0.0.1": trusted, "127.9.9.9": trusted, "::1": trusted, "::ffff:127.0.0.1": trusted, "0.0.0.0": trusted, "::": trusted, "10.0.0.7": trusted,
		"localhost": trusted, "any.example": trusted, "10.0.0.8": "", "172.18.0.5": "",
	} {
		holds(t, beside, to, address(at(to, plane)), want)
		holds(t, here, to+" without it", address(at(to, plane)), "")
		holds(t, beside, to+", by a name", leading(clusterv3.Cluster_STRICT_DNS, &endpointv3.Endpoint{Address: at(to, plane)}), want)
	}
	holds(t, beside, "another port", address(at("127.0.0.1", 5682)), "")
	holds(t, beside, "its own workload", leading(clusterv3.Cluster_STATIC, &endpointv3.Endpoint{Address: at("127.0.0.1", 8001)}), trusted)
	holds(t, beside, "a check with a port of its own", &corev3.HealthCheck{AltPort: wrapperspb.UInt32(plane)}, trusted)
	if err := beside.Asks(netip.MustParseAddrPort("127.0.0.1:5681")); err == nil || !strings.Contains(err.Error(), trusted) {
		t.Errorf("a probe: %v", err)
	}
	if err := beside.Reaches("any.example", plane); err == nil || !strings.Contains(err.Error(), trusted) {
		t.Errorf("a line of a log: %v", err)
	}
	if b, left, err := endpoints(t, beside, assigned([]*corev3.Address{at("10.0.0.8", plane), at("127.0.0.1", plane)})); err != nil || len(left) != 1 || strings.Contains(string(b), "127.0.0.1") {
		t.Errorf("one of two endpoints: %v %v", left, err)
	}
}

package sidecar

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/collector"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/plan"
)

// externalServices are the services outside the mesh that have a name in it.
type externalServices struct{}

// marking is a kind of destinations whose clusters have other names if they are protected
// otherwise. An agent that refuses a cluster keeps the earlier one of its name. So no earlier
// cluster with another protection stays in use.
type marking interface {
	DestinationKind
	// Mark returns what ends the name of the cluster; it may be empty.
	Mark(t Transport) string
}

// Kind implements [DestinationKind].
func (externalServices) Kind() *model.Kind { return mesh.ExternalServices }

// Proxyless implements [proxyless].
func (externalServices) Proxyless() {}

// Find implements [DestinationKind].
func (externalServices) Find(m *view.Mesh, service string) view.Destination {
	if l := m.Located(mesh.ExternalServices, service); l != nil {
		return l
	}
	return nil
}

// Inline implements [DestinationKind]: the protection of each endpoint is in the cluster, so the
// endpoint is, too.
func (externalServices) Inline(mesh.Tags, view.Destination) bool { return true }

// protections say how the endpoints of a service are protected. They are empty if all are called in
// clear.
type protections struct {
	// text is JSON, from which the cluster is made.
	text string
	// demands is the same without the names of secrets. With another key the cluster is the same
	// one, so that Envoy goes on with the earlier key until it has the other one. An earlier key
	// is no weaker protection, and what is demanded of the server is in demands.
	demands string
}

// protected is one endpoint in protections.
type protected struct {
	Address string
	Port    uint32
	// TLS is nil for an endpoint that is called in clear.
	TLS *mesh.ExternalProtection
}

// Transport implements [DestinationKind].
func (externalServices) Transport(_ Around, d view.Destination) Transport {
	var all []protected
	var demands []protected
	sealed := false
	for _, s := range d.(*view.Located).Specs {
		e := s.(*mesh.External)
		host, port := e.Location()
		tls := e.Protection()
		sealed = sealed || tls != nil
		all = append(all, protected{host, port, tls})
	}
	if !sealed {
		return Transport{Own: protections{}}
	}
	slices.SortStableFunc(all, func(a, b protected) int {
		return cmp.Or(cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port))
	})
	for _, x := range all {
		if x.TLS != nil && x.TLS.Client != "" {
			own := *x.TLS
			own.Client = presents
			x.TLS = &own
		}
		demands = append(demands, x)
	}
	return Transport{Own: protections{encoded(all), encoded(demands)}}
}

// presents stands for the name of any secret.
const presents = "presents"

// encoded returns JSON of texts, numbers and truth values, which always encode.
func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Mark implements [marking].
func (externalServices) Mark(t Transport) string {
	own, _ := t.Own.(protections)
	if own.text == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(own.demands))
	return apart + "tls-" + hex.EncodeToString(sum[:8])
}

// confiding is a kind of destinations for which proxies have secrets of their own.
type confiding interface {
	DestinationKind
	// Confides returns the names of the secrets that a cluster asks for.
	Confides(t Transport) []string
}

// Confides implements [confiding].
func (externalServices) Confides(t Transport) (names []string) {
	all, _ := protectionsOf(t)
	for _, x := range all {
		if x.TLS != nil && x.TLS.Client != "" {
			names = append(names, x.TLS.Client)
		}
	}
	return names
}

// protectionsOf returns the endpoints of a service and how each is protected, none if all are
// called in clear.
func protectionsOf(t Transport) (all []protected, err error) {
	if own, _ := t.Own.(protections); own.text != "" {
		err = json.Unmarshal([]byte(own.text), &all)
	}
	return all, err
}

// Keeps implements [DestinationKind].
func (externalServices) Keeps(_ Around, was, due Transport) bool {
	a, _ := was.Own.(protections)
	b, _ := due.Own.(protections)
	return a.demands == b.demands
}

// Cluster implements [DestinationKind]. Envoy resolves the endpoints also if all are addresses:
// in the eyes of agents, a cluster with fixed addresses leads to a workload of the machine.
func (externalServices) Cluster(d *draft.Cluster, in ClusterInput) error {
	if err := discover(d.Proto, in); err != nil {
		return err
	}
	if !isHTTP2(d.Protocol) {
		d.HTTP = http1()
	}
	checkByName(in.Members)
	all, err := protectionsOf(in.Transport)
	if err != nil || len(all) == 0 {
		return err
	}
	for _, x := range all {
		if x.TLS != nil && x.TLS.Wrong != "" {
			return fmt.Errorf("the ExternalService at %s: %s", hostPort(x.Address, x.Port), x.TLS.Wrong)
		}
	}
	return protect(d, in.Members, all)
}

// checkByName has health checks ask each endpoint by its own host name, as requests do. A server
// with several names answers others with an error.
func checkByName(members *endpointv3.ClusterLoadAssignment) {
	for _, l := range members.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			name := e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
			if _, err := netip.ParseAddr(name); err != nil {
				e.GetEndpoint().HealthCheckConfig = &endpointv3.Endpoint_HealthCheckConfig{Hostname: name}
			}
		}
	}
}

// ownSocket is the key in the metadata of endpoints by which Envoy chooses their socket.
const ownSocket = "external"

// protect gives each endpoint of a cluster the socket of its protection. An endpoint that has
// none of its own gets the first one with TLS, so that nothing is sent in clear by mistake.
func protect(d *draft.Cluster, members *endpointv3.ClusterLoadAssignment, all []protected) error {
	c := d.Proto
	sockets := map[string]*corev3.TransportSocket{}
	marks := map[string]string{}
	for _, x := range all {
		at := hostPort(x.Address, x.Port)
		socket, mark, err := socketOf(x.TLS, isHTTP2(d.Protocol))
		if err != nil {
			return err
		}
		if other, is := marks[at]; is && other != mark {
			return fmt.Errorf("several ExternalServices of one service are at %s, and they demand different protections", at)
		}
		if marks[at] = mark; sockets[mark] != nil {
			continue
		}
		sockets[mark] = socket
		if c.TransportSocket == nil && x.TLS != nil {
			c.TransportSocket = socket
		}
		c.TransportSocketMatches = append(c.TransportSocketMatches, &clusterv3.Cluster_TransportSocketMatch{Name: mark, Match: socketMark(mark), TransportSocket: socket})
	}
	for _, l := range members.GetEndpoints() {
		for _, e := range l.GetLbEndpoints() {
			a := e.GetEndpoint().GetAddress().GetSocketAddress()
			if e.Metadata == nil {
				e.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{}}
			}
			e.Metadata.FilterMetadata[socketMatch] = socketMark(marks[hostPort(a.GetAddress(), a.GetPortValue())])
		}
	}
	return nil
}

func socketMark(mark string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{ownSocket: structpb.NewStringValue(mark)}}
}

// socketOf returns the socket of a protection, and a text that differs for different ones.
func socketOf(t *mesh.ExternalProtection, http2 bool) (*corev3.TransportSocket, string, error) {
	name, mark := rawSocket, clearText
	var m proto.Message = &rawv3.RawBuffer{}
	if t != nil {
		text, err := json.Marshal(t)
		if err != nil {
			return nil, "", err
		}
		sum := sha256.Sum256(text)
		name, mark, m = tlsSocket, hex.EncodeToString(sum[:8]), externalTLS(t, http2)
	}
	packed, err := plan.Pack(m)
	if err != nil {
		return nil, "", err
	}
	return &corev3.TransportSocket{Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}, mark, nil
}

// externalTLS demands a certificate that the authorities signed and that has the name. Without
// authorities Envoy would verify nothing. So agents put the file of their machine in the place of
// the one that is named here, and refuse the cluster if there is none.
func externalTLS(t *mesh.ExternalProtection, http2 bool) *tlsv3.UpstreamTlsContext {
	roots := &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: t.Roots}}
	if t.System {
		roots.Specifier = &corev3.DataSource_Filename{Filename: collector.Roots}
	}
	demand := &tlsv3.CertificateValidationContext{TrustedCa: roots}
	ip, err := netip.ParseAddr(t.Name)
	if !t.AnyName {
		kind, name := tlsv3.SubjectAltNameMatcher_DNS, t.Name
		if err == nil {
			kind, name = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, ip.String()
		}
		demand.MatchTypedSubjectAltNames = []*tlsv3.SubjectAltNameMatcher{{
			SanType: kind, Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}},
		}}
	}
	out := &tlsv3.UpstreamTlsContext{
		AllowRenegotiation: t.Renegotiate,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:             plan.TLSVersions(),
			ValidationContextType: &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: demand},
		},
	}
	if t.Client != "" {
		out.CommonTlsContext.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{{Name: t.Client, SdsConfig: plan.ADS()}}
	}
	if http2 { // over TLS it is agreed on (RFC 9113 section 3.2)
		out.CommonTlsContext.AlpnProtocols = []string{"h2"}
	}
	if err != nil { // an address is no server name (RFC 6066 section 3)
		out.Sni = t.Name
	}
	return out
}

// Lead implements [DestinationKind]: a service outside is asked for by its own host name, and
// several by that of the first that has one. At IP addresses it is asked for what the caller
// asked for.
func (externalServices) Lead(tags mesh.Tags, d view.Destination) any {
	all := d.Members()
	for i := range all {
		if mesh.Matches(tags, all[i].Tags) && !all[i].IsIP() {
			return all[i].Address
		}
	}
	return nil
}

// Route implements [DestinationKind].
func (externalServices) Route(t *draft.Target, lead any) error {
	t.Ask(lead.(string))
	return nil
}

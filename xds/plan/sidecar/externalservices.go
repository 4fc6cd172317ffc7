package sidecar

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strings"

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

// externalServices are the services outside the mesh that have a name in it, and that callers call
// themselves.
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
	if l := m.Located(mesh.ExternalServices, service); l != nil && !m.LeavesByEgress() {
		return l
	}
	return nil
}

// Inline implements [DestinationKind]: the protection of each endpoint is in the cluster, so the
// endpoint is, too.
func (externalServices) Inline(mesh.Tags, view.Destination) bool { return true }

// protections say how the endpoints of a destination are protected. They are empty if all are
// called in clear.
type protections struct {
	// own is a digest of all of them, and demands one without the names of secrets. With another
	// key the cluster is the same one, so that Envoy goes on with the earlier key until it has the
	// other one. An earlier key is no weaker protection.
	own, demands string
	// secrets are the names of the secrets that the cluster asks for, one on each line.
	secrets string
}

// locating returns the ExternalServices of a destination that have some tags, ordered by where they
// are. Nothing of the others is in a cluster for these tags: their certificates are none of its
// callers' business.
func locating(tags mesh.Tags, d view.Destination) (all []*mesh.External) {
	for _, s := range d.(*view.Located).Specs {
		e := s.(*mesh.External)
		if slices.ContainsFunc(e.Locates(), func(at mesh.Endpoint) bool { return mesh.Matches(tags, at.Tags) }) {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b *mesh.External) int {
		aHost, aPort := a.Location()
		bHost, bPort := b.Location()
		return cmp.Or(cmp.Compare(aHost, bHost), cmp.Compare(aPort, bPort))
	})
	return all
}

// Transport implements [DestinationKind].
func (externalServices) Transport(_ Around, tags mesh.Tags, d view.Destination) Transport {
	own, demands := sha256.New(), sha256.New()
	var secrets []string
	sealed := false
	for _, e := range locating(tags, d) {
		host, port := e.Location()
		_, _ = fmt.Fprintf(own, "%s %d %s\n", host, port, e.Digest())
		_, _ = fmt.Fprintf(demands, "%s %d %s\n", host, port, e.Demands())
		p := e.Protection()
		sealed = sealed || p != nil
		if p != nil && p.Client != "" {
			secrets = append(secrets, p.Client)
		}
	}
	if !sealed {
		return Transport{Own: protections{}}
	}
	return Transport{Own: protections{hex.EncodeToString(own.Sum(nil)), hex.EncodeToString(demands.Sum(nil)), strings.Join(secrets, "\n")}}
}

// Mark implements [marking].
func (externalServices) Mark(t Transport) string {
	own, _ := t.Own.(protections)
	if own.demands == "" {
		return ""
	}
	return apart + "tls-" + own.demands[:16]
}

// confiding is a kind of destinations for which proxies have secrets of their own.
type confiding interface {
	DestinationKind
	// Confides returns the names of the secrets that a cluster asks for.
	Confides(t Transport) []string
}

// Confides implements [confiding].
func (externalServices) Confides(t Transport) []string {
	own, _ := t.Own.(protections)
	return strings.FieldsFunc(own.secrets, func(r rune) bool { return r == '\n' })
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
	if own, _ := in.Transport.Own.(protections); own.demands == "" {
		return nil
	}
	all := locating(in.Tags, in.Destination)
	for _, e := range all {
		host, port := e.Location()
		if p := e.Protection(); p != nil && p.Wrong != "" {
			return fmt.Errorf("the ExternalService at %s: %s", hostPort(host, port), p.Wrong)
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

// maxRoots bounds the certificates of authorities in one cluster, in bytes. Everything that a proxy
// has travels in messages of bounded size, and it has more than this cluster.
const maxRoots = 4 << 20

// protect gives each endpoint of a cluster the socket of its protection. An endpoint that has
// none of its own gets the first one with TLS, so that nothing is sent in clear by mistake.
func protect(d *draft.Cluster, members *endpointv3.ClusterLoadAssignment, all []*mesh.External) error {
	c := d.Proto
	sockets := map[string]*corev3.TransportSocket{}
	marks := map[string]string{}
	roots := 0
	for _, e := range all {
		at, p := hostPort(e.Location()), e.Protection()
		socket, mark, err := socketOf(e, isHTTP2(d.Protocol))
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
		if p != nil {
			roots += len(p.Roots)
			if c.TransportSocket == nil {
				c.TransportSocket = socket
			}
		}
		if roots > maxRoots {
			return fmt.Errorf("the ExternalServices of one service have CA certificates of more than %d bytes together", maxRoots)
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
func socketOf(e *mesh.External, http2 bool) (*corev3.TransportSocket, string, error) {
	name, mark := rawSocket, clearText
	var m proto.Message = &rawv3.RawBuffer{}
	if p := e.Protection(); p != nil {
		name, mark, m = tlsSocket, e.Digest()[:16], externalTLS(p, http2)
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

package interpret

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
)

// socketMatch is the metadata of an endpoint by which its transport socket is chosen
// (config.cluster.v3.Cluster.transport_socket_matches).
const socketMatch = "envoy.transport_socket_match"

// secure says how connections to an endpoint are protected.
func (e *End) secure(c *clusterv3.Cluster, from *endpointv3.LbEndpoint) error {
	socket := c.GetTransportSocket()
	for _, m := range c.GetTransportSocketMatches() {
		if selects(m, from) {
			socket = m.GetTransportSocket()
			break
		}
	}
	if socket == nil || socket.GetTypedConfig().MessageIs((*rawv3.RawBuffer)(nil)) {
		return nil
	}
	u, err := unpack(socket.GetTypedConfig(), new(tlsv3.UpstreamTlsContext))
	if err != nil {
		return err
	}
	e.Secured = true
	e.Protocols = u.GetCommonTlsContext().GetAlpnProtocols()
	e.Identity = len(u.GetCommonTlsContext().GetTlsCertificateSdsSecretConfigs()) > 0
	e.Demands, err = demandsOf(u.GetCommonTlsContext())
	return err
}

// selects reports whether a socket is for an endpoint: if its metadata has everything that is
// asked for.
func selects(m *clusterv3.Cluster_TransportSocketMatch, e *endpointv3.LbEndpoint) bool {
	has := e.GetMetadata().GetFilterMetadata()[socketMatch].GetFields()
	for key, want := range m.GetMatch().GetFields() {
		if !proto.Equal(has[key], want) {
			return false
		}
	}
	return true
}

// demandsOf lists the names of which the certificate of a peer must have one.
func demandsOf(c *tlsv3.CommonTlsContext) ([]Demand, error) {
	if err := understood(c); err != nil {
		return nil, err
	}
	v := c.GetValidationContext()
	if combined := c.GetCombinedValidationContext(); combined != nil {
		v = combined.GetDefaultValidationContext()
	}
	if v == nil {
		return nil, nil
	}
	if err := understood(v); err != nil {
		return nil, err
	}
	var out []Demand
	for _, san := range v.GetMatchTypedSubjectAltNames() {
		if san.GetSanType() != tlsv3.SubjectAltNameMatcher_URI {
			continue // a certificate of another authority than the mesh's
		}
		if _, err := text(san.GetMatcher(), ""); err != nil {
			return nil, err
		}
		out = append(out, func(uri string) bool {
			ok, err := text(san.GetMatcher(), uri)
			return ok && err == nil
		})
	}
	return out, nil
}

// Fulfilled reports whether a certificate with some URIs fulfils demands. Without demands every
// certificate does.
func Fulfilled(demands []Demand, uris []string) bool {
	return len(demands) == 0 || slices.ContainsFunc(demands, func(d Demand) bool { return slices.ContainsFunc(uris, d) })
}

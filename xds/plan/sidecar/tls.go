package sidecar

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/plan"
	"github.com/meshgate/meshgate/xds/resource"
)

// tlsSocket is the name of Envoy's TLS transport socket.
const tlsSocket = "envoy.transport_sockets.tls"

// upstreamTLS proves who we are to what leads to a destination, and demands that it has the
// identity of a service.
func upstreamTLS(meshName string, tags mesh.Tags, service string) (*corev3.TransportSocket, error) {
	identity := mesh.SPIFFE(meshName, service)
	packed, err := plan.Pack(&tlsv3.UpstreamTlsContext{
		Sni: SNI(meshName, tags),
		CommonTlsContext: common(meshName, []string{mesh.ALPN}, &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: identity},
		}),
	})
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{Name: tlsSocket, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}, nil
}

// downstreamTLS demands a certificate of the mesh. No ALPN is offered: the
// client's "mesh" is for choosing the chain, and agreeing on it would keep Envoy
// from telling HTTP/2 by its preface. Peers as in [draft.Inbound]. Nobody resumes a
// session: a ticket stands for a certificate that Envoy would not look at again, and so
// would outlive its end.
func downstreamTLS(meshName string, peers []*matcherv3.StringMatcher) (*corev3.TransportSocket, error) {
	if len(peers) == 0 {
		peers = []*matcherv3.StringMatcher{{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: mesh.SPIFFE(meshName, "")}}}
	}
	return demand(common(meshName, nil, peers...))
}

// demand makes the socket that demands a certificate.
func demand(c *tlsv3.CommonTlsContext) (*corev3.TransportSocket, error) {
	packed, err := plan.Pack(&tlsv3.DownstreamTlsContext{
		RequireClientCertificate:         wrapperspb.Bool(true),
		CommonTlsContext:                 c,
		SessionTicketKeysType:            &tlsv3.DownstreamTlsContext_DisableStatelessSessionResumption{DisableStatelessSessionResumption: true},
		DisableStatefulSessionResumption: true,
	})
	if err != nil {
		return nil, err
	}
	return &corev3.TransportSocket{Name: tlsSocket, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed}}, nil
}

// common is the part of both sides. The peer's certificate has to have a name that one of
// the matchers matches; Envoy would take no matchers for everybody.
func common(meshName string, alpn []string, peers ...*matcherv3.StringMatcher) *tlsv3.CommonTlsContext {
	names := make([]*tlsv3.SubjectAltNameMatcher, 0, len(peers))
	for _, m := range peers {
		names = append(names, &tlsv3.SubjectAltNameMatcher{SanType: tlsv3.SubjectAltNameMatcher_URI, Matcher: m})
	}
	return &tlsv3.CommonTlsContext{
		AlpnProtocols:                  alpn,
		TlsParams:                      plan.TLSVersions(),
		TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{{Name: mesh.SecretIdentity(meshName), SdsConfig: plan.ADS()}},
		ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext: &tlsv3.CertificateValidationContext{
					MatchTypedSubjectAltNames: names,
				},
				ValidationContextSdsSecretConfig: &tlsv3.SdsSecretConfig{Name: mesh.SecretCA(meshName), SdsConfig: plan.ADS()},
			},
		},
	}
}

// caKey names the roots of a mesh.
type caKey struct{ mesh, roots string }

// trusted is the secret with the roots. It holds nothing secret and is part of
// the set, so that a change of it is confirmed like any other change.
func trusted(k caKey) (*resource.Resource, error) {
	return plan.Freeze(resource.Secret, mesh.SecretCA(k.mesh), &tlsv3.Secret{
		Name: mesh.SecretCA(k.mesh),
		Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: []byte(k.roots)}},
		}},
	})
}

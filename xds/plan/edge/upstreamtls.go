package edge

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/plan"
)

// tlsKey is how a server is spoken to in TLS; the zero value is for services
// that are not.
type tlsKey struct {
	// name is what the server is called: its host name or address.
	name string
	// targets are the names of those that are called by them instead, with spaces
	// between.
	targets string
	verify  bool
	depth   int // -1: unlimited
	// roots is a file of the proxy's machine; authorities, if set, are PEM
	// certificates that count instead.
	roots, authorities string
	// certificate is the secret with the client certificate, or empty.
	certificate string
	// missing is a reference to nothing, or empty.
	missing string
}

func tlsKeyOf(g *view.Gateway, s *view.Service, u *view.Upstream, p Params) tlsKey {
	own := g.Of(s.Scope)
	k := tlsKey{name: serverOf(s, u), depth: -1, roots: p.RootsFile}
	certificate := s.Spec.ClientCertificate
	if certificate == "" && u != nil {
		certificate = u.Spec.ClientCertificate
	}
	if certificate != "" {
		if _, ok := own.Certificate(certificate); !ok {
			k.missing = "certificate " + certificate
		}
		k.certificate = SecretCertificate(certificate, false)
	}
	var authorities strings.Builder
	for _, id := range s.Spec.CACertificates {
		ca, ok := own.CACertificate(id)
		if !ok {
			k.missing = "ca_certificate " + id
			continue
		}
		authorities.WriteString(strings.TrimSpace(ca.Spec.Cert) + "\n")
	}
	k.authorities = authorities.String()
	// Not to verify must be said: an unset tls_verify verifies.
	k.verify = s.Spec.TLSVerify == nil || *s.Spec.TLSVerify
	if s.Spec.TLSVerifyDepth != nil {
		k.depth = *s.Spec.TLSVerifyDepth
	}
	if !s.Spec.TLS() && !probesTLS(u) {
		return tlsKey{}
	}
	return k
}

// serverOf is what the server of a service is called: the host header of its
// upstream without a port, or the service's host.
func serverOf(s *view.Service, u *view.Upstream) string {
	if u == nil || u.Spec.HostHeader == "" {
		return strings.ToLower(s.Spec.Host)
	}
	if host, _, err := net.SplitHostPort(u.Spec.HostHeader); err == nil {
		return strings.ToLower(host)
	}
	return strings.ToLower(u.Spec.HostHeader)
}

// upstreamTLS talks TLS 1.2 or later to a server, by its name.
func upstreamTLS(k tlsKey, protocol string) (*anypb.Any, error) {
	if k.missing != "" {
		return nil, fmt.Errorf("%s does not exist", k.missing)
	}
	common := &tlsv3.CommonTlsContext{
		TlsParams:     plan.TLSVersions(),
		AlpnProtocols: []string{protocol},
	}
	if k.certificate != "" {
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{secret(k.certificate)}
	}
	if k.verify {
		trusted, err := trust(k)
		if err != nil {
			return nil, err
		}
		validation := &tlsv3.CertificateValidationContext{
			TrustedCa: trusted,
			MatchTypedSubjectAltNames: []*tlsv3.SubjectAltNameMatcher{
				subjectAltName(unbracket(k.name)),
			},
		}
		if k.depth >= 0 {
			validation.MaxVerifyDepth = wrapperspb.UInt32(uint32(k.depth)) //nolint:gosec // not negative
		}
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: validation}
	}
	return plan.Pack(&tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: serverName(k.name)})
}

// trust is who may sign a server's certificate.
func trust(k tlsKey) (*corev3.DataSource, error) {
	switch {
	case k.authorities != "":
		return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: k.authorities}}, nil
	case k.roots != "":
		return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: k.roots}}, nil
	}
	return nil, errors.New("the certificate must be verified, but the proxy has no file of root certificates")
}

func subjectAltName(name string) *tlsv3.SubjectAltNameMatcher {
	kind := tlsv3.SubjectAltNameMatcher_DNS
	if ip, err := netip.ParseAddr(name); err == nil {
		kind, name = tlsv3.SubjectAltNameMatcher_IP_ADDRESS, ip.String()
	}
	return &tlsv3.SubjectAltNameMatcher{
		SanType: kind,
		Matcher: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: name}, IgnoreCase: false},
	}
}

// serverName is what may stand in SNI: a DNS name, never an address (RFC 6066, 3).
func serverName(host string) string {
	if _, err := netip.ParseAddr(unbracket(host)); err == nil {
		return ""
	}
	return host
}

func unbracket(host string) string {
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

package server

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"github.com/meshgate/meshgate/xds/pemtext"
	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/protobuf/proto"
)

// CheckSecret refuses a secret that a proxy would refuse. Envoy prints a refused secret, with
// its private key, to its log and in its answer. CheckSecret reads only inline material: no
// other is ever sent.
func CheckSecret(r *resource.Resource, name string) error {
	if r == nil || r.Type != resource.Secret || r.Name != name {
		return errors.New("the secret is not what was asked for")
	}
	var m tlsv3.Secret
	if proto.Unmarshal(r.Body, &m) != nil || m.GetName() != name {
		return errors.New("the secret has other content than its name says")
	}
	switch v := m.GetType().(type) {
	case *tlsv3.Secret_TlsCertificate:
		chain := v.TlsCertificate.GetCertificateChain().GetInlineBytes()
		key := v.TlsCertificate.GetPrivateKey().GetInlineBytes()
		if _, err := tls.X509KeyPair(orString(chain, v.TlsCertificate.GetCertificateChain().GetInlineString()),
			orString(key, v.TlsCertificate.GetPrivateKey().GetInlineString())); err != nil {
			return errors.New("certificate and key of the secret do not belong together")
		}
	case *tlsv3.Secret_ValidationContext:
		ca := v.ValidationContext.GetTrustedCa()
		return checkBundle(orString(ca.GetInlineBytes(), ca.GetInlineString()))
	case *tlsv3.Secret_GenericSecret, *tlsv3.Secret_SessionTicketKeys:
	default:
		return errors.New("the secret is empty")
	}
	return nil
}

func orString(b []byte, s string) []byte {
	if len(b) > 0 {
		return b
	}
	return []byte(s)
}

// checkBundle accepts only PEM certificates, and at least one.
func checkBundle(bundle []byte) error {
	n := 0
	for block := range pemtext.Blocks(bundle) {
		if _, err := x509.ParseCertificate(block.Bytes); block.Type != pemtext.TypeCertificate || err != nil {
			return fmt.Errorf("certificate %d of the trust bundle cannot be parsed", n+1)
		}
		n++
	}
	if n == 0 {
		return errors.New("the trust bundle holds no certificate")
	}
	return nil
}

package gateway

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// leastRSA is the smallest RSA key that proxies accept, in bits.
const leastRSA = 2048

// Certificate is a certificate chain with its private key, and a second pair of another type.
// Gateways present it to clients that ask for one of its SNIs, and to the upstreams of
// services that refer to it.
type Certificate struct {
	Cert    string   `json:"cert" jsonschema:"maxLength=65536" jsonschema_extras:"x-check=chain"`
	Key     string   `json:"key" jsonschema:"maxLength=65536"`
	CertAlt string   `json:"cert_alt,omitempty" jsonschema:"maxLength=65536" jsonschema_extras:"x-check=chain"`
	KeyAlt  string   `json:"key_alt,omitempty" jsonschema:"maxLength=65536"`
	Tags    []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
	// SNIs are the server names that refer to the certificate; each is a resource.
	SNIs model.Virtual[[]string] `json:"snis,omitzero" jsonschema:"uniqueItems=true,maxLength=255" jsonschema_extras:"x-meta=true,x-inline=sni,x-inline-by=certificate,x-each-check=sni"`
}

// Certificates is the kind of certificates with their keys.
var Certificates = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"chain": chainText,
	},
}).Describe(Certificate{}, model.Kind{
	Name: "certificate", Path: "certificates", Scoping: model.ControlPlane, Class: model.Config, Sealed: true,
	Secrets: []string{"/key", "/key_alt"},
	Schema: &model.Schema{
		CreatedUnit: time.Second, Updated: true,
		Checks: []model.Check{
			{Fields: []string{"cert", "key"}, Run: keyFits("cert", "key", "certificate does not match key")},
			{Fields: []string{"cert_alt", "key_alt"}, Run: keyFits("cert_alt", "key_alt", "alternative certificate does not match key")},
			{Fields: []string{"cert", "cert_alt"}, Run: differentTypes},
		},
	},
})

// chainOf parses PEM certificates, at least one and nothing else.
func chainOf(text string) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for block := range pemtext.Blocks([]byte(text)) {
		if block.Type != pemtext.TypeCertificate {
			return nil, fmt.Errorf("holds a block of type %q", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errors.New("holds no PEM block")
	}
	return out, nil
}

// chainText refuses a chain that a proxy would not load.
func chainText(v any) string {
	chain, err := chainOf(v.(string))
	if err != nil {
		return "invalid certificate: " + err.Error()
	}
	switch key := chain[0].PublicKey.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < leastRSA {
			return fmt.Sprintf("invalid certificate: the RSA key has %d bits, at least %d are needed", key.N.BitLen(), leastRSA)
		}
	case *ecdsa.PublicKey:
		if bits := key.Params().BitSize; bits < 256 {
			return fmt.Sprintf("invalid certificate: the curve has %d bits, at least 256 are needed", bits)
		}
	default:
		return "invalid certificate: only RSA and ECDSA keys are supported"
	}
	return ""
}

// keyFits checks that two fields are a pair. Its texts never quote the key.
func keyFits(cert, key, text string) func(*model.Write) []fault.Violation {
	return func(w *model.Write) []fault.Violation {
		c, k := given(w.New, cert), given(w.New, key)
		switch {
		case c == "" && k == "":
			return nil
		case c == "" || k == "":
			return entityViolation("all or none of these fields must be set: '" + cert + "', '" + key + "'")
		}
		if pemtext.First([]byte(k)) == nil {
			return violation(key, "invalid key: no PEM block")
		}
		if _, err := tls.X509KeyPair([]byte(c), []byte(k)); err != nil {
			return entityViolation(text)
		}
		return nil
	}
}

func differentTypes(w *model.Write) []fault.Violation {
	if w.New["cert_alt"] == nil || w.New["cert"] == nil {
		return nil
	}
	one, err := chainOf(given(w.New, "cert"))
	if err != nil {
		return nil // the field check reports it
	}
	two, err := chainOf(given(w.New, "cert_alt"))
	if err != nil {
		return nil
	}
	if one[0].PublicKeyAlgorithm == two[0].PublicKeyAlgorithm {
		return entityViolation("certificate and alternative certificate need to have different type (e.g. RSA and ECDSA), the provided certificates were both of the same type")
	}
	return nil
}

// Pair returns a chain and its key in the form that proxies read: certificates alone, and the
// key in PKCS #8 (RFC 5958). alternative selects the second pair. Errors never contain key
// material.
func (c *Certificate) Pair(alternative bool) (chain, key []byte, err error) {
	chain, key = []byte(c.Cert), []byte(c.Key)
	if alternative {
		chain, key = []byte(c.CertAlt), []byte(c.KeyAlt)
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, nil, errors.New("certificate and key are no pair") // the cause may quote the key
	}
	chain = nil
	for _, der := range pair.Certificate {
		chain = append(chain, pemtext.Certificate(der)...)
	}
	key, err = pemtext.Key(pair.PrivateKey)
	if err != nil {
		return nil, nil, errors.New("the key is of a type that cannot be encoded")
	}
	return chain, key, nil
}

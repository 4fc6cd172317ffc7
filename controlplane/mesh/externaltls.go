package mesh

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"errors"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/xds/pemtext"
)

const (
	textEmptySource = "data source cannot be empty"
	textOneSource   = "exactly one data source has to be chosen"
	textNoFile      = "is not supported here: use secret, inline or inlineString"
	textBoth        = "has to be defined, because clientCert and clientKey belong together"
	// maxRoots bounds the certificates of authorities, in bytes. They are in every cluster.
	maxRoots = 256 << 10
	// maxClient bounds the chain of a client and its key, in bytes, each.
	maxClient = 64 << 10
	// leastRSA is the smallest RSA key that proxies accept, and leastCurve the smallest curve,
	// in bits.
	leastRSA   = 2048
	leastCurve = 256
)

// These say what is wrong with the content of a source. None quotes it.
var (
	errNoCertificate = fault.New(fault.Invalid, "must hold certificates in PEM")
	errNoPair        = fault.New(fault.Invalid, "certificate and key do not belong together")
	errWeak          = fault.New(fault.Invalid, "only RSA keys of at least %d bits and ECDSA keys of at least %d are supported", leastRSA, leastCurve)
)

func tooLong(most int) *fault.Error {
	return fault.New(fault.TooLarge, "must not have more than %d bytes", most)
}

func (vs *violations) externalTLS(path string, t *ExternalTLS) {
	if t == nil {
		return
	}
	switch name := t.ServerName; {
	case name == nil:
	case *name == "":
		vs.add(path+".serverName", "cannot be empty")
	case len(*name) > maxHost || !dnsName.MatchString(*name):
		vs.add(path+".serverName", "must be a domain name or an IP address of version 4")
	}
	if t.CACert != nil && vs.source(path+".caCert", t.CACert, maxRoots) && t.CACert.Secret == "" {
		if _, err := rootsIn(t.CACert.inline()); err != nil {
			vs.add(path+".caCert", detail(err))
		}
	}
	vs.client(path, t)
}

// client checks the certificate and the key that proxies present, as far as the document holds
// them itself.
func (vs *violations) client(path string, t *ExternalTLS) {
	switch {
	case t.ClientCert == nil && t.ClientKey == nil:
		return
	case t.ClientCert == nil:
		vs.add(path+".clientCert", textBoth)
		return
	case t.ClientKey == nil:
		vs.add(path+".clientKey", textBoth)
		return
	}
	cert := vs.source(path+".clientCert", t.ClientCert, maxClient)
	if key := vs.source(path+".clientKey", t.ClientKey, maxClient); !cert || !key || t.ClientCert.Secret != "" {
		return
	}
	if err := presentable(t.ClientCert.inline()); err != nil {
		vs.add(path+".clientCert", detail(err))
		return
	}
	if t.ClientKey.Secret != "" {
		return
	}
	if _, err := clientPair(t.ClientCert.inline(), t.ClientKey.inline()); err != nil {
		vs.add(path+".clientKey", detail(err))
	}
}

// source checks that exactly one source is chosen, and that it is no file: nobody would notice
// a change of one. It reports whether nothing is wrong. What a source holds itself may have at
// most so many bytes.
func (vs *violations) source(path string, d *DataSource, most int) bool {
	chosen := 0
	for _, is := range []bool{d.Secret != "", d.File != "", len(d.Inline) > 0, d.InlineString != nil} {
		if is {
			chosen++
		}
	}
	switch {
	case chosen == 0:
		vs.add(path, textEmptySource)
	case chosen > 1:
		vs.add(path, textOneSource)
	case d.File != "":
		vs.add(path+".file", textNoFile)
	case len(d.inline()) > most:
		vs.add(path, tooLong(most).Detail)
	default:
		return true
	}
	return false
}

// inline returns the content that a source holds itself.
func (d *DataSource) inline() []byte {
	if d.InlineString != nil {
		return []byte(*d.InlineString)
	}
	return d.Inline
}

// rootsIn returns the certificates of a text, and nothing else that stands beside them: proxies
// show them to whoever looks.
func rootsIn(text []byte) (string, error) {
	out, n := pemtext.Certificates(text)
	switch {
	case len(text) > maxRoots:
		return "", tooLong(maxRoots)
	case n == 0 || len(pemtext.Parsed(out)) < n:
		return "", errNoCertificate
	}
	return string(out), nil
}

// detail returns what an error about a content says.
func detail(err error) string {
	f, _ := errors.AsType[*fault.Error](err)
	return f.Detail
}

// presentable checks that proxies load a chain. Envoy prints one that it refuses, with its key.
func presentable(chain []byte) error {
	only, n := pemtext.Certificates(chain)
	all := pemtext.Parsed(only)
	if n == 0 || len(all) < n {
		return errNoCertificate
	}
	switch key := all[0].PublicKey.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() >= leastRSA {
			return nil
		}
	case *ecdsa.PublicKey:
		if key.Params().BitSize >= leastCurve {
			return nil
		}
	}
	return errWeak
}

// ClientPair is the certificate chain of a client with its key in the form that proxies read:
// certificates alone, and the key in PKCS #8.
type ClientPair struct {
	Chain, Key []byte
	// Leaf is the first certificate.
	Leaf *x509.Certificate
}

func clientPair(chain, key []byte) (*ClientPair, error) {
	if len(chain) > maxClient || len(key) > maxClient {
		return nil, tooLong(maxClient)
	}
	if err := presentable(chain); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(chain, key)
	if err != nil {
		return nil, errNoPair // the cause may quote the key
	}
	out := &ClientPair{Leaf: pair.Leaf}
	out.Chain, _ = pemtext.Certificates(chain)
	if out.Key, err = pemtext.Key(pair.PrivateKey); err != nil {
		return nil, errNoPair
	}
	return out, nil
}

// Certificates returns the certificates of a text that can be parsed.
func Certificates(text []byte) []*x509.Certificate { return pemtext.Parsed(text) }

package cloud

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/pemtext"
)

// ClientCertificate is a certificate with which gateways of a control plane or group enrol: whoever
// proves to have its key. That it is listed is all its trust, so it may be signed by anybody.
type ClientCertificate struct {
	ControlPlane string `json:"control_plane" jsonschema_extras:"x-refers-to=control_plane,x-on-delete=cascade,x-hidden=true"`
	Cert         string `json:"cert" jsonschema:"maxLength=8192" jsonschema_extras:"x-check=client-certificate"`
	Title        string `json:"title,omitempty" jsonschema:"maxLength=1024" jsonschema_extras:"x-check=title"`
}

// IndexCert finds a client certificate of a control plane, IndexControlPlane lists those of one.
const (
	IndexCert         = "cert"
	IndexControlPlane = "control_plane"
)

// MaxClientCertificates bounds the client certificates of a control plane.
const MaxClientCertificates = 100

// ClientCertificates is the kind of client certificates.
var ClientCertificates = rules.Describe(ClientCertificate{}, model.Kind{
	Name: "data_plane_certificate", Path: "dp-client-certificates", Scoping: model.Global, Class: model.Config,
	Unique: []model.Index{{Name: IndexCert, Value: func(spec any) (string, bool) {
		c := spec.(*ClientCertificate)
		block := pemtext.First([]byte(c.Cert))
		if block == nil {
			return "", false
		}
		return listing(c.ControlPlane, pemtext.Fingerprint(block.Bytes)), true
	}}},
	Schema: &model.Schema{CreatedUnit: time.Second, Updated: true},
})

// listing is a client certificate, by its fingerprint, at a control plane. A certificate is public, so
// others may list it, too. That must mean nothing for who has its key: neither that it cannot list its own
// certificate, nor that its gateways come to the others.
func listing(controlPlane, fingerprint string) string { return controlPlane + "/" + fingerprint }

// Pinned returns NotFound if the control plane of a scope does not list the client certificate of a
// fingerprint. Whoever else lists it does not matter.
func Pinned(r store.Reader, scope, fingerprint string) error {
	_, err := r.Find(ClientCertificates, "", IndexCert, listing(IDOf(scope), fingerprint))
	return err
}

// clientCertificateText checks a text that must be one certificate and nothing beside it: what else
// somebody has pasted must not be stored, and least of all a key.
func clientCertificateText(v any) string {
	text := strings.TrimSpace(v.(string))
	if strings.Contains(text, pemtext.TypeKey) {
		return "must be a certificate alone; it holds a private key, which nobody but its gateways should have: replace that"
	}
	first := pemtext.First([]byte(text))
	if first == nil || first.Type != pemtext.TypeCertificate || !strings.HasPrefix(text, "-----BEGIN ") {
		return "must be a certificate in PEM"
	}
	if len(first.Headers) > 0 || strings.Count(text, "-----BEGIN ") != 1 || !strings.HasSuffix(text, "-----END "+pemtext.TypeCertificate+"-----") {
		return "must be one certificate and nothing beside it"
	}
	cert, err := x509.ParseCertificate(first.Bytes)
	if err != nil {
		return "must be a certificate that can be parsed"
	}
	switch cert.PublicKey.(type) {
	case *rsa.PublicKey, *ecdsa.PublicKey, ed25519.PublicKey:
		return ""
	}
	return "must have a key that TLS can use: of RSA, ECDSA or Ed25519"
}

// mostTitle bounds a title in characters.
const mostTitle = 256

// titleText checks a title.
func titleText(v any) string {
	text := v.(string)
	if text == "" {
		return ""
	}
	if utf8.RuneCountInString(text) > mostTitle {
		return fmt.Sprintf("must be at most %d characters", mostTitle)
	}
	return nameText(v)
}

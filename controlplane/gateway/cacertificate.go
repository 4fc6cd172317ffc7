package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
)

// CACertificate is the certificate of an authority that signs upstreams.
type CACertificate struct {
	Cert string `json:"cert" jsonschema:"maxLength=65536" jsonschema_extras:"x-check=authority"`
	// CertDigest is the SHA-256 of the certificate's DER in lower-case hex.
	CertDigest string   `json:"cert_digest,omitempty" jsonschema:"maxLength=64" jsonschema_extras:"x-unique=true"`
	Tags       []string `json:"tags,omitempty" jsonschema:"uniqueItems=true,maxLength=256" jsonschema_extras:"x-listed=true,x-each-check=tag"`
}

// CACertificates is the kind of the certificates of authorities.
var CACertificates = rules.With(model.Rules{
	Checks: map[string]func(any) string{
		"authority": authorityText,
	},
}).Describe(CACertificate{}, model.Kind{
	Name: "ca_certificate", Path: "ca_certificates", Scoping: model.ControlPlane, Class: model.Config,
	Schema: &model.Schema{
		CreatedUnit: time.Second, Updated: true, Settle: settleDigest,
	},
})

func authorityText(v any) string {
	chain, err := chainOf(v.(string))
	switch {
	case err != nil:
		return "invalid certificate: " + err.Error()
	case len(chain) > 1:
		return "please submit only one certificate at a time"
	case !chain[0].IsCA:
		return `certificate does not appear to be a CA because it is missing the "CA" basic constraint`
	case time.Now().After(chain[0].NotAfter):
		return `certificate expired, "Not After" time is in the past`
	}
	return ""
}

func settleDigest(w *model.Write, _ time.Time) error {
	chain, err := chainOf(given(w.New, "cert"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(chain[0].Raw)
	w.New["cert_digest"] = hex.EncodeToString(sum[:])
	return nil
}

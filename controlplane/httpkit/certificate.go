package httpkit

import (
	"crypto/x509"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// reservedPrefix begins the names of users and groups that only this control plane gives.
const reservedPrefix = "mesh-system:"

// CertifiedUser returns the user whom the verified client certificate of a request names: by
// its common name or, if it has none, by its first other name. The organisations are the
// groups. ok is false for a request without such a certificate. Its error is a Denied fault.
func CertifiedUser(r *http.Request) (who model.Actor, ok bool, err error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return who, false, nil
	}
	cert := r.TLS.VerifiedChains[0][0]
	if who, ok = ForeignUser(certifiedName(cert), cert.Subject.Organization); !ok {
		return who, false, fault.New(fault.Denied, "the client certificate names no user")
	}
	return who, true, nil
}

func certifiedName(cert *x509.Certificate) string {
	if cn := cert.Subject.CommonName; cn != "" {
		return cn
	}
	names := slices.Concat(cert.DNSNames, cert.EmailAddresses)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// ForeignUser returns a user whom somebody else than this control plane has identified. Names
// and groups of the system are not theirs to give: ok is false for such a name, and such
// groups are dropped.
func ForeignUser(name string, groups []string) (who model.Actor, ok bool) {
	odd := func(s string) bool {
		return s == "" || strings.HasPrefix(s, reservedPrefix) || strings.ContainsFunc(s, unicode.IsControl)
	}
	if odd(name) {
		return who, false
	}
	return model.User(name, slices.DeleteFunc(slices.Clone(groups), odd)...), true
}

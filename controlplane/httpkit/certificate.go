package httpkit

import (
	"crypto/x509"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
)

// CertifiedUser returns the user whom the verified client certificate of a request names: by
// its common name or, if it has none, by its first other name. The organisations are the
// groups. ok is false for a request without such a certificate. Its error is a Denied fault.
//
// The certificate was verified when the connection began, which may be long ago. trusted says
// whether an authority is trusted now: a chain counts that ends at such an authority, and of
// which no certificate has ended. Its signatures need no second look.
func CertifiedUser(r *http.Request, now time.Time, trusted func(authority *x509.Certificate) bool) (who model.Actor, ok bool, err error) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return who, false, nil
	}
	counts := func(chain []*x509.Certificate) bool {
		ended := func(c *x509.Certificate) bool { return now.Before(c.NotBefore) || now.After(c.NotAfter) }
		return !slices.ContainsFunc(chain, ended) && trusted(chain[len(chain)-1])
	}
	if !slices.ContainsFunc(r.TLS.VerifiedChains, counts) {
		return who, false, fault.New(fault.Denied, "the client certificate has ended, or its authority is no longer trusted")
	}
	cert := r.TLS.VerifiedChains[0][0]
	if slices.ContainsFunc(namesOf(cert), hasControl) {
		return who, false, fault.New(fault.Denied, "a name in the client certificate has control characters")
	}
	if who, ok = ForeignUser(certifiedName(cert), cert.Subject.Organization); !ok {
		return who, false, fault.New(fault.Denied, "the client certificate names no user, or one whom only this control plane can name")
	}
	return who, true, nil
}

func certifiedName(cert *x509.Certificate) string {
	for _, name := range namesOf(cert) {
		if name != "" {
			return name
		}
	}
	return ""
}

// namesOf lists the names in a certificate, the common name first.
func namesOf(cert *x509.Certificate) []string {
	names := slices.Concat([]string{cert.Subject.CommonName}, cert.DNSNames, cert.EmailAddresses)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	return names
}

// hasControl reports whether a name has control characters, escaped ones of URIs among them. Somebody else
// may read such a name as the part before a NUL, which is the name of another user.
func hasControl(name string) bool {
	plain, err := url.PathUnescape(name)
	return strings.ContainsFunc(name, unicode.IsControl) || err == nil && strings.ContainsFunc(plain, unicode.IsControl)
}

// ForeignUser returns a user whom somebody else than this control plane has identified. Names
// and groups of the system are not theirs to give, nor the names of holders of personal access
// tokens: ok is false for such a name, and such groups are dropped.
func ForeignUser(name string, groups []string) (who model.Actor, ok bool) {
	odd := func(s string) bool {
		return s == "" || strings.HasPrefix(s, model.PrefixSystem) || strings.ContainsFunc(s, unicode.IsControl)
	}
	if odd(name) || model.IsHolder(name) {
		return who, false
	}
	return model.User(name, slices.DeleteFunc(slices.Clone(groups), odd)...), true
}

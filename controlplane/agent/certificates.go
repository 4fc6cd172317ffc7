package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/pemtext"
	"github.com/meshgate/meshgate/xds/resource"
)

// held are the certificates that Envoy is served now.
type held struct {
	mu   sync.Mutex
	list []health.Certificate
	// moved has one entry while there is a change that was not looked at.
	moved chan struct{}
}

func newHeld() *held { return &held{moved: make(chan struct{}, 1)} }

// set takes Envoy's secrets. It ignores secrets that are not the certificate of a server or
// client of this proxy.
func (h *held) set(secrets []*resource.Resource) {
	var list []health.Certificate
	for _, r := range secrets {
		var s tlsv3.Secret
		if proto.Unmarshal(r.Body, &s) != nil {
			continue
		}
		c, err := pemtext.Leaf(s.GetTlsCertificate().GetCertificateChain().GetInlineBytes())
		if err != nil {
			continue
		}
		what := "the certificate " + r.Name + " of this proxy"
		do := "the control plane renews its own in time while it is in reach; one that came through the administration API (/certificates) has to be replaced there"
		if service, is := mesh.ParseExternalClient(r.Name); is {
			what, do = "the certificate that this proxy presents to ExternalService "+service, "replace clientCert and clientKey there, or the secrets that they name"
		}
		list = append(list, health.Certificate{What: what, NotBefore: c.NotBefore, NotAfter: c.NotAfter, Do: do})
	}
	h.mu.Lock()
	h.list = list
	h.mu.Unlock()
	h.ring()
}

// ring triggers a check of the certificates.
func (h *held) ring() {
	select {
	case h.moved <- struct{}{}:
	default:
	}
}

func (h *held) all() []health.Certificate {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]health.Certificate{}, h.list...)
}

// authorities returns the authorities by which the control plane is verified. These are the
// authorities that are trusted now, which may differ from those in the operator's file.
func (a *Agent) authorities() (list []health.Certificate) {
	text, learned, err := a.trust.trusted()
	if err != nil {
		return nil // the next connection reports the error
	}
	what := "the authority in --ca-cert-file " + a.CAFile
	if learned {
		what = "the control plane's authority in " + a.trust.learned
	}
	for _, c := range pemtext.Parsed(text) {
		list = append(list, health.Certificate{
			What: what, NotBefore: c.NotBefore, NotAfter: c.NotAfter,
			Do: "replace it at the control plane (meshgate keys rotate control-plane-ca), which tells connected proxies; if that is done and this proxy was away, put the new ca.pem where --ca-cert-file is (" +
				a.CAFile + "): nothing needs a restart",
		})
	}
	return list
}

// judgeCertificates sets the condition of the certificates, and returns when to check
// again.
func (a *Agent) judgeCertificates() time.Time {
	f, next := health.Certificates(time.Now(), slices.Concat(a.authorities(), a.ownCertificate(), a.held.all()))
	a.conditions.Set(conditionCertificates, f)
	return next
}

// watchCertificates checks the certificates when they change and when one of them nears its
// end, until ctx ends.
func (a *Agent) watchCertificates(ctx context.Context) {
	bell := alarm.New(time.Now)
	defer bell.Set(time.Time{})
	for {
		bell.Set(a.judgeCertificates())
		for due := false; !due; {
			select {
			case <-ctx.Done():
				return
			case <-a.held.moved:
				due = true
			case <-bell.C():
				due = bell.Due()
			}
		}
	}
}

package assembly

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/alarm"
)

// uploadedPause is the minimum time between two looks at the uploaded certificates, so that
// an import of thousands causes only a few looks. uploadedRetry is the pause after a look
// that failed.
const (
	uploadedPause = time.Second
	uploadedRetry = time.Minute
)

// maxNamesSaid bounds the server names of one certificate in a text.
const maxNamesSaid = 3

// watchUploaded looks at the certificates of the administration API at the start, whenever
// one comes near its end, and after each write of one, until ctx ends.
func (cp *ControlPlane) watchUploaded(ctx context.Context) error {
	for {
		next := cp.judgeUploaded(ctx, time.Now())
		if alarm.Wait(ctx, time.Now, time.Now().Add(uploadedPause)) != nil || !cp.uploadedDue(ctx, next) {
			return nil
		}
	}
}

// uploadedDue waits for a write, or for a time unless that is zero. It returns false when ctx
// ends.
func (cp *ControlPlane) uploadedDue(ctx context.Context, at time.Time) bool {
	due := alarm.New(time.Now)
	due.Set(at)
	defer due.Set(time.Time{})
	for {
		select {
		case <-ctx.Done():
			return false
		case <-cp.uploadedWake:
			return true
		case <-due.C():
			if due.Due() {
				return true
			}
		}
	}
}

// uploadedChanged requests another look at the certificates.
func (cp *ControlPlane) uploadedChanged() {
	select {
	case cp.uploadedWake <- struct{}{}:
	default:
	}
}

// judgeUploaded sets the condition of the certificates of the administration API, and returns
// when to look again. If they cannot be read, the condition stays as it is.
func (cp *ControlPlane) judgeUploaded(ctx context.Context, now time.Time) (next time.Time) {
	var list []health.Certificate
	err := cp.store.View(ctx, func(r store.Reader) (err error) {
		list, err = uploadedCertificates(r)
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			cp.Log.Warn("the certificates of the administration API could not be looked at", "error", err)
		}
		return now.Add(uploadedRetry)
	}
	f, next := health.EveryCertificate(now, list)
	cp.ready.conditions.Set(conditionUploaded, f)
	return next
}

// uploadedCertificates reads the certificates of all control planes. What a group serves is its members'.
func uploadedCertificates(r store.Reader) (list []health.Certificate, err error) {
	all, err := controlPlanes(r)
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		more, err := uploadedTo(r, p, p.of(all))
		if err != nil {
			return nil, err
		}
		list = append(list, more...)
	}
	return list, nil
}

// uploadedTo reads the certificates of one control plane, of which a text names it. Rows that cannot be
// read are skipped.
func uploadedTo(r store.Reader, p plane, of string) (list []health.Certificate, err error) {
	snis, _, err := store.ListReadable(r, gateway.SNIs, p.scope)
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	for _, res := range snis {
		s := res.Spec.(*gateway.SNI)
		names[s.Certificate] = append(names[s.Certificate], s.Name)
	}
	pairs, _, err := store.ListReadable(r, gateway.Certificates, p.scope)
	if err != nil {
		return nil, err
	}
	do := "upload its successor (PATCH " + p.path("/certificates/{id}") + ", or a new authority), or delete what nobody uses"
	for _, res := range pairs {
		c := res.Spec.(*gateway.Certificate)
		what := "certificate " + res.Name + of + shownFor(names[res.Name])
		list = append(list, uploadedAs(c.Cert, what, do)...)
		list = append(list, uploadedAs(c.CertAlt, "the second pair of "+what, do)...)
	}
	authorities, _, err := store.ListReadable(r, gateway.CACertificates, p.scope)
	for _, res := range authorities {
		list = append(list, uploadedAs(res.Spec.(*gateway.CACertificate).Cert, "authority "+res.Name+of+" of /ca_certificates", do)...)
	}
	return list, err
}

// uploadedAs returns the first certificate of a chain. It is the leaf, which users replace.
func uploadedAs(chain, what, do string) []health.Certificate {
	list := certificatesOf([]byte(chain), what, do)
	return list[:min(len(list), 1)]
}

// shownFor lists the server names that a certificate is used for.
func shownFor(names []string) string {
	slices.Sort(names)
	switch more := len(names) - maxNamesSaid; {
	case len(names) == 0:
		return " without server names"
	case more > 0:
		return fmt.Sprintf(" for %s and %d more", strings.Join(names[:maxNamesSaid], ", "), more)
	}
	return " for " + strings.Join(names, ", ")
}

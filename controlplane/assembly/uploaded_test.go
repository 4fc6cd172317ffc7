package assembly

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestUploadedCertificatesAreACondition: the condition names a certificate of the
// administration API that ends soon, with its id and its server names. It appears as soon as
// the end is near or the certificate is written, and goes once the successor is there. A
// certificate that has ended does not hide others.
func TestUploadedCertificatesAreACondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		defer func() { _ = s.Close() }()
		cp := atEase()
		cp.store, cp.Log, cp.uploadedWake = s, slog.New(slog.DiscardHandler), make(chan struct{}, 1)
		put := func(k *model.Kind, name string, spec any) {
			t.Helper()
			_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
				res := &model.Resource{Kind: k, Scope: model.DefaultControlPlane, Name: name, Spec: spec}
				_, err := tx.Update(res, 0)
				if fault.Is(err, fault.NotFound) {
					_, err = tx.Create(res)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		said := func() health.Condition {
			time.Sleep(2 * uploadedPause)
			synctest.Wait()
			return conditionOf(asked(t, cp, "").Answer, conditionUploaded)
		}
		const day = 24 * time.Hour
		cert := func(left time.Duration) *gateway.Certificate {
			return &gateway.Certificate{Cert: string(authorityUntil(t, time.Now().Add(left)))}
		}
		shop, old := uuid.NewString(), uuid.NewString()
		put(gateway.Certificates, shop, cert(40*day))
		for _, name := range []string{"www.shop.example", "shop.example"} {
			put(gateway.SNIs, uuid.NewString(), &gateway.SNI{Name: name, Certificate: shop})
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() { ended <- cp.watchUploaded(ctx) }()
		go func() {
			ended <- followStore(ctx, s, cp.happened, func(context.Context) { t.Error("events are lost") })
		}()
		if c := said(); c.State != health.OK {
			t.Errorf("%+v", c)
		}
		time.Sleep(11 * day)
		if c := said(); c.State != health.Degraded || c.Reason != "ends_soon" || !strings.HasPrefix(c.Text, "certificate "+shop+" for shop.example, www.shop.example ends at ") {
			t.Errorf("it has come near: %+v", c)
		}
		put(gateway.Certificates, old, cert(-day))
		if c := said(); c.Reason != "ends_soon" || !strings.HasPrefix(c.Text, "certificate "+shop) || !strings.Contains(c.Text, "; certificate "+old+" without server names expired at ") {
			t.Errorf("one that has ended: %+v", c)
		}
		put(gateway.Certificates, shop, cert(365*day))
		if c := said(); c.Reason != "expired" || !strings.HasPrefix(c.Text, "certificate "+old) || strings.Contains(c.Text, shop) {
			t.Errorf("after its successor came: %+v", c)
		}
		put(gateway.Certificates, old, cert(365*day))
		put(gateway.CACertificates, uuid.NewString(), &gateway.CACertificate{Cert: string(authorityUntil(t, time.Now().Add(20*day)))})
		if c := said(); c.Reason != "ends_soon" || !strings.HasPrefix(c.Text, "authority ") || !strings.Contains(c.Text, "of /ca_certificates ends at ") {
			t.Errorf("an authority: %+v", c)
		}
		cancel()
		for range 2 {
			<-ended
		}
	})
}

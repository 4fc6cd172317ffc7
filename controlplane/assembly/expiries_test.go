package assembly

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// stuck is a store whose reads block while it hangs, as they do when all its readers wait for
// a disk that does not answer.
type stuck struct {
	store.Store
	hangs bool
}

func (s *stuck) View(ctx context.Context, fn func(store.Reader) error) error {
	if !s.hangs {
		return s.Store.View(ctx, fn)
	}
	<-ctx.Done()
	return ctx.Err()
}

// A store that hangs must not block the metrics page, which is needed most at that moment.
// Nor may the known ends of certificates disappear, because their alerts would end.
func TestMetricsDoNotHangWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{Store: memstore.New()}
		defer func() { _ = s.Close() }()
		write := func(name string) {
			t.Helper()
			_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
				_, err := tx.Create(&model.Resource{Kind: gateway.Certificates, Scope: model.DefaultControlPlane, Name: name, Spec: &gateway.Certificate{Cert: string(authorityUntil(t, time.Now().Add(time.Hour)))}})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		write("one")
		e := &expiries{
			store: s, authority: func() []byte { return nil }, log: slog.New(slog.DiscardHandler),
			desc: prometheus.NewDesc("a", "b", expiryLabels, nil),
		}
		shown := func() int {
			out := make(chan prometheus.Metric, 10)
			e.Collect(out)
			return len(out)
		}
		if shown() != 1 {
			t.Fatal("the certificate of a gateway is not shown")
		}
		s.hangs = true
		write("two")
		begun := time.Now()
		if got := shown(); got != 1 {
			t.Errorf("%d uses are shown", got)
		}
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

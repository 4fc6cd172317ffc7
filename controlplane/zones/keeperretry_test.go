package zones_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/controlplane/zones"
)

// stubborn does not write one ingress while it is set.
type stubborn struct {
	documents
	bad atomic.Pointer[string]
}

func (d *stubborn) PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error) {
	if bad := d.bad.Load(); bad != nil && *bad == name {
		return admit.Outcome{}, false, fault.New(fault.Invalid, "it is refused")
	}
	return d.documents.PutDocumentIf(ctx, k, scope, name, spec, allowed)
}

// TestKeeperOfAnIngressThatIsRefused: while one ingress cannot be written, changes reach the others at once; it is
// written as soon as its own pause is over.
func TestKeeperOfAnIngressThatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memstore.New()
		d := &stubborn{documents: documents{db, make(chan string, 1000), make(chan error, 1)}}
		bad := "bad"
		d.bad.Store(&bad)
		views := view.New(db, nil, slog.New(slog.DiscardHandler)).InZone("west")
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- zones.New(views, d, slog.New(slog.DiscardHandler)).Run(ctx) }()
		defer func() {
			stop()
			<-done
			views.Close()
			_ = db.Close()
		}()
		storetest.Put(t, db, mesh.Meshes, "", "shop", &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}})
		storetest.Put(t, db, mesh.Dataplanes, "shop", "a-1", instance("a", "v1", ""))
		for _, name := range []string{"bad", "good"} {
			storetest.Put(t, db, mesh.ZoneIngresses, "", name, &mesh.ZoneIngress{})
		}
		time.Sleep(10 * time.Minute) // the pauses are long now
		storetest.Put(t, db, mesh.Dataplanes, "shop", "a-2", instance("a", "v2", ""))
		time.Sleep(time.Second)
		synctest.Wait()
		if got := told(t, db, "good"); len(got) != 2 {
			t.Errorf("a second later the other ingress says %v", got)
		}
		d.bad.Store(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := told(t, db, "bad"); len(got) != 2 {
			t.Errorf("after its pause the ingress says %v", got)
		}
	})
}

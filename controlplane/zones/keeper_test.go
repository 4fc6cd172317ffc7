package zones_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/controlplane/zones"
)

// documents writes to a store and counts that. While broken is set, it fails.
type documents struct {
	db     store.Store
	writes chan string
	broken chan error
}

func (d documents) PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (out admit.Outcome, created bool, err error) {
	select {
	case err := <-d.broken:
		return out, false, err
	default:
	}
	_, err = d.db.Update(ctx, model.Config, func(tx store.Tx) error {
		old, err := tx.Get(k, scope, name)
		if err != nil {
			return err
		}
		if err := allowed(tx, old); err != nil {
			return err
		}
		_, err = tx.Update(&model.Resource{Kind: k, Scope: scope, Name: name, Spec: spec}, 0)
		return err
	})
	if err == nil {
		d.writes <- name
	}
	return out, false, err
}

func told(t *testing.T, db store.Store, ingress string) (out []string) {
	t.Helper()
	err := db.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(mesh.ZoneIngresses, "", ingress)
		if err != nil {
			return err
		}
		for _, s := range res.Spec.(*mesh.ZoneIngress).AvailableServices {
			out = append(out, fmt.Sprintf("%s %s %d", s.Mesh, s.Tags, s.Instances))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func instance(service, version, state string) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{
		Port: 80, State: state, Tags: mesh.Tags{mesh.TagService: service, "version": version},
	}}}}
}

// TestKeeper: the ingresses of the zone say which services can be reached, are written only if that
// changes, and once the store works again.
func TestKeeper(t *testing.T) {
	db := memstore.New()
	views := view.New(db, nil, slog.New(slog.DiscardHandler)).InZone("west")
	d := documents{db, make(chan string, 16), make(chan error, 1)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- zones.New(views, d, slog.New(slog.DiscardHandler)).Run(ctx) }()
	defer func() {
		stop()
		<-done
		views.Close()
		_ = db.Close()
	}()
	written := func(want ...string) {
		t.Helper()
		for {
			select {
			case <-d.writes:
			case <-time.After(20 * time.Second):
				t.Fatalf("it says %v, want %v", told(t, db, "in"), want)
			}
			if slices.Equal(told(t, db, "in"), want) {
				return
			}
		}
	}
	secured := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}}
	storetest.Put(t, db, mesh.Meshes, "", "shop", secured)
	storetest.Put(t, db, mesh.Meshes, "", "plain", &mesh.Mesh{})
	storetest.Put(t, db, mesh.Dataplanes, "shop", "a-1", instance("a", "v1", ""))
	storetest.Put(t, db, mesh.Dataplanes, "shop", "a-2", instance("a", "v1", ""))
	storetest.Put(t, db, mesh.Dataplanes, "shop", "a-3", instance("a", "v2", ""))
	storetest.Put(t, db, mesh.Dataplanes, "shop", "a-4", instance("a", "v3", mesh.StateNotReady))
	storetest.Put(t, db, mesh.Dataplanes, "plain", "b-1", instance("b", "v1", ""))
	storetest.Put(t, db, mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{AvailableServices: []mesh.AvailableService{{Mesh: "shop", Tags: mesh.Tags{mesh.TagService: "lies"}, Instances: 9}}})
	written("shop mesh.io/service=a,version=v1 2", "shop mesh.io/service=a,version=v2 1")
	// What changes nothing that is told is not written; the next write is that of the next change.
	storetest.Put(t, db, mesh.Dataplanes, "shop", "a-4", instance("a", "v4", mesh.StateNotReady))
	storetest.Put(t, db, mesh.ZoneIngresses, "", "other", &mesh.ZoneIngress{Zone: "east"})
	d.broken <- fault.New(fault.Unavailable, "the disk is full")
	storetest.Put(t, db, mesh.Meshes, "", "plain", secured)
	written("plain mesh.io/service=b,version=v1 1", "shop mesh.io/service=a,version=v1 2", "shop mesh.io/service=a,version=v2 1")
	storetest.Put(t, db, mesh.Meshes, "", "shop", &mesh.Mesh{})
	written("plain mesh.io/service=b,version=v1 1")
	if got := told(t, db, "other"); len(got) > 0 {
		t.Errorf("an ingress of another zone says %s", strings.Join(got, ", "))
	}
	if n := len(d.writes); n > 0 {
		t.Errorf("%d more writes", n)
	}
}

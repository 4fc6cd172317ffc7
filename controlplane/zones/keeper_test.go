package zones_test

import (
	"bytes"
	"context"
	"encoding/json"
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

// keeps runs a keeper until the test ends. The returned function waits until an ingress says what it
// should.
func keeps(t *testing.T, db store.Store, d documents) (says func(ingress string, like func(got []string) bool)) {
	views := view.New(db, nil, slog.New(slog.DiscardHandler)).InZone("west")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- zones.New(views, d, slog.New(slog.DiscardHandler)).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done
		views.Close()
		_ = db.Close()
	})
	return func(ingress string, like func([]string) bool) {
		t.Helper()
		for {
			select {
			case <-d.writes:
			case <-time.After(time.Minute):
				t.Fatalf("it says %.1000v", told(t, db, ingress))
			}
			if like(told(t, db, ingress)) {
				return
			}
		}
	}
}

// TestKeeper: the ingresses of the zone say which services can be reached, are written only if that
// changes, and once the store works again.
func TestKeeper(t *testing.T) {
	db := memstore.New()
	d := documents{db, make(chan string, 16), make(chan error, 1)}
	says := keeps(t, db, d)
	written := func(want ...string) {
		t.Helper()
		says("in", func(got []string) bool { return slices.Equal(got, want) })
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

// TestKeeperOfMuch: however long the tags of services are, others can store what an ingress says as
// they are shown it, and a mesh with very long ones takes no room of another.
func TestKeeperOfMuch(t *testing.T) {
	db := memstore.New()
	d := documents{db, make(chan string, 16), make(chan error, 1)}
	says := keeps(t, db, d)
	secured := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: "builtin"}}}}
	for _, name := range []string{"long", "shop"} {
		storetest.Put(t, db, mesh.Meshes, "", name, secured)
	}
	for n := range 4 {
		all := instance("a", "v1", "")
		all.Networking.Inbound = nil
		for i := range 1000 {
			tags := mesh.Tags{mesh.TagService: fmt.Sprintf("s-%d-%04d", n, i), "long": strings.Repeat("l", 200), "longer": strings.Repeat("m", 200)}
			all.Networking.Inbound = append(all.Networking.Inbound, mesh.Inbound{Port: uint32(1 + i), Tags: tags})
		}
		storetest.Put(t, db, mesh.Dataplanes, "long", fmt.Sprint("all-", n), all)
	}
	storetest.Put(t, db, mesh.Dataplanes, "shop", "z-1", instance("z", "v1", ""))
	old := instance("old", "v1", "")
	for i := range mesh.MaxTags {
		old.Networking.Inbound[0].Tags[fmt.Sprint("k", i)] = "v"
	}
	storetest.Put(t, db, mesh.Dataplanes, "shop", "old-1", old)
	storetest.Put(t, db, mesh.ZoneIngresses, "", "in", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Port: 1}})
	says("in", func(got []string) bool {
		return len(got) > 1000 && got[len(got)-1] == "shop mesh.io/service=z,version=v1 1"
	})
	err := db.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(mesh.ZoneIngresses, "", "in")
		if err != nil {
			return err
		}
		if vs := mesh.ZoneIngresses.Document.Validate(res.Spec); len(vs) > 0 {
			t.Errorf("it is refused: %v", vs)
		}
		text, err := model.EncodeDocument(res)
		if err != nil {
			return err
		}
		var shown bytes.Buffer
		if err := json.Indent(&shown, text, "", " "); err != nil {
			return err
		}
		if n := shown.Len(); n > model.MaxDocument || n < model.MaxDocument*3/4 {
			t.Errorf("it has %d bytes", n)
		}
		_, err = model.ReadDocument(mesh.ZoneIngresses, shown.Bytes())
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

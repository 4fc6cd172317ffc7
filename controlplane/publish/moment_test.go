package publish_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// momentary issues a certificate for the service that a dataplane has in the store at that
// moment. It calls before and after around the reading.
type momentary struct {
	*identities
	db    store.Store
	pairs map[string]publish.Pair
	// before and after are called around the reading, with the number of the call.
	before, after func(call int)
	calls         int
}

func (m *momentary) Workload(ctx context.Context, meshName, dataplane string) (w publish.Workload, err error) {
	m.calls++
	m.before(m.calls)
	defer m.after(m.calls)
	err = m.db.View(ctx, func(r store.Reader) error {
		res, err := r.Get(mesh.Dataplanes, meshName, dataplane)
		if err == nil {
			sources := res.Spec.(*mesh.Dataplane).TagSets()
			w = publish.Workload{Pair: m.pairs[sources[0].Service()], Issuer: "one", Sources: sources}
		}
		return err
	})
	return w, err
}

// A proxy gets no certificate for an intermediate state: tags that were changed and changed
// back, faster than a plan, while its certificate was made. A proxy that changes all the
// time gets none, and is told to wait.
func TestIdentityOfAMoment(t *testing.T) {
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		changes int // how many of the calls are overtaken
		refused bool
	}{
		"once": {changes: 1}, "for ever": {changes: 1 << 30, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			db := memstore.New()
			be := func(service string) {
				storetest.Put(t, db, mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.1", service, "http"))
			}
			ids := &momentary{
				identities: &identities{}, db: db,
				pairs: map[string]publish.Pair{"web": pair(t, false, later), "admin": pair(t, false, later)},
			}
			ids.before = func(call int) {
				if call <= c.changes {
					be("admin")
				}
			}
			ids.after = func(call int) {
				if call <= c.changes {
					be("web")
				}
			}
			snaps := snapshot.New()
			l := publish.Begin(t, db, publish.Options{Publisher: snaps, Parameters: parameters{}, Identities: ids}, nil)
			spec := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}}}}
			storetest.Put(t, db, mesh.Meshes, "", meshName, spec)
			storetest.Put(t, db, mesh.Trusts, meshName, meshName, &mesh.Trust{Backend: "ca", Issuer: "one", Roots: pair(t, true, later).Certificate})
			be("web")
			release, err := l.Connect(bounded(t), mesh.NodeID(meshName, "web-1"), false)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			s, turned, err := asked(bounded(t), l, snaps)
			for !c.refused && fault.Is(err, fault.Unavailable) { // its set was another one for a moment
				<-turned
				s, turned, err = asked(bounded(t), l, snaps)
			}
			switch {
			case c.refused:
				if !fault.Is(err, fault.Unavailable) || ids.calls > 10 {
					t.Errorf("after %d calls: %v", ids.calls, err)
				}
			case err != nil:
				t.Error(err)
			case !bytes.Contains(s.Body, ids.pairs["web"].Certificate):
				t.Error("the certificate is for what the proxy was for a moment")
			}
		})
	}
}

// asked requests an identity once, as a stream does: for the generation of the newest set.
// turned is closed when there may be a newer set.
func asked(ctx context.Context, l *publish.Loop, snaps *snapshot.Store) (s *resource.Resource, turned <-chan struct{}, err error) {
	node, name := mesh.NodeID(meshName, "web-1"), mesh.SecretIdentity(meshName)
	turned = snaps.Moved()
	generation, _ := snaps.Get(node).Generation(name)
	s, err = l.Secret(ctx, node, name, generation)
	return s, turned, err
}

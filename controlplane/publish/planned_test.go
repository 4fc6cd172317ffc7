package publish_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/publish"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
	"github.com/meshgate/meshgate/xds/draft"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// overtaken is a connected proxy web-1 that serves web, in a mesh with mutual TLS. Plans
// and publications of the mesh can be held up.
type overtaken struct {
	t     *testing.T
	db    *spoilt
	ids   *momentary
	loop  *publish.Loop
	snaps *snapshot.Store
	// plan and publication, if set, block plans and publications until they are closed.
	plan, publication atomic.Pointer[chan struct{}]
}

// Announce implements publish.Publisher.
func (o *overtaken) Announce(ps ...snapshot.Publication) {
	if end := o.publication.Load(); end != nil && ps[0].Scope == publish.MeshScope(meshName) {
		<-*end
	}
	o.snaps.Announce(ps...)
}

func (o *overtaken) Drop(node string) { o.snaps.Drop(node) }
func (o *overtaken) End(scope string) { o.snaps.End(scope) }

func overtake(t *testing.T, fn func(t *testing.T, o *overtaken)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		later := time.Now().Add(time.Hour)
		o := &overtaken{t: t, db: &spoilt{Store: memstore.New(), scopes: map[string]bool{}}, snaps: snapshot.New()}
		o.ids = &momentary{
			identities: &identities{}, db: o.db.Store, before: func(int) {}, after: func(int) {},
			pairs: map[string]publish.Pair{"web": pair(t, false, later), "admin": pair(t, false, later)},
		}
		policies := all.Policies()
		for i, pol := range policies {
			if pol.Kind == trafficpermission.Kind { // this policy is asked about every inbound
				slow := *pol
				slow.Inbound = func(d *draft.Inbound, s *policy.Selection) error {
					if end := o.plan.Load(); end != nil {
						<-*end
					}
					return pol.Inbound(d, s)
				}
				policies[i] = &slow
			}
		}
		o.loop = publish.Begin(t, o.db, publish.Options{Publisher: o, Parameters: parameters{}, Identities: o.ids, Policies: policies}, nil)
		spec := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}}}}
		storetest.Put(t, o.db, mesh.Meshes, "", meshName, spec)
		storetest.Put(t, o.db, mesh.Trusts, meshName, meshName, &mesh.Trust{Backend: "ca", Issuer: "one", Roots: pair(t, true, later).Certificate})
		o.be("web")
		release, err := o.loop.Connect(t.Context(), mesh.NodeID(meshName, "web-1"), false)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		fn(t, o)
	})
}

// be makes the proxy serve another service, and waits for all consequences.
func (o *overtaken) be(service string) {
	storetest.Put(o.t, o.db, mesh.Dataplanes, meshName, "web-1", dataplane("127.0.0.1", service, "http"))
	synctest.Wait()
}

// answer is the result of a request for the identity of the proxy.
type answer struct {
	secret *resource.Resource
	err    error
}

// ask requests the identity as a stream does: for the generation in the published set.
func (o *overtaken) ask() <-chan answer {
	out := make(chan answer, 1)
	node, name := mesh.NodeID(meshName, "web-1"), mesh.SecretIdentity(meshName)
	generation, _ := o.snaps.Get(node).Generation(name)
	go func() {
		s, err := o.loop.Secret(o.t.Context(), node, name, generation)
		out <- answer{s, err}
	}()
	synctest.Wait()
	return out
}

// expect demands the certificate of web, which the proxy's set belongs to.
func (o *overtaken) expect(a answer) {
	o.t.Helper()
	if a.err != nil {
		o.t.Error(a.err)
	} else if !bytes.Contains(a.secret.Body, o.ids.pairs["web"].Certificate) {
		o.t.Error("the certificate is for what the proxy was for a moment")
	}
}

// A proxy that changed and changed back during one plan keeps its set. It must not keep a
// certificate for the intermediate state, which the view had shown.
func TestIdentityIsForTheSetAndNotForTheView(t *testing.T) {
	for _, held := range []string{"plan", "publication"} {
		t.Run(held, func(t *testing.T) {
			overtake(t, func(t *testing.T, o *overtaken) {
				end := make(chan struct{})
				what := &o.plan
				if held == "publication" {
					what = &o.publication
				}
				time.Sleep(time.Second) // the windows of earlier rounds are over
				what.Store(&end)
				o.be("admin")
				asked := o.ask()
				o.be("web")
				what.Store(nil)
				close(end)
				synctest.Wait()
				if held == "plan" {
					o.expect(<-asked)
					return
				}
				// The set has changed and changed back, so the proxy may be told to ask
				// again.
				if a := <-asked; a.err == nil {
					o.expect(a)
				} else if !fault.Is(a.err, fault.Unavailable) {
					t.Error(a.err)
				}
				time.Sleep(time.Second) // what was written last is published
				o.expect(<-o.ask())
			})
		})
	}
}

// A view that fails shows an old state. A certificate made from newer rows of the store
// must not be handed out for a set that was made from the view.
func TestIdentityWhileTheViewFails(t *testing.T) {
	overtake(t, func(t *testing.T, o *overtaken) {
		o.expect(<-o.ask())
		o.db.spoil(meshName, true)
		o.be("admin")
		if a := <-o.ask(); !fault.Is(a.err, fault.Unavailable) {
			t.Errorf("what is stored but not shown was handed out: %v", a.err)
		}
		o.be("web")
		o.expect(<-o.ask())
		o.db.spoil(meshName, false)
		time.Sleep(time.Minute)
		synctest.Wait()
		o.expect(<-o.ask())
	})
}

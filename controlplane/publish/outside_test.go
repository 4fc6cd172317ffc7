package publish

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	gatewaykinds "github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

const outsidePlugin = "2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11"

// closed is a store in which the rows of control planes are slow to read or cannot be read.
type closed struct {
	store.Store
	mu   sync.Mutex
	wait map[string]chan struct{}
	fail map[string]bool
}

// hold blocks all readers of a control plane until it is called with false.
func (c *closed) hold(name string, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if yes {
		c.wait[name] = make(chan struct{})
		return
	}
	close(c.wait[name])
	delete(c.wait, name)
}

// spoil makes the reads of a control plane fail.
func (c *closed) spoil(name string, yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail[name] = yes
}

func (c *closed) View(ctx context.Context, fn func(store.Reader) error) error {
	return c.Store.View(ctx, func(r store.Reader) error { return fn(closedReader{r, c, ctx}) })
}

type closedReader struct {
	store.Reader
	c   *closed
	ctx context.Context //nolint:containedctx // of one view
}

func (r closedReader) List(k *model.Kind, q store.Query) ([]*model.Resource, error) {
	if k.Scoping == model.ControlPlane {
		r.c.mu.Lock()
		wait := r.c.wait[q.Scope]
		r.c.mu.Unlock()
		if wait != nil {
			select {
			case <-wait:
			case <-r.ctx.Done():
				return nil, r.ctx.Err()
			}
		}
		if r.bad(q.Scope) {
			return nil, errors.New("a row cannot be decoded")
		}
	}
	return r.Reader.List(k, q)
}

func (r closedReader) Get(k *model.Kind, scope, name string) (*model.Resource, error) {
	if k.Scoping == model.ControlPlane && r.bad(scope) {
		return nil, errors.New("a row cannot be decoded")
	}
	return r.Reader.Get(k, scope, name)
}

func (r closedReader) bad(scope string) bool {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	return r.c.fail[scope]
}

// between is a mesh m in which web demands the tokens of a plugin instance.
type between struct {
	*patient
	rows *closed
}

// betweenScopes runs a test with a loop that starts over a store that prepare has filled.
func betweenScopes(t *testing.T, prepare, fn func(t *testing.T, b *between)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rows := &closed{Store: memstore.New(), wait: map[string]chan struct{}{}, fail: map[string]bool{}}
		b := &between{&patient{t: t, db: rows, snaps: snapshot.New(), begin: time.Now()}, rows}
		b.put(mesh.Meshes, "", "m", &mesh.Mesh{})
		b.web("m", "web-1", "127.0.0.1")
		b.put(mesh.Dataplanes, "m", "free-1", b.free())
		for _, name := range []string{model.DefaultControlPlane, "other"} {
			b.put(gatewaykinds.Plugins, name, outsidePlugin, &gatewaykinds.Plugin{
				Name: gatewaykinds.PluginOAuth2, Enabled: true, Config: []byte(`{"auth_header_name":"authorization","global_credentials":true}`),
			})
		}
		prepare(t, b)
		b.loop = Begin(t, b.db, Options{Publisher: b.snaps, Parameters: ports{}, Check: true}, nil)
		fn(t, b)
		if n := b.loop.Differences(); n != 0 {
			t.Errorf("%d batches are not what a plan from nothing makes", n)
		}
	})
}

// free returns a dataplane for which no policy demands tokens.
func (b *between) free() *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: "127.0.0.9", Inbound: []mesh.Inbound{{
		Port: 8080, Tags: mesh.Tags{mesh.TagService: "free", mesh.TagProtocol: "http"},
	}}}}
}

// demand makes web demand the tokens of the plugin instance of a control plane.
func (b *between) demand(controlPlane string) (revision uint64) {
	b.t.Helper()
	text := `{"type":"MeshTokenAuth","mesh":"m","name":"x","spec":{"targetRef":{"kind":"MeshService","name":"web"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"plugin":{"controlPlane":"` +
		controlPlane + `","id":"` + outsidePlugin + `"}}}]}}`
	_, spec, err := model.DecodeDocument(meshtokenauth.Kind, []byte(text))
	if err != nil {
		b.t.Fatal(err)
	}
	return b.put(meshtokenauth.Kind, "m", "x", spec)
}

// shows describes the routes of a node: nothing is known of the node, they refuse, they
// check tokens, or they are open.
func (b *between) shows(node string) string {
	set := b.snaps.Get(node)
	if set == nil {
		return "nothing"
	}
	for r := range set.Each(resource.Route) {
		switch {
		case bytes.Contains(r.Body, []byte("misconfigured")):
			return "refuses"
		case bytes.Contains(r.Body, []byte(outsidePlugin)):
			return "checks"
		}
	}
	return "open"
}

func (b *between) expect(when, node, want string) {
	b.t.Helper()
	synctest.Wait()
	if got := b.shows(node); got != want {
		b.t.Errorf("%s: %s %s, want %s", when, node, got, want)
	}
}

// A sidecar may connect before the control plane that issues its tokens has been read. The
// sidecar then waits, and no refusing configuration is published in the meantime.
func TestSidecarWaitsForTheFirstView(t *testing.T) {
	for _, name := range []string{model.DefaultControlPlane, "other"} {
		t.Run(name, func(t *testing.T) {
			betweenScopes(t, func(_ *testing.T, b *between) {
				b.demand(name)
				b.rows.hold(name, true)
			}, func(t *testing.T, b *between) {
				connected := make(chan error, 1)
				go func() {
					_, err := b.loop.Connect(t.Context(), "m.web-1", false)
					connected <- err
				}()
				time.Sleep(time.Second)
				b.expect("before the first view", "m.web-1", "nothing")
				b.connect("m.free-1") // other proxies do not wait
				b.rows.hold(name, false)
				if err := <-connected; err != nil {
					t.Fatal(err)
				}
				b.expect("when it is connected", "m.web-1", "checks")
				if fs := b.loop.Failures(); len(fs) != 0 {
					t.Errorf("failures: %v", fs)
				}
			})
		})
	}
}

// A sidecar whose control plane cannot be read is not given a set. It keeps what its agent
// has. The other proxies of its mesh are not affected.
func TestSidecarOfAControlPlaneThatCannotBeRead(t *testing.T) {
	betweenScopes(t, func(_ *testing.T, b *between) {
		b.demand(model.DefaultControlPlane)
		b.rows.spoil(model.DefaultControlPlane, true)
	}, func(t *testing.T, b *between) {
		for range 3 {
			if _, err := b.loop.Connect(t.Context(), "m.web-1", false); !fault.Is(err, fault.Unavailable) {
				t.Fatalf("connecting: %v", err)
			}
			b.expect("while it cannot be read", "m.web-1", "nothing")
			time.Sleep(time.Second)
		}
		b.connect("m.free-1")
		if fs := b.loop.Failures(); len(fs) == 0 || !strings.Contains(fs[0].Err.Error(), "cannot be") {
			t.Errorf("failures: %v", fs)
		}
		b.rows.spoil(model.DefaultControlPlane, false)
		time.Sleep(time.Minute)
		b.connect("m.web-1")
		b.expect("when it can be read", "m.web-1", "checks")
		if fs := b.loop.Failures(); len(fs) != 0 {
			t.Errorf("failures remain: %v", fs)
		}
	})
}

// A connected sidecar keeps what it has while a control plane is read that a new policy
// names. If the control plane cannot be read, the check cannot be made. It must not be
// skipped: the inbound refuses.
func TestConnectedSidecarOfANewPolicy(t *testing.T) {
	betweenScopes(t, func(*testing.T, *between) {}, func(t *testing.T, b *between) {
		b.connect("m.web-1")
		b.connect("m.free-1")
		b.rows.hold("other", true)
		rev := b.demand("other")
		time.Sleep(time.Second)
		b.expect("while it is read", "m.web-1", "open")
		if b.settles(rev, time.Minute) {
			t.Error("a check that is not made yet counts as made")
		}
		b.put(mesh.Dataplanes, "m", "free-2", b.free())
		b.connect("m.free-2") // a proxy that was stored a moment ago waits only for its own mesh
		if fs := b.loop.FailuresOf(MeshScope("m"), "web-1"); len(fs) != 1 || !fs[0].Kept {
			t.Errorf("failures while it is read: %v", fs)
		}
		b.rows.spoil("other", true)
		b.rows.hold("other", false)
		time.Sleep(time.Second)
		b.expect("when it cannot be read", "m.web-1", "refuses")
		if !b.settles(rev, time.Second) {
			t.Error("a refusal does not count as in force")
		}
		b.expect("when it cannot be read", "m.free-1", "open")
		b.rows.spoil("other", false)
		time.Sleep(time.Minute)
		b.expect("when it is read", "m.web-1", "checks")
		if fs := b.loop.Failures(); len(fs) != 0 {
			t.Errorf("failures remain: %v", fs)
		}
	})
}

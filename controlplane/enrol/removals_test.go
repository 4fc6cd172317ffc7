package enrol

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// removing is a control plane that removes proxies that are gone for 30 s.
type removing struct {
	t     *testing.T
	store store.Store
	gate  *admit.Gate
	*Removals
	stop func()
	log  *slog.Logger
	// serial makes each registration a different document.
	serial int
	// broken makes deletions fail.
	broken atomic.Bool
}

func (w *removing) CompleteDocument(k *model.Kind, spec any) any {
	return w.gate.CompleteDocument(k, spec)
}

func (w *removing) PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error) {
	return w.gate.PutDocumentIf(ctx, k, scope, name, spec, allowed)
}

func (w *removing) AmendDocument(ctx context.Context, k *model.Kind, scope, name string, change func(*model.Resource) (any, error)) (admit.Outcome, error) {
	return w.gate.AmendDocument(ctx, k, scope, name, change)
}

func (w *removing) DeleteDocumentIf(ctx context.Context, k *model.Kind, scope, name string, allowed admit.Allowed) (store.Commit, error) {
	if w.broken.Load() {
		return store.Commit{}, fault.New(fault.Unavailable, "the store is away")
	}
	return w.gate.DeleteDocumentIf(ctx, k, scope, name, allowed)
}

// start starts a new process over the same store.
func (w *removing) start() {
	w.Removals = NewRemovals(w.store, w, "west", 30*time.Second, w.log)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.stop = func() { cancel(); <-done }
	synctest.Wait()
}

func (w *removing) put(name, owner string) {
	w.t.Helper()
	w.register(name, owner)
	w.Written("default", name, "")
}

// register does what put does, but its event does not arrive.
func (w *removing) register(name, owner string) {
	w.t.Helper()
	w.serial++
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "127.0.0.2", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "web"}}}}}
	if owner != "" {
		d.SetLabels(map[string]string{mesh.LabelOwner: owner, "serial": strconv.Itoa(w.serial)})
	}
	if _, _, err := w.gate.PutDocument(context.Background(), mesh.Dataplanes, "default", name, d); err != nil {
		w.t.Fatal(err)
	}
}

func (w *removing) expect(when string, names ...string) {
	w.t.Helper()
	synctest.Wait()
	var got []*model.Resource
	if err := w.store.View(context.Background(), func(r store.Reader) (err error) {
		got, err = r.List(mesh.Dataplanes, store.Query{Scope: "default"})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	if len(got) != len(names) {
		w.t.Errorf("%s: %d dataplanes, want %v", when, len(got), names)
		return
	}
	for i, n := range names {
		if got[i].Name != n {
			w.t.Errorf("%s: %s instead of %s", when, got[i].Name, n)
		}
	}
}

func removingOf(t *testing.T, s store.Store) *removing {
	return &removing{
		t: t, store: s, log: slog.New(slog.DiscardHandler),
		gate: admit.New(s, &admittest.Revoker{}, mesh.Kinds(), time.Now).As(model.System("test")),
	}
}

func removals(t *testing.T, f func(w *removing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		w := removingOf(t, s)
		if _, _, err := w.gate.PutDocument(context.Background(), mesh.Meshes, "", "default", &mesh.Mesh{}); err != nil {
			t.Fatal(err)
		}
		w.start()
		f(w)
		w.stop()
		_ = s.Close()
	})
}

// TestCrashedProxyIsRemoved: the registration of an agent is removed when it was without a
// stream for 30 s. Dataplanes of an operator or of an Envoy without an agent stay.
func TestCrashedProxyIsRemoved(t *testing.T) {
	removals(t, func(w *removing) {
		for name, owner := range map[string]string{"agent": mesh.OwnerAgent, "bare": mesh.OwnerProxy, "operator": "", "silent": mesh.OwnerAgent} {
			w.put(name, owner)
			if name != "silent" { // silent registers and never opens a stream
				w.Connected("default", name)
			}
		}
		time.Sleep(29 * time.Second)
		w.expect("while they are there", "agent", "bare", "operator", "silent")
		time.Sleep(2 * time.Second)
		w.expect("after 30 s without a stream", "agent", "bare", "operator")
		for _, name := range []string{"agent", "bare", "operator"} {
			w.Disconnected("default", name)
		}
		time.Sleep(29 * time.Second)
		w.expect("before 30 s", "agent", "bare", "operator")
		time.Sleep(2 * time.Second)
		w.expect("after 30 s", "bare", "operator")
	})
}

// TestProxiesOfZonesAreRemoved: what the agents of ingresses and egresses have registered goes like
// that of sidecars, and comes to be known at the start like theirs. What belongs to another zone or
// to an operator stays.
func TestProxiesOfZonesAreRemoved(t *testing.T) {
	removals(t, func(w *removing) {
		put := func(proxyType, name, zone, owner string) {
			t.Helper()
			var spec mesh.Zonal = &mesh.ZoneIngress{Zone: zone, Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.2", Port: 10001}}
			if proxyType == mesh.ProxyEgress {
				spec = &mesh.ZoneEgress{Zone: zone, Networking: &mesh.ZoneEgressNetworking{Address: "127.0.0.2", Port: 10002}}
			}
			if owner != "" {
				spec.SetLabels(map[string]string{mesh.LabelOwner: owner})
			}
			if _, _, err := w.gate.PutDocument(context.Background(), mesh.ZoneKind(proxyType), "", name, spec); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			got := []string{}
			if err := w.store.View(context.Background(), func(r store.Reader) error {
				for _, proxyType := range mesh.ZoneProxies {
					list, err := r.List(mesh.ZoneKind(proxyType), store.Query{})
					if err != nil {
						return err
					}
					for _, res := range list {
						got = append(got, proxyType+" "+res.Name)
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		for _, proxyType := range mesh.ZoneProxies {
			scope := mesh.ZoneNodeScope(proxyType)
			put(proxyType, "agent", "west", mesh.OwnerAgent)
			put(proxyType, "bare", "", mesh.OwnerProxy)
			put(proxyType, "operator", "", "")
			put(proxyType, "other", "east", mesh.OwnerAgent)
			for _, name := range []string{"agent", "bare", "operator", "other"} {
				w.Written(scope, name, "")
			}
			w.Connected(scope, "agent")
		}
		all := []string{"ingress agent", "ingress bare", "ingress operator", "ingress other", "egress agent", "egress bare", "egress operator", "egress other"}
		time.Sleep(time.Hour)
		expect("while they are there", all...)
		w.Disconnected(mesh.ZoneNodeScope(mesh.ProxyIngress), "agent")
		time.Sleep(29 * time.Second)
		expect("before 30 s", all...)
		time.Sleep(2 * time.Second)
		expect("after 30 s", all[1:]...)
		w.stop()
		w.start() // the agent of the egress does not come back
		time.Sleep(29 * time.Second)
		expect("after a restart", all[1:]...)
		time.Sleep(2 * time.Second)
		expect("30 s after it", slices.Concat(all[1:4], all[5:])...)
	})
}

// TestReturnedProxyStays: the time starts anew with each stream, and a stream that is still
// open counts.
func TestReturnedProxyStays(t *testing.T) {
	removals(t, func(w *removing) {
		w.put("agent", mesh.OwnerAgent)
		w.Connected("default", "agent")
		w.Connected("default", "agent")
		w.Disconnected("default", "agent")
		time.Sleep(time.Hour)
		w.expect("with the older stream", "agent")
		w.Disconnected("default", "agent")
		for range 10 {
			time.Sleep(25 * time.Second)
			w.Connected("default", "agent")
			w.Disconnected("default", "agent")
			w.expect("after a short absence", "agent")
		}
		w.put("agent", "")
		time.Sleep(time.Hour)
		w.expect("once an operator has taken it over", "agent")
	})
}

// TestAbsentControlPlaneRemovesNobody: after a restart of the control plane every proxy has
// the full time to return.
func TestAbsentControlPlaneRemovesNobody(t *testing.T) {
	removals(t, func(w *removing) {
		w.put("back", mesh.OwnerAgent)
		w.put("gone", mesh.OwnerAgent)
		w.Connected("default", "back")
		w.Connected("default", "gone")
		w.stop()
		time.Sleep(time.Hour)
		w.start()
		w.expect("at the start", "back", "gone")
		time.Sleep(29 * time.Second)
		w.Connected("default", "back")
		w.expect("before 30 s", "back", "gone")
		w.broken.Store(true)
		time.Sleep(2 * time.Second)
		w.expect("while the store is away", "back", "gone")
		w.broken.Store(false)
		time.Sleep(6 * time.Second)
		w.expect("after that", "back")
	})
}

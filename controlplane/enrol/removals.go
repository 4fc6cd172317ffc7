package enrol

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Removals removes the Dataplanes of agents that are gone: they crashed with their proxy,
// or were cut off. Otherwise other proxies would keep sending requests to their endpoints.
// An agent that was only cut off registers again when it returns. The same goes for the proxies of
// the own zone, which other zones and meshes would still be led to, and which take a place of the
// few that may register. Their mesh is called [mesh.ZoneNodeScope].
//
// The time is measured only by this process, from the end of the last stream, from the
// registration, or from its own start. So an absence of the control plane removes no
// Dataplane. Dataplanes of operators stay, and so do those of Envoys without an agent,
// which would not register again.
type Removals struct {
	// Store is read for the Dataplanes that exist at the start.
	Store store.Store
	// Documents deletes Dataplanes. Its transaction checks that the Dataplane still belongs
	// to the agent.
	Documents Documents
	// After is how long a proxy must be without a stream.
	After time.Duration
	// Zone is the own zone: proxies of others have their streams elsewhere.
	Zone string
	Log  *slog.Logger

	mu sync.Mutex
	// streams counts the open streams of each proxy.
	streams map[proxyKey]int
	// due is when absent proxies are removed.
	due map[proxyKey]time.Time
	// of are the agents that are known to have registered the proxies.
	of map[proxyKey]string
	// unseen are Dataplanes that may exist without an event of them.
	unseen lookout
	wake   chan struct{}
}

type proxyKey struct{ mesh, name string }

// resource returns the kind and the scope of what a proxy has registered.
func (k proxyKey) resource() (kind *model.Kind, scope string) {
	for _, t := range mesh.ZoneProxies {
		if k.mesh == mesh.ZoneNodeScope(t) {
			return mesh.ZoneKind(t), ""
		}
	}
	return mesh.Dataplanes, k.mesh
}

// retryRemoval is the pause before a failed removal is tried again.
const retryRemoval = 5 * time.Second

// NewRemovals returns Removals without any proxy. Run does the work.
func NewRemovals(s store.Store, d Documents, zone string, after time.Duration, log *slog.Logger) *Removals {
	return &Removals{
		Store: s, Documents: d, Zone: zone, After: after, Log: log,
		streams: map[proxyKey]int{}, due: map[proxyKey]time.Time{}, of: map[proxyKey]string{}, wake: make(chan struct{}, 1),
		unseen: lookout{all: true, meshes: map[string]bool{}},
	}
}

// Connected says that a proxy has opened a stream. It does not block.
func (r *Removals) Connected(meshName, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := proxyKey{meshName, name}
	r.streams[k]++
	delete(r.due, k)
}

// Disconnected says that a stream of a proxy has ended. It does not block.
func (r *Removals) Disconnected(meshName, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := proxyKey{meshName, name}
	if r.streams[k]--; r.streams[k] > 0 {
		return
	}
	delete(r.streams, k)
	r.expect(k, r.After)
}

// Written says that a Dataplane was created or replaced, perhaps by an agent that never
// opens a stream. Its proxy gets the full time from now on, however long an earlier one was
// gone, unless it is still that of the same agent ([mesh.LabelInstance]): others write too, and
// the control plane itself writes into each ingress whenever services change. It does not block.
func (r *Removals) Written(meshName, name, instance string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := proxyKey{meshName, name}
	_, waits := r.due[k]
	if kept := waits && r.same(k, instance); r.streams[k] == 0 && !kept {
		r.expect(k, r.After)
	}
	r.learn(k, instance)
}

// same reports whether a proxy is known to be of an agent. Of one that does not say which it is
// nothing is known. The caller holds the lock.
func (r *Removals) same(k proxyKey, instance string) bool {
	return instance != "" && r.of[k] == instance
}

// learn notes which agent a proxy is of. The caller holds the lock.
func (r *Removals) learn(k proxyKey, instance string) {
	if r.of[k] = instance; instance == "" {
		delete(r.of, k)
	}
}

// Deleted says that a Dataplane was deleted. It does not block.
func (r *Removals) Deleted(meshName, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := proxyKey{meshName, name}
	delete(r.due, k)
	delete(r.of, k)
}

// expect schedules the removal of a proxy. The caller holds the lock.
func (r *Removals) expect(k proxyKey, in time.Duration) {
	r.due[k] = time.Now().Add(in)
	r.signal()
}

// signal wakes Run.
func (r *Removals) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run removes Dataplanes until ctx ends, and then returns nil. Read errors do not end it.
func (r *Removals) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		again := r.look(ctx)
		gone, next := r.gone()
		for _, k := range gone {
			r.remove(ctx, k)
		}
		if len(gone) > 0 {
			continue
		}
		r.wait(ctx, alarm.Sooner(next, again))
	}
	return nil
}

// wait returns at the time until (unless it is zero), when something changes, or when ctx
// ends.
func (r *Removals) wait(ctx context.Context, until time.Time) {
	if !until.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, until)
		defer cancel()
	}
	select {
	case <-r.wake:
	case <-ctx.Done():
	}
}

// gone returns the proxies whose time is over, and when the next one's time is over.
func (r *Removals) gone() (over []proxyKey, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for k, at := range r.due {
		switch {
		case !at.After(now):
			over = append(over, k)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	for _, k := range over {
		delete(r.due, k)
	}
	return over, next
}

// errStays rolls back the removal of a Dataplane that must stay.
var errStays = errors.New("the dataplane stays")

// agents reports whether a Dataplane may belong to an agent. Most do not, and then no
// transaction is needed. A Dataplane that cannot be read is judged by the transaction.
func (r *Removals) agents(ctx context.Context, k proxyKey) (yes bool) {
	kind, scope := k.resource()
	err := r.Store.View(ctx, func(s store.Reader) error {
		stored, err := s.Get(kind, scope, k.name)
		yes = err == nil && r.ofAgent(stored)
		return err
	})
	return yes || err != nil && !fault.Is(err, fault.NotFound)
}

// instanceOf returns which agent has registered a resource, empty if it does not say.
func instanceOf(stored *model.Resource) string {
	return model.LabelsOf(stored.Spec)[mesh.LabelInstance]
}

// ofAgent reports whether an agent here has registered a resource.
func (r *Removals) ofAgent(stored *model.Resource) bool {
	z, zonal := stored.Spec.(mesh.Zonal)
	return owner(stored) == mesh.OwnerAgent && (!zonal || z.In(r.Zone, r.Zone))
}

// remove deletes a Dataplane if it belongs to an agent that has no stream.
func (r *Removals) remove(ctx context.Context, k proxyKey) {
	if !r.agents(ctx, k) {
		return
	}
	kind, scope := k.resource()
	// Holders of proxy tokens can make proxies appear and disappear, so the change records
	// of removals count against the limit for proxies.
	_, err := r.Documents.DeleteDocumentIf(model.WithOrigin(ctx, model.OriginProxy), kind, scope, k.name, func(_ store.Reader, stored *model.Resource) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		_, again := r.due[k]
		// If another agent wrote it a moment ago, its event may not have arrived yet.
		written := time.Since(stored.Modified)
		unheard := !r.same(k, instanceOf(stored)) && written >= 0 && written < r.After
		if again || r.streams[k] > 0 || !r.ofAgent(stored) || unheard {
			return errStays
		}
		return nil
	})
	switch {
	case err == nil:
		r.Log.Info("a proxy that had registered itself was removed, because it is gone", "kind", kind.Name, "mesh", scope, "name", k.name, "after", r.After.String())
	case errors.Is(err, errStays), fault.Is(err, fault.NotFound), ctx.Err() != nil:
	default:
		r.Log.Warn("a proxy that is gone could not be removed", "kind", kind.Name, "mesh", scope, "name", k.name, "retry_in", retryRemoval.String(), "error", err)
		r.mu.Lock()
		if r.streams[k] == 0 {
			r.expect(k, retryRemoval)
		}
		r.mu.Unlock()
	}
}

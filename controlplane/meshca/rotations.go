package meshca

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/alarm"
)

// Bounds of the pause after the store or the progress of proxies failed.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Progress tells what proxies have confirmed.
type Progress interface {
	// Confirmed returns once every connected proxy of a mesh runs with what a revision of
	// the store, or a newer one, says, including its identity. others asks it of the proxies of
	// other meshes that judge by the roots of the mesh, too. It returns an error when ctx ends
	// before.
	Confirmed(ctx context.Context, mesh string, revision uint64, others bool) error
	// Unrefused is like Confirmed, but waits only for connected proxies that refuse a secret
	// of the revision, and for those that refused one before they came back and have not
	// answered since. Those of other meshes are not among them, nor are egresses that are not offered
	// the revision.
	Unrefused(ctx context.Context, mesh string, revision uint64) error
	// Shown returns once what the revision says is offered to the proxies of a mesh. Those of other
	// meshes are not waited for, nor are egresses, which serve all meshes: a mesh that cannot be planned
	// must not stop the rotations of others. It returns an error when ctx ends before.
	Shown(ctx context.Context, mesh string, revision uint64) error
	// Lacking returns the ids of the connected nodes for which Confirmed would wait, those of
	// other meshes among them, in order: those that have not answered, and those that refuse. A refusal outlives its
	// stream: it counts until the dataplane gives another answer.
	Lacking(mesh string, revision uint64) (silent, refusing []string)
	// Behind says, for people, whose proxies are not offered the revision yet, those of other meshes among
	// them: nobody of these can answer.
	Behind(mesh string, revision uint64) []string
	// Left returns when the last of the dataplanes left that refused and are away. It returns
	// the zero time if there are none. others is as in Confirmed.
	Left(mesh string, revision uint64, others bool) time.Time
	// Settled says of the nodes that a step concerns, by their ids, whether it need not wait for
	// them, for those of each mesh as of one moment: it need not for those that run with the revision and have a stream,
	// and those that hold no certificate. Beside the dataplanes of a mesh and egresses, these are
	// the dataplanes of other meshes that judge by its roots. life is the longest life of
	// certificates of the mesh. It returns nil if that cannot be said.
	Settled(mesh string, revision uint64, life time.Duration) map[string]bool
	// Others lists the other meshes with dataplanes that judge by the roots of a mesh.
	Others(mesh string) []string
}

// Clock says within what bounds the wall clock can be believed; see package steady. If the clock
// is set back, a root that is no longer trusted stays so.
type Clock interface {
	// EarliestFor and LatestFor return the bounds of the current time, for something that
	// lives for a span.
	EarliestFor(life time.Duration) time.Time
	LatestFor(life time.Duration) time.Time
}

// Options are the options of [Rotations]. All are needed.
type Options struct {
	Store store.Store
	// Writer writes the steps. Its transactions read the mesh and the state again, so that no
	// step is taken for a mesh that was deleted or has moved on.
	Writer   identity.Writer
	Progress Progress
	// LeafLife is how long certificates of a mesh with this authority are valid.
	LeafLife func(*mesh.Authority) time.Duration
	// Grace is how long a new authority waits, before it signs, for proxies that hold a
	// certificate and have no stream. They may be about to come back, especially after a
	// start of the control plane, when no proxy has a stream yet. It begins when the root is
	// offered to proxies.
	Grace time.Duration
	// Silence is how long after the grace a new authority waits for proxies that are connected
	// and have not answered. It is bounded because a thief with the token of one proxy could
	// otherwise block every rotation by not answering. Of other meshes it bounds the wait for
	// proxies that refuse, too, and for the root to be offered to them at all: who may have them revoked, or
	// mend a mesh that cannot be planned, has no say there. The latter holds for egresses, too.
	Silence time.Duration
	// Held is called when the grace of a mesh is over and connected proxies, or meshes that stand still, keep a
	// new authority from signing, with the revision that they have not confirmed; also when the root was not
	// offered to the proxies of the mesh for as long. It is called with 0 when that has ended. It must not block.
	Held  func(mesh string, revision uint64)
	Now   func() time.Time
	Clock Clock
	Log   *slog.Logger
}

// Rotations puts the authorities that meshes ask for into force. The first authority of a mesh
// is trusted at once. A later one takes three steps, each of which is a revision of the store:
//
//   - The new root is trusted beside the old one.
//   - The new authority signs. This needs that every proxy with a certificate has confirmed the
//     first step, and every proxy of another mesh that judges by the roots of this one. When the
//     grace is over, the connected ones are enough.
//   - The old root is removed. This needs that every dataplane has confirmed the second step, or
//     that the last certificate under the old root has expired.
//
// So a proxy that answers never meets a certificate that it does not trust. Rotations wait for a
// connected proxy that does not answer no longer than [Options].Silence, and for one of the mesh that
// refuses a root until it accepts it. The steps are stored, and a restart resumes them.
//
// If a mesh asks for another authority during a rotation, that one supersedes the one before. A
// pair of certificate and key that does not match, while its two secrets are being replaced,
// changes nothing.
type Rotations struct {
	Options
	wake chan struct{}

	mu sync.Mutex
	// marked are the meshes that are to be looked at, active those with a goroutine.
	marked map[string]bool
	active map[string]*rotation
	// refused holds, by mesh, the logged reason why a pair is not accepted.
	refused map[string]string
}

// rotation is the state of the goroutine of one mesh. The lock of [Rotations] guards it.
type rotation struct {
	// again says that the mesh has changed since the goroutine last looked.
	again bool
	// absent says that the goroutine waits for dataplanes that are away.
	absent bool
	// others are the other meshes that have some of these.
	others []string
	// trusting is the revision that proxies are to confirm in [PhaseTrusting], and since is when the goroutine
	// has seen it first. patience is until when it waits there for proxies that are away, zero until the
	// revision is offered to proxies. Only the goroutine uses them.
	trusting        uint64
	since, patience time.Time
	// held says that [Options].Held was called. Only the goroutine uses it, too.
	held bool
	// interrupt ends the current wait of the goroutine.
	interrupt context.CancelFunc
}

// NewRotations returns rotations. Run does the work.
func NewRotations(o Options) *Rotations {
	return &Rotations{
		Options: o, wake: make(chan struct{}, 1),
		marked: map[string]bool{}, active: map[string]*rotation{}, refused: map[string]string{},
	}
}

// Changed says that a mesh, one of its secrets or one of its dataplanes was written or deleted.
// It does not block and may be called before Run.
func (r *Rotations) Changed(meshName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.active[meshName]; w != nil {
		w.again = true
		w.interrupt()
		return
	}
	r.marked[meshName] = true
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// ProxiesChanged says that a proxy of a mesh connected or that one of its dataplanes was deleted.
// It does not block, and costs nothing unless a rotation waits for dataplanes that are away.
func (r *Rotations) ProxiesChanged(meshName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, w := range r.active {
		if w.absent && (name == meshName || slices.Contains(w.others, meshName)) {
			w.again = true
			w.interrupt()
		}
	}
}

// EgressesChanged does what ProxiesChanged does, for an egress: it may have a certificate of any mesh.
func (r *Rotations) EgressesChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.active {
		if w.absent {
			w.again = true
			w.interrupt()
		}
	}
}

// Run looks at all meshes and then follows changes until ctx ends. It returns the error of ctx
// after everything that it started has ended. It goes on if something cannot be read.
func (r *Rotations) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { r.lookAtAll(ctx) })
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.wake:
		}
		r.mu.Lock()
		for name := range r.marked {
			w := &rotation{interrupt: func() {}}
			r.active[name] = w
			all.Go(func() { r.follow(ctx, name, w) })
		}
		clear(r.marked)
		r.mu.Unlock()
	}
}

// lookAtAll marks every mesh that can be read. A mesh that cannot be read is logged, and is
// looked at when it is written again. If the store cannot be read, lookAtAll tries again.
func (r *Rotations) lookAtAll(ctx context.Context) {
	for retry := firstRetry; ; retry = min(2*retry, lastRetry) {
		var unreadable []error
		err := r.Store.View(ctx, func(s store.Reader) error {
			meshes, bad, err := store.ListReadable(s, mesh.Meshes, "")
			unreadable = bad
			for _, m := range meshes {
				r.Changed(m.Name)
			}
			return err
		})
		for _, bad := range unreadable {
			r.Log.Error("a mesh cannot be read; its authority stays as it is until the mesh is written again", "error", bad)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		r.Log.Error("the meshes cannot be listed, and their authorities are not looked after", "retry_in", retry.String(), "error", err)
		_ = alarm.Rest(ctx, retry) // the loop checks ctx
	}
}

// follow takes a mesh from step to step until no step is left.
func (r *Rotations) follow(ctx context.Context, name string, w *rotation) {
	retry := time.Duration(0)
	for {
		wait, cancel := context.WithCancel(ctx)
		r.begin(w, cancel)
		rests, err := r.round(ctx, wait, name, w)
		switch {
		case ctx.Err() != nil:
		case err != nil && wait.Err() == nil:
			retry = min(max(firstRetry, 2*retry), lastRetry)
			r.Log.Error("the authority of a mesh cannot be looked after", "mesh", name, "retry_in", retry.String(), "error", err)
			_ = alarm.Rest(wait, retry) // a change ends it
			rests = false
		case err == nil:
			retry = 0
		}
		cancel()
		if ctx.Err() != nil || rests && r.end(name, w) {
			return
		}
	}
}

func (r *Rotations) begin(w *rotation, interrupt context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.again, w.absent, w.others, w.interrupt = false, false, nil, interrupt
}

// end takes a mesh off the list unless something changed meanwhile.
func (r *Rotations) end(name string, w *rotation) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w.again {
		return false
	}
	delete(r.active, name)
	return true
}

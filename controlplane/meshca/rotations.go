package meshca

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// Bounds of the pause after the store or the progress of proxies failed.
const (
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Progress tells how far proxies are.
type Progress interface {
	// Confirmed returns once every connected proxy of a mesh runs with what a
	// revision of the store or a newer one says, its identity included, or with
	// an error when ctx ends.
	Confirmed(ctx context.Context, mesh string, revision uint64) error
	// Unrefused is like Confirmed, but waits only for connected proxies that refuse a
	// secret of the revision, or did before they came back and have not answered since.
	Unrefused(ctx context.Context, mesh string, revision uint64) error
	// Shown returns once the proxies of a mesh are told what the revision says, or with an
	// error when ctx ends.
	Shown(ctx context.Context, mesh string, revision uint64) error
	// Lacking returns the connected dataplanes of a mesh that Confirmed would wait for, in
	// order: those that have not answered, and those that refuse. A refusal outlives its
	// stream, and stands until the dataplane answers otherwise.
	Lacking(mesh string, revision uint64) (silent, refusing []string)
	// Left returns when the last of those dataplanes left that refused and are away; zero if
	// there are none.
	Left(mesh string, revision uint64) time.Time
	// Settled returns, of one moment, the dataplanes of a mesh that a step need not wait
	// for, by name: those that run with the revision and have a stream, and those that hold
	// no certificate. life is the longest that certificates of the mesh live.
	Settled(mesh string, revision uint64, life time.Duration) map[string]bool
}

// Clock says within what bounds the wall clock can be believed; see package steady. A
// root that is trusted no more does not come back with the clock.
type Clock interface {
	// EarliestFor and LatestFor are what the time can be, for what lives for a span.
	EarliestFor(life time.Duration) time.Time
	LatestFor(life time.Duration) time.Time
}

// Options of [Rotations]. All are needed.
type Options struct {
	Store store.Store
	// Writer writes the steps. In its transactions the mesh and the state are read
	// again, so that no step is taken of a mesh that is gone or has moved on.
	Writer   identity.Writer
	Progress Progress
	// LeafLife is how long certificates of a mesh with this authority are good.
	LeafLife func(*mesh.Authority) time.Duration
	// Grace is how long a new authority waits, before it signs, for proxies that hold
	// a certificate and have no stream: they may be on their way back, above all
	// after a start of the control plane, when nobody has a stream yet. It begins when the
	// root is shown to proxies.
	Grace time.Duration
	// Silence is how long after the grace it waits for proxies that are connected and
	// have not answered. Whoever has the token of a proxy can be one.
	Silence time.Duration
	// Held is told when the grace of a mesh is over and connected proxies keep a new
	// authority from signing, with the revision that they lack, and with 0 when that is
	// over. It must not block.
	Held  func(mesh string, revision uint64)
	Now   func() time.Time
	Clock Clock
	Log   *slog.Logger
}

// Rotations puts the authorities that meshes ask for into force. The first of a
// mesh is trusted at once. Later ones take three steps, each of which is a
// revision of the store: the new root is trusted beside the old one; once every
// proxy with a certificate has confirmed that, or is away for longer than the
// grace and everybody connected has, the new authority signs; once every
// dataplane has confirmed that, or the last certificate under the old root has
// expired, the old root goes. So at no moment does a proxy that answers meet a
// certificate that it does not trust. Who is connected and answers nothing is waited for
// no longer than [Options].Silence; who refuses a root, until it does no more. The steps are stored: a restart resumes them.
//
// An authority that is asked for during a rotation supersedes the one before. A
// pair that is not whole, while its two secrets are being replaced, changes
// nothing.
type Rotations struct {
	Options
	wake chan struct{}

	mu sync.Mutex
	// marked are meshes to look at, active those that are being looked at.
	marked map[string]bool
	active map[string]*rotation
	// refused are the reasons, logged already, why a pair is not taken, by mesh.
	refused map[string]string
}

// rotation is the goroutine of one mesh. The lock of [Rotations] guards it.
type rotation struct {
	// again says that the mesh changed since the goroutine last looked.
	again bool
	// absent says that it waits for dataplanes that are away.
	absent bool
	// trusting is the revision that proxies are told of in [PhaseTrusting], and patience
	// until when it waits there for proxies that are away. Both are zero until the revision
	// is shown, and belong to the goroutine.
	trusting uint64
	patience time.Time
	// held says that [Options].Held was told of it. It belongs to the goroutine, too.
	held bool
	// interrupt ends what it waits for.
	interrupt context.CancelFunc
}

// NewRotations returns rotations; Run does the work.
func NewRotations(o Options) *Rotations {
	return &Rotations{
		Options: o, wake: make(chan struct{}, 1),
		marked: map[string]bool{}, active: map[string]*rotation{}, refused: map[string]string{},
	}
}

// Changed says that a mesh, one of its secrets or its dataplanes was written or
// deleted. It does not block and may be called before Run.
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

// ProxiesChanged says that a proxy of a mesh connected, or that a dataplane of it
// was deleted. It does not block, and costs nothing unless a rotation waits for
// dataplanes that are away.
func (r *Rotations) ProxiesChanged(meshName string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.active[meshName]; w != nil && w.absent {
		w.again = true
		w.interrupt()
	}
}

// Run looks at all meshes and then follows changes until ctx ends, whose error it
// returns after everything it started has ended. Nothing that it cannot read ends it.
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

// lookAtAll has every mesh looked at that can be read; one that cannot is logged, and
// looked at when it is written again. A store that cannot be read is asked again.
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
		pause(ctx, retry)
	}
}

// follow takes a mesh from step to step until there is none left.
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
			pause(wait, retry)
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

func pause(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

func (r *Rotations) begin(w *rotation, interrupt context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.again, w.absent, w.interrupt = false, false, interrupt
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

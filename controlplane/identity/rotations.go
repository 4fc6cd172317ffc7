package identity

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

const (
	// maxPrevious bounds the roots that are trusted for old certificates alone.
	// With so many left a mesh keeps its authority until one of them is gone.
	maxPrevious = 8
	// Bounds of the pause after the store or the progress of proxies failed.
	firstRetry = time.Second
	lastRetry  = time.Minute
)

// Progress tells how far proxies are.
type Progress interface {
	// Confirmed returns once every connected proxy of a mesh runs with what a
	// revision of the store or a newer one says, its identity included, or with
	// an error when ctx ends.
	Confirmed(ctx context.Context, mesh string, revision uint64) error
	// Connected returns the dataplanes of a mesh that have a stream, by name.
	Connected(mesh string) map[string]bool
}

// Writer runs a transaction; the gate of all writes is one.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// Options of [Rotations]. All are needed.
type Options struct {
	Store store.Store
	// Writer writes the steps. In its transactions the mesh and the state are read
	// again, so that no step is taken of a mesh that is gone or has moved on.
	Writer   Writer
	Progress Progress
	// LeafLife is how long certificates of a mesh with this authority are good.
	LeafLife func(*mesh.Authority) time.Duration
	// Grace is how long a new authority waits, before it signs, for proxies that hold
	// a certificate and have no stream: they may be on their way back, above all
	// after a start of the control plane, when nobody has a stream yet.
	Grace time.Duration
	Now   func() time.Time
	Log   *slog.Logger
}

// Rotations puts the authorities that meshes ask for into force. The first of a
// mesh is trusted at once. Later ones take three steps, each of which is a
// revision of the store: the new root is trusted beside the old one; once every
// proxy with a certificate has confirmed that, or is away for longer than the
// grace and everybody connected has, the new authority signs; once every
// dataplane has confirmed that, or the last certificate under the old root has
// expired, the old root goes. So at no moment does a proxy meet a certificate
// that it does not trust. The steps are stored: a restart resumes them.
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
	// trusting is the version of the state in [PhaseTrusting] that this process saw
	// first, and patience until when it waits there for proxies that are away. Both
	// belong to the goroutine.
	trusting uint64
	patience time.Time
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

// round does what can be done for a mesh now, waits for what the next step needs
// and takes it. It reports whether nothing is left to wait for. wait ends when the
// mesh changes.
func (r *Rotations) round(ctx, wait context.Context, name string, w *rotation) (rests bool, err error) {
	at, due, err := r.reconcile(ctx, name)
	if err != nil {
		return false, err
	}
	due = r.patient(w, at, due)
	resting := at == nil || at.state.Phase == ""
	if resting && due.IsZero() {
		return true, nil
	}
	if !due.IsZero() {
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(wait, due.Sub(r.Now()))
		defer cancel()
	}
	confirmed := false
	if !resting {
		confirmed, err = r.confirmed(wait, name, at, w)
	}
	switch {
	case wait.Err() != nil:
		// The error, if any, says no more than that the wait was ended.
		return false, nil
	case err != nil:
		return false, fmt.Errorf("wait for proxies: %w", err)
	case confirmed:
		return false, r.next(ctx, name, at)
	}
	<-wait.Done()
	return false, nil
}

// patient begins the grace of a phase in which proxies learn a root, and returns
// the earlier of its end and due.
func (r *Rotations) patient(w *rotation, at *position, due time.Time) time.Time {
	if at == nil || at.state.Phase != PhaseTrusting {
		return due
	}
	if w.trusting != at.version || w.patience.IsZero() {
		w.trusting, w.patience = at.version, r.Now().Add(r.Grace)
	}
	if w.patience.After(r.Now()) {
		return sooner(due, w.patience)
	}
	return due
}

// confirmed waits for the connected proxies and reports whether the next step can
// be taken, which may need proxies that are away.
func (r *Rotations) confirmed(wait context.Context, name string, at *position, w *rotation) (bool, error) {
	trusting := at.state.Phase == PhaseTrusting
	if err := r.Progress.Confirmed(wait, name, at.revision); err != nil || trusting && !w.patience.After(r.Now()) {
		return err == nil, err
	}
	r.mu.Lock()
	w.absent = true
	r.mu.Unlock()
	// The first wait may have been long. Who is connected before and after a
	// second one has confirmed.
	before := r.Progress.Connected(name)
	if err := r.Progress.Confirmed(wait, name, at.revision); err != nil {
		return false, err
	}
	after := r.Progress.Connected(name)
	all := true
	err := r.Store.View(wait, func(s store.Reader) error {
		dataplanes, err := s.List(mesh.Dataplanes, store.Query{Scope: name})
		for _, d := range dataplanes {
			all = all && before[d.Name] && after[d.Name]
		}
		return err
	})
	return all && err == nil, err
}

// next takes the step after a phase whose proxies have confirmed.
func (r *Rotations) next(ctx context.Context, name string, at *position) error {
	_, err := r.apply(ctx, name, func(a *MeshAuthority, life time.Duration, version uint64) *MeshAuthority {
		switch {
		case a == nil || version != at.version:
			return a
		case a.Phase == PhaseTrusting:
			return a.sign(r.Now(), life)
		}
		return a.retire()
	})
	return err
}

// asked reads the pair that a mesh asks for, and the name of its backend; nil
// while mutual TLS is off or there is no mesh.
func (r *Rotations) asked(ctx context.Context, name string) (backend string, pair *KeyPair, err error) {
	err = r.Store.View(ctx, func(s store.Reader) error {
		res, err := s.Get(mesh.Meshes, "", name)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		m := res.Spec.(*mesh.Mesh)
		if a := m.Authority(); a != nil {
			backend = a.Name
		}
		pair, err = wanted(s, name, m)
		return err
	})
	return backend, pair, err
}

// reconcile brings the state of a mesh in line with what the mesh asks for and
// with the time; nil if there is nothing to bring in line. due is when it wants to
// be called again; zero if only changes matter.
func (r *Rotations) reconcile(ctx context.Context, name string) (at *position, due time.Time, err error) {
	backend, pair, refusal := r.asked(ctx, name)
	if refusal != nil && fault.CodeOf(refusal) == fault.Internal {
		return nil, due, refusal
	}
	if refusal == nil && pair != nil {
		due, refusal = r.check(pair)
	}
	at, err = r.apply(ctx, name, func(a *MeshAuthority, life time.Duration, _ uint64) *MeshAuthority {
		a = a.expire(r.Now())
		if pair != nil && refusal == nil {
			a = a.aim(backend, pair, life)
		}
		return a
	})
	if err != nil {
		return nil, due, err
	}
	if at != nil {
		for _, p := range at.state.Previous {
			due = sooner(due, p.Until)
		}
		if refusal == nil && pair != nil && !at.state.heads(pair) {
			refusal = fmt.Errorf("%d previous authorities are still in use", len(at.state.Previous))
		}
	}
	r.refuse(name, refusal)
	return at, due, nil
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// check refuses a pair that could not sign what proxies accept. later is when it
// can, for one that is not valid yet.
func (r *Rotations) check(pair *KeyPair) (later time.Time, err error) {
	if vs := mesh.CheckAuthority(pair.Certificate, pair.Key); len(vs) > 0 {
		return later, fault.Violated(vs)
	}
	block, _ := pem.Decode(pair.Certificate)
	c, err := x509.ParseCertificate(block.Bytes)
	switch now := r.Now(); {
	case err != nil:
		return later, err
	case !c.NotAfter.After(now):
		return later, errors.New("its certificate has expired")
	case c.NotBefore.After(now):
		return c.NotBefore, errors.New("its certificate is not valid yet")
	}
	return later, nil
}

// refuse logs once why a pair is not taken.
func (r *Rotations) refuse(name string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		delete(r.refused, name)
		return
	}
	if text := err.Error(); r.refused[name] != text {
		r.refused[name] = text
		r.Log.Warn("the authority that a mesh asks for cannot be used; what was in force stays", "mesh", name, "error", err)
	}
}

// position is where the rotation of a mesh stands.
type position struct {
	state *MeshAuthority
	// version is that of the stored state.
	version uint64
	// revision is that of the trust which proxies are to confirm.
	revision uint64
}

// transition returns the state after a, which is nil if there is none yet, and a
// itself for no change. life is that of certificates signed now, version that of
// the stored a.
type transition func(a *MeshAuthority, life time.Duration, version uint64) *MeshAuthority

// decision is what a transition makes of a mesh.
type decision struct {
	// authority and trust are what is stored.
	authority, trust *model.Resource
	old, next        *MeshAuthority
	// believe is what is to be trusted; nil for what is stored.
	believe *mesh.Trust
}

// decide returns nil for a mesh without mutual TLS or without a state.
func (r *Rotations) decide(s store.Reader, name string, change transition) (*decision, error) {
	res, err := s.Get(mesh.Meshes, "", name)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	backend := res.Spec.(*mesh.Mesh).Authority()
	if backend == nil {
		return nil, nil
	}
	d := &decision{}
	if d.authority, err = get(s, MeshAuthorities, name); err != nil {
		return nil, err
	}
	d.old, _ = d.authority.Spec.(*MeshAuthority)
	if d.next = change(d.old, r.LeafLife(backend), d.authority.Version); d.next == nil {
		return nil, nil
	}
	if d.trust, err = get(s, mesh.Trusts, name); err != nil {
		return nil, err
	}
	want := d.next.trust()
	if old, _ := d.trust.Spec.(*mesh.Trust); old == nil || old.Backend != want.Backend || old.Issuer != want.Issuer || !bytes.Equal(old.Roots, want.Roots) {
		d.believe = want
		if old != nil {
			want.Withdrawn = old.Withdrawn
			if withdraws(old.Roots, want.Roots) {
				want.Withdrawn++
			}
		}
	}
	return d, nil
}

// withdraws reports whether a root of one bundle is missing in another.
func withdraws(old, next []byte) bool {
	for block, rest := pem.Decode(old); block != nil; block, rest = pem.Decode(rest) {
		if !bytes.Contains(next, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})) {
			return true
		}
	}
	return false
}

func (d *decision) changes() bool { return d != nil && (d.next != d.old || d.believe != nil) }

// write stores the state and what is trusted by it.
func (d *decision) write(tx store.Tx) (err error) {
	if d.next != d.old {
		if d.authority, err = put(tx, d.authority, d.next); err != nil {
			return err
		}
	}
	if d.believe != nil {
		d.trust, err = put(tx, d.trust, d.believe)
	}
	return err
}

// apply makes a transition of a mesh, in one transaction if there is something to
// write; nil for a mesh without mutual TLS or without a state.
func (r *Rotations) apply(ctx context.Context, name string, change transition) (*position, error) {
	var d *decision
	err := r.Store.View(ctx, func(s store.Reader) (err error) {
		d, err = r.decide(s, name, change)
		return err
	})
	var commit store.Commit
	if err == nil && d.changes() {
		commit, err = r.Writer.Write(ctx, model.Config, func(tx store.Tx) (err error) {
			if d, err = r.decide(tx, name, change); err != nil || !d.changes() {
				return err
			}
			return d.write(tx)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("change the authority of mesh %s: %w", name, err)
	}
	if d == nil {
		return nil, nil
	}
	at := &position{state: d.next, version: d.authority.Version, revision: d.trust.Revision}
	if d.believe != nil {
		at.revision = commit.Revision
	}
	if d.changes() {
		r.Log.Info("the authority of a mesh changed", "mesh", name, "phase", at.state.Phase, "issuer", Issuer(at.state.Current.Certificate), "revision", at.revision)
	}
	return at, nil
}

// get returns the resource of a mesh, without a spec if there is none.
func get(s store.Reader, k *model.Kind, name string) (*model.Resource, error) {
	res, err := s.Get(k, name, name)
	if fault.Is(err, fault.NotFound) {
		return &model.Resource{Kind: k, Scope: name, Name: name}, nil
	}
	return res, err
}

func put(tx store.Tx, stored *model.Resource, spec any) (*model.Resource, error) {
	res := &model.Resource{Kind: stored.Kind, Scope: stored.Scope, Name: stored.Name, Spec: spec}
	if stored.Spec == nil {
		return tx.Create(res)
	}
	return tx.Update(res, stored.Version)
}

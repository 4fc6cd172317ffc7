package meshca

import (
	"context"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/alarm"
)

// round does what can be done for a mesh now, waits for what the next step needs
// and takes it. It reports whether nothing is left to wait for. wait ends when the
// mesh changes.
func (r *Rotations) round(ctx, wait context.Context, name string, w *rotation) (rests bool, err error) {
	at, due, err := r.reconcile(ctx, name)
	if err != nil {
		return false, err
	}
	unseen := r.patient(w, at)
	due = r.judge(name, at, w, due)
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
	switch {
	case unseen:
		err = r.Progress.Shown(wait, name, at.revision)
	case !resting:
		confirmed, err = r.confirmed(wait, name, at, w)
	}
	switch {
	case wait.Err() != nil:
		// The error, if any, says no more than that the wait was ended.
		return false, nil
	case err == nil && unseen:
		w.trusting, w.patience = at.revision, r.Now().Add(r.Grace)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("wait for proxies: %w", err)
	case confirmed && r.signs(name, at):
		return false, r.next(ctx, name, at)
	}
	<-wait.Done()
	return false, nil
}

// patient reports whether the grace of a phase in which proxies learn a root has not begun.
// It begins when the root is shown to them, because nobody can answer before that.
func (r *Rotations) patient(w *rotation, at *position) (unseen bool) {
	trusting := at != nil && at.state.Phase == PhaseTrusting
	if !trusting || w.trusting != at.revision {
		w.trusting, w.patience = 0, time.Time{}
	}
	return trusting && w.patience.IsZero()
}

// judge has it told whether connected proxies hold up a mesh whose grace is over. It returns
// the earliest of the end of the grace, that of the wait for silent proxies, and due.
func (r *Rotations) judge(name string, at *position, w *rotation, due time.Time) time.Time {
	held := false
	if !w.patience.IsZero() && !w.patience.After(r.Now()) {
		silent, refusing := r.Progress.Lacking(name, at.revision)
		held = len(silent)+len(refusing) > 0
	}
	switch {
	case held:
		r.Held(name, at.revision)
	case w.held:
		r.Held(name, 0)
	}
	w.held = held
	for _, end := range [...]time.Time{w.patience, w.patience.Add(r.Silence)} {
		if !w.patience.IsZero() && end.After(r.Now()) {
			return sooner(due, end)
		}
	}
	return due
}

// answered waits until no connected proxy refuses what it is told to trust. Those that
// have not answered get certificates that they may not trust, and are named.
func (r *Rotations) answered(wait context.Context, name string, at *position, w *rotation) (bool, error) {
	if err := r.unopposed(wait, name, at, w, r.Progress.Unrefused); err != nil {
		return false, err
	}
	if silent, _ := r.Progress.Lacking(name, at.revision); len(silent) > 0 {
		r.Log.Warn("a new authority signs although connected proxies have not answered that they trust it", "mesh", name, "proxies", silent, "waited", (r.Grace + r.Silence).String())
	}
	return true, nil
}

// unopposed waits for connected proxies by one of the functions of [Progress]. Of those that
// refuse a root that does not sign yet, a broken stream ends no more than the wait of that
// function: they have the grace to come back, in which they are waited for again.
func (r *Rotations) unopposed(wait context.Context, name string, at *position, w *rotation, proxies func(context.Context, string, uint64) error) error {
	for {
		if err := proxies(wait, name, at.revision); err != nil || at.state.Phase != PhaseTrusting {
			return err
		}
		left := r.Progress.Left(name, at.revision)
		rest := left.Add(r.Grace).Sub(r.Now())
		if left.IsZero() || rest <= 0 {
			return nil
		}
		r.minds(w)
		if pause(wait, rest); wait.Err() != nil {
			return wait.Err()
		}
	}
}

// minds has a rotation interrupted when a proxy connects or a dataplane is deleted.
func (r *Rotations) minds(w *rotation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.absent = true
}

// confirmed waits for the connected proxies and reports whether the next step can
// be taken, which may need proxies that are away.
func (r *Rotations) confirmed(wait context.Context, name string, at *position, w *rotation) (bool, error) {
	trusting := at.state.Phase == PhaseTrusting
	if trusting && !w.patience.Add(r.Silence).After(r.Now()) {
		return r.answered(wait, name, at, w)
	}
	if err := r.unopposed(wait, name, at, w, r.Progress.Confirmed); err != nil || trusting && !w.patience.After(r.Now()) {
		return err == nil, err
	}
	r.minds(w)
	// The first wait may have been long. Whoever connects from here on interrupts, so
	// that a second one hears of all before.
	if err := r.unopposed(wait, name, at, w, r.Progress.Confirmed); err != nil {
		return false, err
	}
	settled := r.Progress.Settled(name, at.revision, at.state.longest())
	all := true
	err := r.Store.View(wait, func(s store.Reader) error {
		dataplanes, err := s.List(mesh.Dataplanes, store.Query{Scope: name})
		for _, d := range dataplanes {
			all = all && settled[d.Name]
		}
		return err
	})
	return all && err == nil, err
}

// signs reports whether the authority that signs after the next step can, which may have
// expired while proxies held it up.
func (r *Rotations) signs(name string, at *position) bool {
	if at.state.Phase != PhaseTrusting {
		return true
	}
	later, err := r.check(at.state.Pending)
	if err == nil || !later.IsZero() {
		return true // a clock that is behind ends no step
	}
	r.refuse(name, err)
	return false
}

// next takes the step after a phase whose proxies have confirmed.
func (r *Rotations) next(ctx context.Context, name string, at *position) error {
	_, err := r.apply(ctx, name, func(a *Authority, life time.Duration, version uint64) *Authority {
		switch {
		case a == nil || version != at.version:
			return a
		case a.Phase == PhaseTrusting:
			return a.sign(r.Clock, life)
		}
		return a.retire()
	})
	return err
}

// asked reads the pair that a mesh asks for, and the name of its backend; nil
// while mutual TLS is off or there is no mesh.
func (r *Rotations) asked(ctx context.Context, name string) (backend string, pair *identity.KeyPair, err error) {
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
		if refusal != nil {
			// The wall clock, by which it may be out of time, may be set.
			due = sooner(due, r.Now().Add(alarm.Slice))
		}
	}
	at, err = r.apply(ctx, name, func(a *Authority, life time.Duration, _ uint64) *Authority {
		// Certificates of a longer life are signed whether or not the pair is taken.
		a = a.expire(r.Clock).lasting(life)
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
			due = sooner(due, r.Now().Add(p.left(r.Clock)))
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

// check refuses a pair with which no certificate could be signed now that proxies accept. later
// is when one can be, for a pair that is not valid yet.
func (r *Rotations) check(pair *identity.KeyPair) (later time.Time, err error) {
	if vs := mesh.CheckAuthority(pair.Certificate, pair.Key); len(vs) > 0 {
		return later, fault.Violated(vs)
	}
	p, err := parseAuthority(pair)
	if err != nil {
		return later, err
	}
	now := r.Now()
	if p.notBefore.After(now) {
		later = p.notBefore
	}
	return later, p.valid(now)
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

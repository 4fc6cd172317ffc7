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

// round does what can be done for a mesh now, waits for what the next step needs, and takes that
// step. It reports whether nothing is left to wait for. wait ends when the mesh changes.
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
		// An error says only that the wait was ended.
		return false, nil
	case err == nil && unseen:
		w.patience = r.Now().Add(r.Grace)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("wait for proxies: %w", err)
	case confirmed && r.signs(name, at):
		return false, r.next(ctx, name, at)
	}
	<-wait.Done()
	return false, nil
}

// patient reports whether a mesh is in the phase in which proxies learn a root, and the grace of
// that phase has not begun. It begins when the root is offered to proxies, because nobody can
// answer before that.
func (r *Rotations) patient(w *rotation, at *position) (unseen bool) {
	trusting := at != nil && at.state.Phase == PhaseTrusting
	if !trusting {
		w.trusting, w.since, w.patience = 0, time.Time{}, time.Time{}
	} else if w.trusting != at.revision {
		w.trusting, w.since, w.patience = at.revision, r.Now(), time.Time{}
	}
	return trusting && w.patience.IsZero()
}

// judge tells [Options].Held whether connected proxies, or meshes that stand still, hold up a mesh whose
// grace is over, or would be if its proxies were offered the root at once. It returns the earliest of three
// times: the end of the grace, the end of the wait for silent proxies, and due.
func (r *Rotations) judge(name string, at *position, w *rotation, due time.Time) time.Time {
	held, grace := false, w.patience
	if grace.IsZero() && !w.since.IsZero() {
		grace = w.since.Add(r.Grace)
	}
	if !grace.IsZero() && !grace.After(r.Now()) {
		silent, refusing := r.Progress.Lacking(name, at.revision)
		held = len(silent)+len(refusing)+len(r.Progress.Behind(name, at.revision)) > 0
	}
	switch {
	case held:
		r.Held(name, at.revision)
	case w.held:
		r.Held(name, 0)
	}
	w.held = held
	if !grace.IsZero() && grace.After(r.Now()) {
		return alarm.Sooner(due, grace)
	}
	if end := w.patience.Add(r.Silence); !w.patience.IsZero() && end.After(r.Now()) {
		return alarm.Sooner(due, end)
	}
	return due
}

// answered waits until no connected proxy of a mesh refuses what it is told to trust. It logs the ids
// of proxies that have not answered, and of those of other meshes that refuse, and which meshes stand still,
// because their proxies may then meet certificates that they do not trust.
func (r *Rotations) answered(wait context.Context, name string, at *position, w *rotation) (bool, error) {
	if err := r.unopposed(wait, name, at, w, r.Progress.Unrefused, false); err != nil {
		return false, err
	}
	silent, refusing := r.Progress.Lacking(name, at.revision)
	if len(silent) > 0 {
		r.Log.Warn("a new authority signs although connected proxies have not answered that they trust it", "mesh", name, "proxies", silent, "waited", (r.Grace + r.Silence).String())
	}
	if len(refusing) > 0 {
		r.Log.Warn("a new authority signs although proxies of other meshes refuse its root: they let nobody of this mesh in, or do not call its gateways", "mesh", name, "proxies", refusing, "waited", (r.Grace + r.Silence).String())
	}
	if behind := r.Progress.Behind(name, at.revision); len(behind) > 0 {
		r.Log.Warn("a new authority signs although not all proxies that judge by its root are told of it: they let nobody of this mesh in, or do not call its gateways", "mesh", name, "not_told", behind, "waited", (r.Grace + r.Silence).String())
	}
	return true, nil
}

// unopposed waits for connected proxies with one of the functions of [Progress]. If a proxy that
// refuses a root loses its stream, that function stops waiting for it. Before the root signs,
// unopposed therefore gives such proxies the grace to come back, and then waits for them again. others
// says whether those of other meshes count.
func (r *Rotations) unopposed(wait context.Context, name string, at *position, w *rotation, proxies func(context.Context, string, uint64) error, others bool) error {
	for {
		if err := proxies(wait, name, at.revision); err != nil || at.state.Phase != PhaseTrusting {
			return err
		}
		left := r.Progress.Left(name, at.revision, others)
		rest := left.Add(r.Grace).Sub(r.Now())
		if left.IsZero() || rest <= 0 {
			return nil
		}
		r.minds(name, at, w)
		if err := alarm.Rest(wait, rest); err != nil {
			return err
		}
	}
}

// minds makes a rotation stop waiting when a proxy connects or a dataplane is deleted. Those of other
// meshes count before a root signs; later they have it.
func (r *Rotations) minds(name string, at *position, w *rotation) {
	var others []string
	if at.state.Phase == PhaseTrusting {
		others = r.Progress.Others(name)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w.absent, w.others = true, others
}

// confirmed waits for the connected proxies. It reports whether the next step can be taken,
// because that step may also need proxies that are away. Those of other meshes count before a root
// signs: no later step takes from them what they need.
func (r *Rotations) confirmed(wait context.Context, name string, at *position, w *rotation) (bool, error) {
	trusting := at.state.Phase == PhaseTrusting
	if trusting && !w.patience.Add(r.Silence).After(r.Now()) {
		return r.answered(wait, name, at, w)
	}
	everybody := func(ctx context.Context, name string, revision uint64) error {
		return r.Progress.Confirmed(ctx, name, revision, trusting)
	}
	if err := r.unopposed(wait, name, at, w, everybody, trusting); err != nil || trusting && !w.patience.After(r.Now()) {
		return err == nil, err
	}
	r.minds(name, at, w)
	// The first wait may have been long. From here on, a proxy that connects interrupts the
	// wait, so a second one covers all proxies that connected before.
	if err := r.unopposed(wait, name, at, w, everybody, trusting); err != nil {
		return false, err
	}
	settled := r.Progress.Settled(name, at.revision, at.state.longest())
	all := settled != nil
	if trusting {
		for _, is := range settled {
			all = all && is
		}
	}
	err := r.Store.View(wait, func(s store.Reader) error {
		dataplanes, err := s.List(mesh.Dataplanes, store.Query{Scope: name})
		for _, d := range dataplanes {
			all = all && settled[mesh.NodeID(name, d.Name)]
		}
		if err != nil {
			return err
		}
		egresses, err := s.List(mesh.ZoneEgresses, store.Query{})
		for _, e := range egresses {
			all = all && settled[mesh.ZoneNodeID(mesh.ProxyEgress, e.Name)]
		}
		return err
	})
	return all && err == nil, err
}

// signs reports whether the authority that is to sign after the next step is still valid. It may
// have expired while proxies held the step up.
func (r *Rotations) signs(name string, at *position) bool {
	if at.state.Phase != PhaseTrusting {
		return true
	}
	later, err := r.check(at.state.Pending)
	if err == nil || !later.IsZero() {
		return true // a clock that is behind must not stop a step
	}
	r.refuse(name, err)
	return false
}

// next takes the step after a phase that proxies have confirmed.
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

// asked reads the pair that a mesh asks for, and the name of its backend. The pair is nil while
// mutual TLS is off or the mesh does not exist.
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

// reconcile brings the state of a mesh in line with what the mesh asks for and with the time. at
// is nil if the mesh has no authority and asks for none. due is when reconcile must be called
// again. It is zero if only changes matter.
func (r *Rotations) reconcile(ctx context.Context, name string) (at *position, due time.Time, err error) {
	backend, pair, refusal := r.asked(ctx, name)
	if refusal != nil && fault.CodeOf(refusal) == fault.Internal {
		return nil, due, refusal
	}
	if refusal == nil && pair != nil {
		due, refusal = r.check(pair)
		if refusal != nil {
			// The wall clock, by which the pair may not be valid now, may be set.
			due = alarm.Sooner(due, r.Now().Add(alarm.Slice))
		}
	}
	at, err = r.apply(ctx, name, func(a *Authority, life time.Duration, _ uint64) *Authority {
		// Certificates of a longer life are signed even if the pair is not accepted.
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
			due = alarm.Sooner(due, r.Now().Add(p.left(r.Clock)))
		}
		if refusal == nil && pair != nil && !at.state.heads(pair) {
			refusal = fmt.Errorf("%d previous authorities are still in use", len(at.state.Previous))
		}
	}
	r.refuse(name, refusal)
	return at, due, nil
}

// check refuses a pair that cannot sign a certificate now that proxies would accept. For a pair
// that is not valid yet, later is when it will be.
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

// refuse logs once why a pair is not accepted.
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

package tokencache

import "context"

// round is one look-up of a flight. It implements [pauses]: who waits for others holds no turn
// meanwhile. A control plane that starts can take most of a round to send its Welcome, and a
// server of Redis that hangs as long to fail its probe: look-ups that wait for them would block
// those that others can answer.
type round struct {
	of *flights
	fl *flight
	// over ends the round. It is called if the round does not get its turn back.
	over context.CancelFunc
}

// link implements [pauses].
func (r *round) link(ctx context.Context) *session {
	attempted := r.of.cache.attempted()
	if s := r.of.cache.session.Load(); s != nil {
		return s
	}
	select {
	case <-attempted:
		return r.of.cache.session.Load() // it may have come just now
	default:
	}
	if !r.pause(ctx, attempted) {
		return nil
	}
	return r.of.cache.session.Load()
}

// pause implements [pauses]. It gives the turn back, and waits for one again behind the look-ups
// that wait for their first.
func (r *round) pause(ctx context.Context, until <-chan struct{}) bool {
	f := r.of
	f.mu.Lock()
	from := r.fl.from
	if r.fl.turn == nil { // the round is already over
		f.mu.Unlock()
		return false
	}
	f.turns.end(from, r.fl.turn)
	r.fl.turn = nil
	f.rests.resting = true
	row := f.rests.ask(from)
	f.mu.Unlock()
	select {
	case <-until:
	case <-row.begin: // refused
	case <-ctx.Done():
	}
	f.mu.Lock()
	f.rests.end(from, row)
	if row.refused || ctx.Err() != nil {
		f.mu.Unlock()
		r.over()
		return false
	}
	turn := f.turns.ask(from)
	f.mu.Unlock()
	select {
	case <-turn.begin:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !turn.granted {
		f.turns.end(from, turn)
		r.over()
		return false
	}
	r.fl.turn = turn
	return true
}

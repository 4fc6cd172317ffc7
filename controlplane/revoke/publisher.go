package revoke

import (
	"slices"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// turn is a lock that may be held for long waits.
type turn chan struct{}

// Lock waits for the turn.
func (t turn) Lock() { t <- struct{}{} }

// Unlock passes the turn on.
func (t turn) Unlock() { <-t }

// publication is what one commit publishes.
type publication struct {
	entries []entry
	// about is whom the entries concern.
	about matter
	// within are the scopes in which somebody may find the effect of the commit. Something of
	// one may have gone with something of another: see [within].
	within matter
	// revokes says that a revocation is promised. A creation promises nothing.
	revokes bool
	// queued is closed when the publication has a position and is on its way. The fields
	// below are written before.
	queued chan struct{}
	at     contract.Position
	round  *round
}

// round is what one batch waits for: each filter that may answer from memory has applied
// the batch, or its lease has ended. missing is guarded by mu.
type round struct {
	at      contract.Position
	revokes bool
	begun   time.Time
	missing map[*link]struct{}
	done    chan struct{} // closed when nothing is missing
	// until is when the last lease of the missing links ends. lost is when the last lease
	// of broken links ends, which cannot acknowledge any more.
	until, lost time.Time
	broken      []leaseLost
}

// concerns reports whether a filter that the round waits for concerns a matter. mu is held.
func (d *round) concerns(m *matter, now time.Time) bool {
	for l := range d.missing {
		if m.concerns(l.judges()) {
			return true
		}
	}
	return slices.ContainsFunc(d.broken, func(of leaseLost) bool { return of.end.After(now) && m.concerns(of.judged) })
}

// settle removes a link from those that a round waits for. mu is held.
func (d *round) settle(l *link) {
	if _, ok := d.missing[l]; !ok {
		return
	}
	if delete(d.missing, l); len(d.missing) == 0 {
		close(d.done)
	}
}

// over reports whether no filter answers from the state before the round any more.
func (d *round) over(now time.Time) bool {
	select {
	case <-d.done:
		return !d.lost.After(now)
	default:
		return !d.until.After(now) && !d.lost.After(now)
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// enqueue hands a publication to the publisher. It returns false if the publisher has
// ended.
func (r *Revoker) enqueue(p *publication) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return false
	}
	p.about = matterOf(p.entries)
	r.queue = append(r.queue, p)
	select {
	case r.work <- struct{}{}:
	default: // it is awake already
	}
	return true
}

// publisher gives publications their positions, one batch after the other, until the
// Revoker is closed. There is only one publisher, so the order in Redis, in the log and on
// every link is the same.
func (r *Revoker) publisher() {
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.work:
			r.publishAll()
		}
	}
}

func (r *Revoker) publishAll() {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.mu.Lock()
	batch := r.queue
	r.queue = nil
	at := r.history.at + 1
	r.mu.Unlock()
	if len(batch) == 0 {
		return
	}
	var entries []entry
	revokes := false
	for _, p := range batch {
		entries = append(entries, p.entries...)
		revokes = revokes || p.revokes
	}
	written := r.keeper.publish(entries, at)
	shapes := r.shapes(entries)
	r.mu.Lock()
	defer r.mu.Unlock()
	from := r.history.at
	r.outdate(entries)
	r.haveLeft(at, shapes, written)
	r.reshape(from, shapes) // before they hear of what concerns new members only
	r.history.add(r.o.Clock.Earliest(), entries)
	r.broadcast(from, at, entries, batch)
	if written {
		r.redisAt = at
	} else if revokes && r.trust.Epoch != 0 {
		r.announce(contract.Trust{})
	}
	if revokes {
		r.advance(nil)
	}
	for _, p := range batch {
		if p.revokes {
			r.latest.note(&p.within, at)
			r.pend(at, p.about)
		}
		p.at = at
		close(p.queued)
	}
}

// broadcast queues entries on every link, and gives each publication the round to wait for.
// For a link that does not acknowledge, its present lease counts: a lease that is granted
// later follows these frames on the link. mu is held.
func (r *Revoker) broadcast(from, to contract.Position, entries []entry, batch []*publication) {
	now := time.Now()
	for _, p := range batch {
		p.round = r.newRound(to, now, p)
	}
	frames := map[readership][]frame{}
	for l := range r.links {
		who := readership{l.members.key, l.planes}
		of, made := frames[who]
		if !made {
			of = invalidates(from, to, concerning(entries, l.members.scopes), l.planes)
			frames[who] = of
		}
		for _, f := range of {
			l.push(f)
		}
		waits := false
		for _, p := range batch {
			if l.lease.After(now) && p.about.concerns(l.judges()) {
				waits = true
				p.round.missing[l] = struct{}{}
				p.round.until = later(p.round.until, l.lease)
				l.sent(to, p.round)
			}
		}
		if !waits {
			l.sent(to, nil)
		}
	}
	r.rounds = unfinished(r.rounds, now)
	for _, p := range batch {
		if len(p.round.missing) == 0 {
			close(p.round.done)
		}
		r.rounds = append(r.rounds, p.round)
	}
}

// newRound is the round of a publication, for which no link is missing yet. mu is held.
func (r *Revoker) newRound(at contract.Position, now time.Time, p *publication) *round {
	d := &round{at: at, revokes: p.revokes, begun: now, missing: map[*link]struct{}{}, done: make(chan struct{}), until: now}
	for _, of := range r.lost {
		if p.about.concerns(of.judged) {
			d.lost, d.broken = later(d.lost, of.end), append(d.broken, of)
		}
	}
	return d
}

// judges is what the filter of a link may have judged by what it holds in its memory: what it
// was told last, and what before that until it has acknowledged this. mu is held.
func (l *link) judges() []*contract.Scopes { return append(slices.Clone(l.was), l.members.scopes) }

// leaseLost is the lease of a link that broke, until which its filter may answer.
type leaseLost struct {
	end    time.Time
	judged []*contract.Scopes
}

// unfinished drops rounds that are over.
func unfinished(rounds []*round, now time.Time) []*round {
	keep := rounds[:0]
	for _, d := range rounds {
		if !d.over(now) {
			keep = append(keep, d)
		}
	}
	clear(rounds[len(keep):])
	return keep
}

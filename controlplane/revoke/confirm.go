package revoke

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// patience bounds how long a caller waits: the writes to Redis, one lease, and a
	// margin.
	patience = 4 * time.Second
	// maxNamed bounds the gateways that an error text names.
	maxNamed = 5
	// aGatewayElsewhere stands for all gateways of other control planes.
	aGatewayElsewhere = "gateways of other control planes"
)

// pending is a write that has begun. done is closed when it has a position in the log, or
// will not get one. within are the scopes that it concerns, set before known is closed. They
// are known once it is committed.
type pending struct {
	done, known chan struct{}
	within      matter
}

// know notes what a write concerns.
func (w *pending) know(within matter) {
	w.within = within
	close(w.known)
}

// Begin is called before a transaction that may revoke. A client that finds the effect of
// the transaction before it is published then knows that there is something to wait for;
// see [Revoker.Settle]. The caller calls exactly one of the results: publish with the
// commit, or abandon if there is no commit. If it is unknown whether the transaction was
// committed ([store.ErrUndecided]), the caller calls neither; clients that find the change
// already made are then answered Unavailable.
//
// publish returns once no filter answers from the state before the commit. If this cannot
// be confirmed, it fails with a fault of code Unavailable. The commit is valid all the
// same, and publication continues. A commit that revokes nothing never fails.
func (r *Revoker) Begin() (publish func(context.Context, store.Commit) error, abandon func()) {
	w := &pending{done: make(chan struct{}), known: make(chan struct{})}
	r.mu.Lock()
	r.writes[w] = struct{}{}
	r.mu.Unlock()
	abandon = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, open := r.writes[w]; open {
			delete(r.writes, w)
			close(w.done)
		}
	}
	return func(ctx context.Context, c store.Commit) error {
		if !r.calls.begin() {
			return r.stopped(c, abandon)
		}
		defer r.calls.end()
		return r.publish(ctx, c, w, abandon)
	}, abandon
}

// stopped answers a commit that this process does not publish any more. The next process
// publishes it before it serves any request. If the commit revokes something, its write
// stays open, because clients that wait for it cannot get a better answer from this
// process.
func (r *Revoker) stopped(c store.Commit, over func()) error {
	if _, revokes, _ := r.published(c); revokes {
		return notYet(stopping)
	}
	over()
	return nil
}

const stopping = "the control plane is stopping"

func (r *Revoker) publish(ctx context.Context, c store.Commit, w *pending, over func()) error {
	handedOn := false
	defer func() {
		if !handedOn {
			r.salvage(c, over)
		}
	}()
	entries, revokes, made := r.published(c)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	written := r.keeper.refillNow(made)
	defer written(ctx)
	if len(entries) == 0 {
		handedOn = true
		over()
		return nil
	}
	p := &publication{entries: entries, within: within(c, entries), revokes: revokes, queued: make(chan struct{})}
	w.know(p.within)
	begun := time.Now()
	queued := r.enqueue(p)
	if handedOn = true; !queued {
		return r.stopped(c, over)
	}
	err := r.await(ctx, p, over)
	if !revokes {
		return nil
	}
	err = reworded(err, entries)
	r.count(err)
	r.o.Meter.Revoked(time.Since(begun), err == nil)
	return err
}

// salvage publishes a commit although publish has panicked: what it revoked is in the rows
// that Stage wrote. Without this, nobody would tell the filters before the next process, and
// whoever waits for the write would wait in vain.
func (r *Revoker) salvage(c store.Commit, over func()) {
	entries := r.staged(c)
	if len(entries) == 0 {
		over()
		return
	}
	p := &publication{entries: entries, within: matter{all: true}, revokes: true, queued: make(chan struct{})}
	if r.enqueue(p) {
		r.calls.after(p.queued, over)
	}
}

func (r *Revoker) count(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stats.Revocations++
	if err != nil {
		r.stats.Unconfirmed++
	}
}

// await waits until a publication is confirmed.
func (r *Revoker) await(ctx context.Context, p *publication, over func()) error {
	select {
	case <-p.queued:
		over()
	case <-ctx.Done():
		// Later callers must still wait for the write until it has its position.
		r.calls.after(p.queued, over)
		return notYet("it is still being written to Redis")
	case <-r.ctx.Done():
		return notYet(stopping)
	}
	if err := r.applied(ctx, p.round, &p.about); err != nil {
		return err
	}
	if err := r.firstLease(ctx); err != nil {
		return err
	}
	if !p.revokes {
		return nil
	}
	return r.reached(ctx, p.at, &p.about)
}

// applied waits until no filter answers from memory with the state before a round. about is
// what the caller has published, or looks for; see [Revoker.names].
func (r *Revoker) applied(ctx context.Context, d *round, about *matter) error {
	select {
	case <-d.done:
	default:
		if !r.wait(ctx, d.done, d.until) {
			return r.notApplied(d, about)
		}
	}
	if !r.wait(ctx, nil, d.lost) {
		return notYet("a gateway whose connection broke may still answer from its memory")
	}
	return nil
}

// firstLease waits until no filter can hold a lease from a predecessor of this process.
func (r *Revoker) firstLease(ctx context.Context) error {
	if !r.alone && !r.wait(ctx, nil, r.started.Add(contract.Lease)) {
		return notYet("gateways may still hold a lease that this control plane's predecessor gave")
	}
	return nil
}

// wait returns true when done is closed or the time until is reached, and false when ctx or
// the Revoker ends first.
func (r *Revoker) wait(ctx context.Context, done <-chan struct{}, until time.Time) bool {
	left := time.Until(until)
	if left <= 0 {
		return true
	}
	t := time.NewTimer(left)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	return false
}

// reached waits until no known filter that a matter concerns takes the state before a
// position from Redis.
func (r *Revoker) reached(ctx context.Context, at contract.Position, about *matter) error {
	for {
		r.mu.Lock()
		ok, settled := r.confirmed(about) >= at, r.settled
		if !ok && r.forgetOld() {
			ok = r.confirmed(about) >= at
		}
		if !ok {
			r.repend(at, *about)
		}
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-settled:
		case <-ctx.Done():
			return r.notReached(at, about)
		case <-r.ctx.Done():
			return notYet(stopping)
		}
	}
}

// notApplied returns an error that names the nodes that have neither acknowledged a round
// nor lost their lease.
func (r *Revoker) notApplied(d *round, about *matter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var nodes []string
	for l := range d.missing {
		nodes = append(nodes, r.names(l.node.ID, !about.all && about.concerns(l.judges())))
	}
	return notYet("it was not confirmed in time by " + named(nodes))
}

// names is the name of a node for whoever is its own: it accepts credentials of theirs, or
// there is only one control plane. Whoever else there is may be a tenant that is nobody's
// business. mu is held.
func (r *Revoker) names(node string, own bool) string {
	if len(r.readers) <= 1 || node == "" || own {
		return node
	}
	return aGatewayElsewhere
}

// notReached returns an error that names the nodes that may still read an old state from
// Redis.
func (r *Revoker) notReached(at contract.Position, about *matter) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.awaitsOrder() {
		return notYet("this control plane may not remember every gateway that its predecessor let in, and Redis was not put in order since: they may still read it")
	}
	var nodes []string
	all := 0
	for name, k := range r.known {
		if !r.reaches(about, k.of) {
			continue
		}
		if all++; r.lacks(k, at) {
			nodes = append(nodes, r.names(nodeOf(name), !about.all && about.names(k.of)))
		}
	}
	if len(nodes) == 0 {
		return notYet("it was not confirmed in time")
	}
	why := "Redis could not be written and %d of %d gateways have not confirmed that they do without it (%s)"
	const gone = "; start each with its run directory or, if it is gone for good, say so with DELETE /nodes/{name}, and with ?former=true of the former processes of one that is connected)"
	switch {
	case r.keeper == nil:
		why = "Redis is not used any more and %d of %d gateways have not confirmed that they do without it (%s" + gone
	case r.redisAt >= at:
		why = "%d of %d gateways were not seen since the control plane was restored or its Redis was replaced (%s" + gone
	}
	return notYet(fmt.Sprintf(why, len(nodes), all, named(nodes)))
}

// named lists nodes without duplicates, at most maxNamed of them.
func named(nodes []string) string {
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	for i, n := range nodes {
		if n == "" {
			nodes[i] = "any gateway of the last day"
		}
	}
	if more := len(nodes) - maxNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(nodes[:maxNamed], ", "), more)
	}
	return strings.Join(nodes, ", ")
}

// What notYet says has happened, and what reworded says instead.
const (
	wasRevoked  = "The token was revoked"
	wasReshaped = "What the control plane consists of was changed"
)

// reworded is the answer to a commit that revokes nothing but has members leave.
func reworded(err error, entries []entry) error {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || slices.ContainsFunc(entries, func(e entry) bool { return e.inv.Subject != subjectScope }) {
		return err
	}
	return fault.New(f.Code, "%s", strings.Replace(f.Detail, wasRevoked, wasReshaped, 1))
}

// notYet is the answer that claims nothing. why says what was waited for.
func notYet(why string) error {
	return fault.New(fault.Unavailable, wasRevoked+", but %s: there it may still be accepted.", why)
}

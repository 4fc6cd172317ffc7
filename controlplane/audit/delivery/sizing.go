package delivery

// sizing is how many events a request has at most. What happens and what is replayed have one each: a success of
// the one must not undo what the other has found out by halving.
//
// A request that is refused for what it is (400, 413, 422) is halved, and the next ones double again. One that fails
// with all its attempts (5xx, no answer) may be too large, or the receiver is down. So the next one has a single
// event. If that is taken, a limit is known: the next ones double and stay below it. If it fails, too, size is not
// the cause, and no limit follows. An outage may end between the two, or a receiver may bear more later: so the limit
// is tried again after some successes, which are twice as many after each time that it still holds.
type sizing struct {
	most int
	// limit is the smallest number of events at which the receiver has failed while it took fewer; none if there is
	// no such.
	limit int
	// suspect is the number at which the receiver has failed, and has taken nothing since; 0 if there is none.
	suspect int
	// taken counts the successes since the limit was found or tried; after so many as patience it is tried.
	taken, patience int
}

const (
	// none is no limit.
	none = maxBatch + 1
	// minPatience is small enough for a limit that an outage has left, and maxPatience large enough that the
	// failures of tries, which take minutes each, are few against what goes well meanwhile.
	minPatience, maxPatience = 16, 4096
)

// whole is where each receiver begins.
var whole = sizing{most: maxBatch, limit: none, patience: minPatience}

// halve makes the next request half of one that was refused for what it is.
func (s *sizing) halve(n int) { s.most = n / 2 }

// shrink follows a request that has failed with all its attempts. Nothing is given up for that: it may be the
// receiver as well.
func (s *sizing) shrink(r *result, n int) {
	switch {
	case !r.heavy():
		s.suspect = 0
	case n == 1: // the limit may have come of this, too
		s.suspect, s.taken, s.patience = 0, minPatience, minPatience
	default:
		if n > s.most/2 { // so that the few events at the end of a log are no limit for all later ones
			s.suspect = n
		}
		s.most = 1
	}
}

// grow makes the next request larger than one that was taken.
func (s *sizing) grow(n int) {
	if s.suspect > 0 {
		if s.suspect >= s.limit {
			s.patience = min(2*s.patience, maxPatience)
		}
		s.limit, s.suspect, s.taken = s.suspect, 0, 0
	}
	s.taken++
	switch {
	case n >= s.limit:
		*s = sizing{most: s.most, limit: none, patience: minPatience}
		fallthrough
	case s.limit == none:
		if s.most *= 2; s.most >= maxBatch {
			*s = whole
		}
	case s.taken >= s.patience:
		s.most, s.taken = s.limit, 0
	case n == s.most && s.limit-n > 1+n/8: // nearer costs more failures than it saves requests
		s.most = min(2*n, (n+s.limit)/2)
	}
}

// meet forgets what was found out about requests if a job is for another receiver than the last one: what one
// refuses or takes proves nothing about another.
func (w *worker) meet(job *work) {
	if job.same(w.receiver) {
		return
	}
	w.receiver = &work{hook: job.hook, made: job.made, destination: job.destination}
	w.live, w.replayed = w.bears(job)
	w.refused, w.vouched, w.unwanted = "", "", refusals{}
}

// borne is how large requests to a receiver are, of what happens and of replays. A worker ends when there is
// nothing to do: without it each of a few events a minute would begin with what has failed before.
type borne struct {
	receiver       *work
	live, replayed sizing
}

// bears returns how large requests to the receiver of a job are to begin with.
func (w *worker) bears(job *work) (live, replayed sizing) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b, known := w.borne[w.portal]; known && job.same(b.receiver) {
		return b.live, b.replayed
	}
	return whole, whole
}

// noteBorne keeps how large requests to the receiver are, for as long as it is the same.
func (w *worker) noteBorne() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.borne, w.portal); w.live != whole || w.replayed != whole {
		w.borne[w.portal] = borne{w.receiver, w.live, w.replayed}
	}
}

package delivery

// sizing is how many events a request has at most. What happens and what is replayed have one each: a success of
// the one must not undo what the other has found out by halving.
type sizing struct {
	most int
	// slowly is set since a delivery has failed that may have been too much at once. The next ones grow by one
	// event at a time: one that fails again costs minutes.
	slowly bool
}

// whole is where each receiver begins.
var whole = sizing{most: maxBatch}

// halve makes the next request half of one that was refused for what it is.
func (s *sizing) halve(n int) { s.most = n / 2 }

// shrink makes the next request half of one that has failed with all its attempts, if fewer events may do better.
// Nothing is given up for that: it may be the receiver as well.
func (s *sizing) shrink(r *result, n int) {
	if r.heavy() {
		s.most, s.slowly = max(n/2, 1), true
	}
}

// grow makes the next request larger than one that was taken.
func (s *sizing) grow() {
	if s.slowly {
		s.most++
	} else {
		s.most *= 2
	}
	if s.most >= maxBatch {
		*s = whole
	}
}

// meet forgets what was found out about requests if a job is for another receiver than the last one: what one
// refuses or takes proves nothing about another.
func (w *worker) meet(job *work) {
	if job.same(w.receiver) {
		return
	}
	w.receiver = &work{hook: job.hook, made: job.made, destination: job.destination}
	w.live, w.replayed = whole, w.bears(job)
	w.refused, w.vouched, w.unwanted = "", "", refusals{}
}

// borne is how large requests of replays are to a receiver.
type borne struct {
	receiver *work
	sizing
}

// bears returns how large requests of replays to the receiver of a job are to begin with.
func (w *worker) bears(job *work) sizing {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b, known := w.borne[w.portal]; known && job.same(b.receiver) {
		return b.sizing
	}
	return whole
}

// noteBorne keeps how large requests of replays are to the receiver, for as long as it is the same.
func (w *worker) noteBorne() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.borne, w.portal); w.replayed.slowly {
		w.borne[w.portal] = borne{w.receiver, w.replayed}
	}
}

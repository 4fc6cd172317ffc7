package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
	"github.com/meshgate/meshgate/controlplane/store/internal/feed"
)

// maxBatch bounds the transactions that are committed together.
const maxBatch = 128

// errUnwound ends a transaction whose function did not return.
var errUnwound = errors.New("the transaction's function did not return")

// writer owns the writing session. Its goroutine never runs the code of others: it hands the
// open transaction to the waiting caller and takes it back. So a panic or a Goexit in that
// code cannot end the goroutine.
type writer struct {
	session *session
	codec   *codec
	feed    *feed.Feed
	now     func() time.Time
	past    func() time.Time
	log     *slog.Logger
	queue   chan *request
	alarm   *engine.Alarm
	closing <-chan struct{}
	done    chan struct{}

	// first is [Options.Begin] until that has succeeded.
	first func(store.Tx) error
	// retain says which change records are kept.
	retain store.Retention

	doubt    doubt
	troubles troubles
	// checkpoints holds when the log is to be emptied.
	checkpoints checkpoints

	// The following fields belong to the goroutine. revision is the newest committed one.
	// committed is the number of the newest commit, tried the newest number that was used.
	// full is the current setting of PRAGMA synchronous. lost means that the state of the
	// database is unknown, and ends the goroutine.
	revision, committed, tried uint64
	full, lost                 bool
	// strict says that the last batch had to be synchronised whatever the classes of its
	// transactions, so that the next is as well: if it need not be, that costs less than to run it twice.
	strict bool
	// sweeping counts the rows that the current sweep has removed; nil if there is no sweep.
	sweeping *int
	// present is that of the rows; the goroutine is the only one that writes.
	present map[model.Key]struct{}
	// recent is that of [busy].
	recent map[model.Key]*model.Resource
}

// request is one waiting transaction.
type request struct {
	ctx   context.Context //nolint:containedctx // looked at once more when its turn comes
	class model.Class
	// unwound is set if its function did not return, and so cannot run again.
	unwound bool
	// probe requests write something meaningless and run no function.
	probe bool
	// raw, if set, runs instead of a function of the caller. committed then runs before the
	// writer seals or reads anything else.
	raw       func(*rows) error
	committed func()
	turn      chan *engine.Tx
	ran       chan error
	reply     chan outcome
}

type outcome struct {
	commit store.Commit
	err    error
}

// newWriter makes a writer with the state that the last process has left.
func newWriter(s *session, c *codec, o Options, closing <-chan struct{}) (*writer, error) {
	w := &writer{
		session: s, codec: c, now: o.Now, past: o.Past, log: o.Log, queue: make(chan *request), alarm: engine.NewAlarm(),
		closing: closing, done: make(chan struct{}), full: true, doubt: doubt{ending: make(chan struct{})},
		first:       o.Begin,
		retain:      o.Retention,
		present:     map[model.Key]struct{}{},
		recent:      map[model.Key]*model.Resource{},
		checkpoints: checkpoints{after: o.Checkpoint},
		troubles:    troubles{dir: filepath.Dir(o.Path), report: o.Report},
	}
	var err error
	if w.revision, err = readRevision(s); err != nil {
		return nil, err
	}
	if w.committed, err = readNumber(s); err != nil {
		return nil, err
	}
	w.tried = w.committed
	history, err := readHistory(s, 0)
	if err != nil {
		return nil, err
	}
	w.feed = feed.New(o.History, w.revision, history)
	return w, w.setAlarm()
}

// setAlarm sets the alarm to the earliest expiry in the database.
func (w *writer) setAlarm() error {
	var at int64
	if _, err := w.session.row(`SELECT expires FROM resources WHERE expires > 0 AND +kind IN (SELECT value FROM json_each(?)) ORDER BY expires LIMIT 1`,
		[]any{w.codec.mortal}, &at); err != nil {
		return err
	}
	w.alarm.Set(at, w.past())
	return nil
}

// submit waits for a place in a batch, runs fn when its turn comes, and waits for the commit.
func (w *writer) submit(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return w.wait(newRequest(ctx, class), fn)
}

// inside runs a function of this package on the writer's goroutine.
func (w *writer) inside(ctx context.Context, r *request) error {
	r.ctx, r.reply = ctx, make(chan outcome, 1)
	_, err := w.wait(r, nil)
	return err
}

// wait queues a request and serves it until it is answered.
func (w *writer) wait(r *request, fn func(store.Tx) error) (store.Commit, error) {
	if err := w.enqueue(r); err != nil {
		return store.Commit{}, err
	}
	return r.serve(fn)
}

// serve runs fn whenever the request has its turn, until the request is answered.
func (r *request) serve(fn func(store.Tx) error) (store.Commit, error) {
	for {
		select {
		case tx := <-r.turn:
			r.run(tx, fn)
		case out := <-r.reply:
			return out.commit, out.err
		}
	}
}

func newRequest(ctx context.Context, class model.Class) *request {
	return &request{ctx: ctx, class: class, turn: make(chan *engine.Tx), ran: make(chan error), reply: make(chan outcome, 1)}
}

// enqueue waits for a place in a batch.
func (w *writer) enqueue(r *request) error {
	select {
	case <-w.closing:
		return feed.Closed()
	default:
	}
	select {
	case w.queue <- r:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-w.closing:
		return feed.Closed()
	case <-w.done: // the writer has ended because its state is unknown
		return feed.Closed()
	}
}

// run runs fn, and gives the transaction back however fn ends.
func (r *request) run(tx *engine.Tx, fn func(store.Tx) error) {
	err := errUnwound
	defer func() { r.ran <- err }()
	err = fn(tx)
}

// loop is the writer's goroutine.
func (w *writer) loop() {
	defer close(w.done)
	defer w.alarm.Stop()
	defer w.checkpoints.stop()
	w.checkpoints.due() // the last process may have left commits in the log
	now := make(chan time.Time)
	close(now)
	for !w.lost {
		// A sweep continues at once, but between two of its steps a batch of waiting requests
		// has its turn.
		due := w.alarm.C()
		if w.sweeping != nil {
			due = now
		}
		select {
		case <-w.closing:
			return
		case r := <-w.queue:
			w.commit(w.gather(r))
		case <-due:
			w.sweep()
		case <-w.checkpoints.c():
			w.empty()
		}
	}
}

// gather adds the requests that are waiting already.
func (w *writer) gather(first *request) []*request {
	batch := []*request{first}
	for len(batch) < maxBatch {
		select {
		case r := <-w.queue:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// answer is what a request is told when the batch is committed. Refusals wait as well: a
// conflict with another transaction of the batch is true for others only when that one is
// durable.
type answer struct {
	request *request
	outcome outcome
}

// commit runs a batch in one SQLite transaction and answers its requests.
//
// Nearly all requests that fail have written nothing. So none has a savepoint at first, which
// would cost a copy of each page that it changes. If one of several fails after it has
// written, all are undone, and run again with savepoints. So do all if one turns out to need more
// durability than all were said to: one synchronisation then serves the whole batch.
func (w *writer) commit(batch []*request) {
	b := w.transaction()
	answers, err := b.run(batch)
	for err == nil && b.undone(len(batch)) {
		before := b
		if err = b.rollback(); err == nil {
			b = w.transaction()
			if b.careful = before.careful || before.spoiled; b.careful {
				b.rows.late = nil
			}
			b.strict = before.strict
			answers, err = b.run(batch)
		}
	}
	if err == nil {
		err = b.end()
	}
	if err != nil {
		err = errors.Join(err, b.recover())
		if !b.lost {
			err = w.failed(err)
		}
		for _, r := range batch {
			r.reply <- outcome{err: err}
		}
		return
	}
	if b.wrote {
		w.strict = b.strict
		w.troubles.well()
	}
	for _, a := range answers {
		if a.request.committed != nil && a.outcome.err == nil {
			a.request.committed()
		}
		a.request.reply <- a.outcome
	}
}

// undone reports whether a batch of so many has to be undone, and run again.
func (b *transaction) undone(n int) bool { return b.lax || b.spoiled && n > 1 }

// run begins a SQLite transaction and runs a batch in it. It ends early if the transaction
// has to be undone.
func (b *transaction) run(batch []*request) (answers []answer, err error) {
	full := b.strict || b.writer.strict
	for _, r := range batch {
		full = full || r.class == model.Config
	}
	answers = make([]answer, 0, len(batch))
	if err := b.begin(full); err != nil {
		return nil, err
	}
	for _, r := range batch {
		if known, out := b.known(r); known {
			answers = append(answers, answer{r, out})
			continue
		}
		res, refused := b.step(r)
		switch {
		case b.broken != nil:
			return nil, b.broken
		case b.undone(len(batch)):
			return nil, nil
		case refused != nil:
			if known := b.troubles.met(refused); known != nil {
				refused = known
			}
			answers = append(answers, answer{r, outcome{err: refused}})
		default:
			answers = append(answers, answer{r, outcome{commit: res.Commit}})
		}
	}
	return answers, nil
}

// known answers requests that run no function.
func (b *transaction) known(r *request) (known bool, out outcome) {
	switch ended := r.ctx.Err(); {
	case ended != nil:
		return true, outcome{err: ended}
	case r.unwound:
		return true, outcome{err: errUnwound}
	case r.probe:
		b.wrote = true
		return true, outcome{}
	}
	return false, outcome{}
}

// transaction prepares a transaction on the newest state.
func (w *writer) transaction() *transaction {
	return &transaction{writer: w, rows: &rows{session: w.session, codec: w.codec, revision: w.revision, present: w.present,
		busy: busy{recent: w.recent, late: map[model.Key]engine.Row{}}}}
}

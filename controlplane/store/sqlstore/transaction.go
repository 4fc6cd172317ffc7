package sqlstore

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// errStricter rolls back a transaction that needs more durability than its batch has.
var errStricter = errors.New("needs synchronous commit")

// transaction is one SQLite transaction of the writer. It contains any number of callers'
// transactions, each in a savepoint.
type transaction struct {
	*writer
	rows *rows
	// commits holds the announced events of the callers' transactions.
	commits [][]store.Event
	// earliest is the earliest expiry that was written.
	earliest int64
	wrote    bool
	// broken is set if the transaction cannot continue.
	broken error
}

// begin sets the durability, which SQLite allows only between transactions, and begins.
func (b *transaction) begin(full bool) error {
	if b.full != full {
		pragma := "PRAGMA synchronous = NORMAL"
		if full {
			pragma = "PRAGMA synchronous = FULL"
		}
		if err := b.session.control(pragma); err != nil {
			return err
		}
		b.full = full
	}
	return b.session.control("BEGIN IMMEDIATE")
}

// step runs one request in a savepoint. If the caller's function fails, step undoes its
// writes and returns the error.
func (b *transaction) step(r *request) (engine.Result, error) {
	if _, err := b.session.exec("SAVEPOINT step"); err != nil {
		b.broken = err
		return engine.Result{}, err
	}
	if r.raw != nil {
		return engine.Result{}, b.raw(r.raw)
	}
	tx := engine.NewTx(b.rows, b.codec.kinds, r.class, b.now(), b.past())
	r.turn <- tx
	err := <-r.ran
	if err == nil && tx.Strict() && !b.full {
		err = errStricter
	}
	var res engine.Result
	if err == nil {
		res, err = tx.Finish(b.retain)
	}
	tx.End()
	if err != nil {
		if _, undo := b.session.exec("ROLLBACK TO step"); undo != nil {
			b.broken = errors.Join(err, undo)
		}
	}
	if _, release := b.session.exec("RELEASE step"); release != nil && b.broken == nil {
		b.broken = release
	}
	if err == nil && b.broken == nil {
		b.take(tx, res)
	}
	return res, err
}

// raw runs a function of this package in the savepoint of step.
func (b *transaction) raw(fn func(*rows) error) error {
	err := fn(b.rows)
	if err != nil {
		if _, undo := b.session.exec("ROLLBACK TO step"); undo != nil {
			b.broken = errors.Join(err, undo)
		}
	}
	if _, release := b.session.exec("RELEASE step"); release != nil && b.broken == nil {
		b.broken = release
	}
	b.wrote = b.wrote || err == nil
	return err
}

// take adds a finished transaction to what will be committed.
func (b *transaction) take(tx *engine.Tx, res engine.Result) {
	b.wrote = b.wrote || tx.Wrote()
	b.rows.revision = res.Commit.Revision
	if len(res.Events) > 0 {
		b.commits = append(b.commits, res.Events)
	}
	if res.Earliest != 0 && (b.earliest == 0 || res.Earliest < b.earliest) {
		b.earliest = res.Earliest
	}
}

// end commits and publishes. It returns when it is known whether the commit took effect.
func (b *transaction) end() error {
	if !b.wrote {
		return b.rollback()
	}
	if len(b.commits) > 0 {
		floor := b.feed.Floor(b.commits)
		if err := writeHistory(b.session, b.commits, floor, b.rows.revision); err != nil {
			return err
		}
		b.feed.Expect(b.rows.revision)
	}
	if err := b.number(); err != nil {
		return err
	}
	if err := b.session.control("COMMIT"); err != nil {
		if err := b.settle(err); err != nil {
			return err
		}
	}
	b.revision, b.committed = b.rows.revision, b.tried
	b.checkpoints.due()
	b.feed.Publish(b.commits)
	b.alarm.Set(b.earliest, b.past())
	return nil
}

// recover ends a transaction that was not committed.
func (b *transaction) recover() error {
	if b.lost {
		return nil
	}
	b.feed.Expect(b.revision)
	return b.rollback()
}

// rollback ends the open SQLite transaction, if there is one. It may be one that could not be
// ended earlier. After some errors SQLite has already ended it, which is not an error here.
func (b *transaction) rollback() error {
	_ = b.session.control("ROLLBACK")
	// The next transaction must not find an open one. BEGIN fails if there is one.
	if err := b.session.control("BEGIN"); err != nil {
		return err
	}
	return b.session.control("ROLLBACK")
}

package sqlstore

import (
	"errors"

	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// errStricter ends a batch that has less durability than one of its transactions needs.
var errStricter = errors.New("needs synchronous commit")

// transaction is one SQLite transaction of the writer. It contains any number of callers'
// transactions.
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
	// careful is set if each caller's transaction is in a savepoint. Otherwise spoiled says
	// that one has failed whose writes are among those of the others.
	careful, spoiled bool
	// strict says that one needs to be synchronised, whatever its class; lax that the batch is not, and
	// has to run again.
	strict, lax bool
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

// step runs one request. If the caller's function fails, step undoes its writes, or says that
// the transaction is spoiled by them, and returns the error.
func (b *transaction) step(r *request) (res engine.Result, err error) {
	if err := b.mark(); err != nil {
		return res, err
	}
	if r.raw != nil {
		if b.broken = b.rows.catchUp(); b.broken != nil {
			return res, b.broken
		}
		err = r.raw(b.rows)
		b.wrote = b.wrote || err == nil
		b.release(err, true)
		b.rows.forget() // it has written what it has not told
		return res, err
	}
	tx := engine.NewTx(b.rows, b.codec.kinds, r.class, b.now(), b.past())
	r.turn <- tx
	err = <-r.ran
	r.unwound = errors.Is(err, errUnwound)
	touched := tx.Touched()
	if err == nil && tx.Strict() {
		b.strict = true
		if b.lax = !b.full; b.lax {
			tx.End()
			return res, errStricter
		}
	}
	if err == nil {
		res, err = tx.Finish(b.retain)
		touched = true
	}
	tx.End()
	b.release(err, touched)
	if err == nil && b.broken == nil {
		b.take(tx, res)
	}
	return res, err
}

// mark sets the savepoint of a request, in a careful transaction.
func (b *transaction) mark() error {
	if !b.careful {
		return nil
	}
	_, b.broken = b.session.exec("SAVEPOINT step")
	return b.broken
}

// release ends a request. If it has failed and touched something, its writes are undone.
func (b *transaction) release(failed error, touched bool) {
	if !b.careful {
		b.spoiled = b.spoiled || failed != nil && touched
		return
	}
	if failed != nil {
		b.rows.forget()
		if _, undo := b.session.exec("ROLLBACK TO step"); undo != nil {
			b.broken = errors.Join(failed, undo)
		}
	}
	if _, release := b.session.exec("RELEASE step"); release != nil && b.broken == nil {
		b.broken = release
	}
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
	if err := b.rows.catchUp(); err != nil {
		return err
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
	b.rows.forget()
	_ = b.session.control("ROLLBACK")
	// The next transaction must not find an open one. BEGIN fails if there is one.
	if err := b.session.control("BEGIN"); err != nil {
		return err
	}
	return b.session.control("ROLLBACK")
}

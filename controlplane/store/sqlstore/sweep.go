package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/internal/engine"
)

// sweepRetry is the pause after a sweep that failed.
const sweepRetry = 10 * time.Second

// sweep removes some expired rows in a transaction of its own, which is short however many
// rows have expired. If there may be more, the writer calls it again at once. A pause between
// steps would bound how many rows can expire in a second.
func (w *writer) sweep() {
	if w.sweeping == nil {
		w.alarm.Clear()
		w.sweeping = new(int)
	}
	n, more, err := 0, false, w.begun()
	if err == nil {
		n, more, err = w.sweepStep(model.Credential)
	}
	if errors.Is(err, errStricter) {
		n, more, err = w.sweepStep(model.Config)
	}
	if err != nil {
		w.log.Error("removing expired rows failed", "error", err)
		w.alarm.Set(w.past().Add(sweepRetry).UnixMilli(), w.past())
		w.sweeping = nil
		return
	}
	if *w.sweeping += n; more {
		return
	}
	if *w.sweeping > 0 {
		w.log.Debug("expired rows were removed", "rows", *w.sweeping)
	}
	w.sweeping = nil
	if err := w.setAlarm(); err != nil {
		w.log.Error("the next expiry is not known", "error", err)
		w.alarm.Set(w.past().Add(sweepRetry).UnixMilli(), w.past())
	}
}

// begin runs [Options.Begin] while the store opens.
func (w *writer) begin() error {
	err := w.begun()
	if fault.Is(err, fault.Unstored) {
		w.log.Warn("rows that have ended are kept until the disk takes what has to be written before", "error", err)
		return nil
	}
	return err
}

// begun runs [Options.Begin] unless it has succeeded before. It is called by the goroutine of
// the writer, or before that goroutine starts.
func (w *writer) begun() error {
	if w.first == nil {
		return nil
	}
	r, ended := newRequest(context.Background(), model.Config), make(chan error, 1)
	go func() {
		_, err := r.serve(w.first)
		ended <- err
	}()
	w.commit([]*request{r})
	err := <-ended
	if err == nil {
		w.first = nil
	}
	return err
}

// sweepStep removes a bounded number of rows. A power failure may undo the removal of rows
// that have ended by themselves, because they are then removed again. If other rows are
// removed with them, the stricter class is needed.
func (w *writer) sweepStep(class model.Class) (n int, more bool, err error) {
	b := w.transaction()
	defer func() {
		if err != nil {
			err = errors.Join(err, b.recover())
		}
	}()
	if err := b.begin(class == model.Config); err != nil {
		return 0, false, err
	}
	tx := engine.NewTx(b.rows, w.codec.kinds, class, w.now(), w.past())
	if n, more, err = tx.Sweep(); err != nil {
		return 0, false, err
	}
	res, err := tx.Finish(w.retain)
	if err != nil {
		return 0, false, err
	}
	if class != model.Config && (tx.Strict() || len(res.Events) > 0) {
		return 0, false, errStricter
	}
	b.take(tx, res)
	return n, more, b.end()
}

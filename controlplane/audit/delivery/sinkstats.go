package delivery

import (
	"context"
	"errors"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/store"
)

// SinkStats are figures of a syslog sink.
type SinkStats struct {
	// Sink is its address, as the settings have it.
	Sink string
	// Failures counts tries that failed since the engine was made, Lost the events that the sink has missed: they
	// had ended, were too many, or were datagrams that could not be written or were refused, as far as that is known.
	Failures, Lost uint64
}

// SinkStats returns the figures of all syslog sinks.
func (e *Engine) SinkStats() (all []SinkStats) {
	for _, s := range e.sinks {
		all = append(all, SinkStats{Sink: s.conn.Target.String(), Failures: s.failed.Load(), Lost: s.lost.Load()})
	}
	return all
}

// SinksWaiting returns how many events are there that each syslog sink has not got, in the order of
// [Engine.SinkStats]. If it cannot be read how far a log is, one event waits.
func (e *Engine) SinksWaiting(ctx context.Context) (events []uint64, err error) {
	if len(e.sinks) == 0 {
		return nil, nil
	}
	err = e.Store.View(ctx, func(r store.Reader) error {
		events = make([]uint64, len(e.sinks))
		rows, err := store.ListAll(r, cloud.Positions, store.Query{})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if row.Name == cloud.ControlPlaneLog && !e.ControlPlane {
				continue
			}
			for i, s := range e.sinks {
				position, ok := row.Spec.(*cloud.Position)
				if !ok {
					events[i]++
					continue
				}
				done, err := s.done(r, row.Name)
				if err != nil && !errors.Is(err, store.ErrUnreadable) {
					return err
				}
				if done = max(done, max(position.First, 1)-1); position.Last > done {
					events[i] += position.Last - done
				}
			}
		}
		return nil
	})
	return events, err
}

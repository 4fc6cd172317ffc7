package delivery

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit/syslog"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/lease"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// sink sends the events of all portals to one receiver by syslog. Over TCP, what could not be written is
// written later, in order; datagrams are sent once, as soon as there is an address to send them to.
type sink struct {
	*Engine
	conn syslog.Conn
	// scope is that of the positions of the sink.
	scope string
	lease *lease.Lease
	// looked says that the sink has looked at all portals since it has the lease.
	looked bool

	mu sync.Mutex
	// portals are those that may have events which the sink has not got.
	portals map[string]bool
	// aside are portals that have failed, and are left alone until their own retry.
	aside map[string]bool
	woken chan struct{}
	// unread are portals that could not be read when the sink looked last, those first that are tried first.
	// look, unless it is nil, ends the wait until all of them are tried, and looks counts these waits since
	// the last read that succeeded. named are those that the log has named. blind says that it has named one since
	// the last read that succeeded: the store may be away as a whole, and the others wait for their lines.
	unread []string
	named  map[string]bool
	look   context.CancelFunc
	looks  int
	blind  bool

	retries sync.WaitGroup
	// failures counts how often portals have failed in a row. Only run uses it.
	failures map[string]int
	// sent is how far the sink is with portals of which that is not stored yet: it gets none of this once more.
	// Only run uses it.
	sent map[string]uint64
	// deaf says that datagrams could not be written, the last time at a moment by [steady.Clock.Elapsed]. Only
	// run uses them.
	deaf     bool
	deafened time.Duration
	// tried says that something was sent since the engine was made, or that it is not the receiver that keeps it
	// from that. failed and lost count tries that failed, and events that the receiver will never get.
	tried        atomic.Bool
	failed, lost atomic.Uint64
}

func newSink(e *Engine, to syslog.Target) *sink {
	return &sink{Engine: e, conn: syslog.Conn{Target: to}, scope: scopeOf(to.String()), portals: map[string]bool{}, aside: map[string]bool{}, failures: map[string]int{}, sent: map[string]uint64{}, named: map[string]bool{}, woken: make(chan struct{}, 1)}
}

// wake tells a sink of a portal.
func (s *sink) wake(portal string) {
	if portal == cloud.ControlPlaneLog && !s.ControlPlane {
		return
	}
	s.mu.Lock()
	s.portals[portal] = true
	s.mu.Unlock()
	select {
	case s.woken <- struct{}{}:
	default: // it knows already
	}
}

// next returns a portal that may have something for the sink.
func (s *sink) next() (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for portal := range s.portals {
		if delete(s.portals, portal); !s.aside[portal] {
			return portal, true
		}
	}
	return "", false
}

// run sends until ctx ends.
func (s *sink) run(ctx context.Context) {
	defer s.leave(ctx)
	for failures := 0; ctx.Err() == nil; {
		err := s.all(ctx)
		if err == nil {
			if failures > 0 {
				s.Log.Info("a syslog sink gets events again", "sink", s.conn.Target.String())
			}
			failures = 0
			select {
			case <-ctx.Done():
			case <-s.woken:
			}
			continue
		}
		if failures == 0 && ctx.Err() == nil {
			s.Log.Warn("a syslog sink gets no events now, and will", "sink", s.conn.Target.String(), "error", err)
		}
		if ctx.Err() == nil {
			s.failed.Add(1)
		}
		_ = s.Rest(ctx, backOff(failures)) // its end is seen
		failures++
	}
}

func (s *sink) leave(ctx context.Context) {
	s.retries.Wait()
	s.conn.Close()
	if s.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	for portal := range s.sent {
		if err := s.keep(ctx, portal); err != nil {
			s.Log.Error("it is not stored what a syslog sink has got of an audit log: it may get that once more", "sink", s.conn.Target.String(), "portal", portal, "error", err)
		}
	}
	s.lease.Release(ctx)
}

// all sends what there is. With a lease that was just taken it looks at all portals. It ends at an error of the
// connection, of the lease, or of a write to the store; a portal with another one is left for later. What could not
// be stored before is stored first: while nothing can be stored, nothing is sent.
func (s *sink) all(ctx context.Context) error {
	if s.lease == nil || s.lease.Context().Err() != nil {
		held, err := s.Leases.Take(ctx, sinkLease+s.scope)
		if err != nil {
			return err
		}
		s.lease, s.looked = held, false
	}
	if !s.looked {
		if err := s.Store.View(ctx, s.everywhere); err != nil {
			return err
		}
		s.looked = true
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	for {
		portal, ok := s.next()
		if !ok {
			return nil
		}
		if err := s.drain(ctx, portal); err != nil {
			return err
		}
	}
}

// drain sends what there is of a portal. Its error concerns all portals.
func (s *sink) drain(ctx context.Context, portal string) error {
	for more := true; more; {
		var err error
		if more, err = s.page(s.lease.Context(), portal); err == nil {
			if s.failures[portal] > 0 {
				s.Log.Info("a syslog sink gets events of an audit log again", "sink", s.conn.Target.String(), "portal", portal)
			}
			delete(s.failures, portal)
			continue
		}
		if _, all := errors.AsType[common](err); all || s.lease.Context().Err() != nil {
			s.wake(portal)
			return err
		}
		if _, unread := errors.AsType[reading](err); unread {
			s.missed(ctx, portal, err)
		} else {
			s.setAside(ctx, portal, err)
		}
		return nil
	}
	return nil
}

func (s *sink) everywhere(r store.Reader) error {
	rows, err := store.ListAll(r, cloud.Positions, store.Query{})
	for _, row := range rows {
		s.wake(row.Name)
	}
	return err
}

// settle stores what the sink has got and could not be stored, but for portals that are left alone.
func (s *sink) settle(ctx context.Context) error {
	for portal := range s.sent {
		s.mu.Lock()
		aside := s.aside[portal]
		s.mu.Unlock()
		if aside {
			continue
		}
		err := s.keep(context.WithoutCancel(ctx), portal)
		if _, all := errors.AsType[common](err); all {
			return err
		}
		if err != nil {
			s.setAside(ctx, portal, err)
		}
	}
	return nil
}

// keep stores how far the sink is with a portal. Another process may have been further meanwhile: that stays.
func (s *sink) keep(ctx context.Context, portal string) error {
	next := cloud.SinkPosition{Done: s.sent[portal]}
	_, err := s.Writer.Write(ctx, model.Credential, func(tx store.Tx) error {
		if err := s.lease.Check(tx); err != nil {
			return err
		}
		stored, _, err := rowOf(tx, cloud.SinkPositions, s.scope, portal)
		if err != nil || stored != nil && stored.Spec.(*cloud.SinkPosition).Done >= next.Done {
			return err
		}
		return set(tx, cloud.SinkPositions, s.scope, portal, &next)
	})
	switch {
	case err == nil:
		delete(s.sent, portal)
	case !errors.Is(err, store.ErrUnreadable):
		return common{err}
	}
	return err
}

// page sends some events of a portal, and says whether there may be more. What it has sent before, and is not
// stored, it stores.
func (s *sink) page(ctx context.Context, portal string) (more bool, err error) {
	if _, before := s.sent[portal]; before {
		return true, s.keep(context.WithoutCancel(ctx), portal)
	}
	var (
		job  work
		done uint64
		lost bool // how many it has got
	)
	err = s.Store.View(ctx, func(r store.Reader) error {
		job, done, lost = work{}, 0, false
		var err error
		if done, err = s.done(r, portal); errors.Is(err, store.ErrUnreadable) {
			lost = true // it gets all that is there
		} else if err != nil {
			return err
		}
		return job.fill(r, portal, cloud.EventName(portal, done), "", maxBatch)
	})
	if err != nil && !errors.Is(err, store.ErrUnreadable) {
		return false, reading{err}
	}
	s.saw(portal)
	if err != nil || len(job.names) == 0 {
		return false, err
	}
	var messages [][]byte
	for i := range job.events {
		messages = append(messages, syslog.Message(s.Origin, &job.events[i], s.Signer))
	}
	if err := s.send(ctx, messages); err != nil {
		return false, common{err}
	}
	first, last := cloud.EventNumber(job.names[0]), cloud.EventNumber(job.names[len(job.names)-1])
	if first > done+1 && !lost { // there were too many newer ones; what has ended is counted then
		s.lose(first-done-1, portal)
	}
	s.sent[portal] = last
	return len(job.names) == maxBatch || len(job.names) >= page, s.keep(context.WithoutCancel(ctx), portal)
}

// quiet is for how long datagrams must be written without an error until a sink counts as well again: that one was
// refused is known later, and where nobody listens the kernel tells of no more than every second one.
const quiet = time.Minute

// send sends messages. Datagrams are written once, and those that could not be are lost: most collectors that are
// away cannot be told from one that is there. What has not been tried, because there is no connection, fails.
func (s *sink) send(ctx context.Context, messages [][]byte) error {
	if len(messages) == 0 {
		return nil
	}
	err := s.conn.Send(ctx, messages)
	if ctx.Err() == nil || err == nil {
		s.tried.Store(true)
	}
	dropped, once := errors.AsType[*syslog.Dropped](err)
	switch {
	case err != nil && (!once || ctx.Err() != nil):
		return err
	case once:
		s.failed.Add(1)
		s.lost.Add(uint64(dropped.Messages)) //nolint:gosec // a number of events of a batch
		if !s.deaf {
			s.Log.Error("events of an audit log are lost for a syslog sink: they cannot be written, or are refused", "sink", s.conn.Target.String(), "events", dropped.Messages, "error", dropped.Err)
		}
		s.deaf, s.deafened = true, s.Clock.Elapsed()
	case s.deaf && s.Clock.Elapsed()-s.deafened >= quiet:
		s.Log.Info("a syslog sink gets events again", "sink", s.conn.Target.String())
		s.deaf = false
	}
	return nil
}

// lose counts events of a portal that are gone before the sink has got them, and says so.
func (s *sink) lose(n uint64, portal string) {
	s.lost.Add(n)
	s.Log.Error("events of an audit log are lost for a syslog sink: it has not taken them in time", "sink", s.conn.Target.String(), "portal", portal, "events", n)
}

// done is the number of the last event of a portal that the sink has got.
func (s *sink) done(r store.Reader, portal string) (uint64, error) {
	row, err := r.Get(cloud.SinkPositions, s.scope, portal)
	switch {
	case fault.Is(err, fault.NotFound):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return row.Spec.(*cloud.SinkPosition).Done, nil
}

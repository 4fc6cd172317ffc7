package insight

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// batch bounds the rows of one transaction.
const batch = 500

// deadline bounds one attempt to write what is due.
const deadline = 30 * time.Second

// write is the goroutine that writes. Both timers run from the first change that
// waits for them, so that a thousand disconnects share a few transactions and no
// change waits longer than its time.
func (s *Insights) write(ctx context.Context) {
	defer close(s.done)
	var soon, later alarm
	defer soon.stop()
	defer later.stop()
	failing := false // which is logged once
	for {
		var err error
		select {
		case <-ctx.Done():
			return
		case <-s.soon:
			soon.set(moment)
			continue
		case <-s.later:
			later.set(Interval)
			continue
		case <-soon.c:
			soon.stop()
			err = s.attempt(ctx, true)
		case <-later.c:
			later.stop()
			err = s.attempt(ctx, false)
		}
		if err != nil && ctx.Err() == nil {
			if !failing {
				s.Log.Error("insights cannot be written, and will be", "error", err, "next_attempt", Interval.String())
			}
			later.set(Interval)
		}
		failing = err != nil
	}
}

// alarm is a timer that may be off, and that does not move while it runs.
type alarm struct {
	c     <-chan time.Time
	timer *time.Timer
}

func (a *alarm) set(d time.Duration) {
	if a.c == nil {
		a.timer = time.NewTimer(d)
		a.c = a.timer.C
	}
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
	a.c = nil
}

func (s *Insights) attempt(ctx context.Context, urgent bool) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	return s.flush(ctx, urgent)
}

// flush writes what is not written, or the urgent part of it. What could not be
// written stays due.
func (s *Insights) flush(ctx context.Context, urgent bool) error {
	due := s.due(urgent)
	for len(due) > 0 {
		part := due[:min(batch, len(due))]
		if err := s.save(ctx, part); err != nil {
			s.mu.Lock()
			for _, at := range due {
				if _, again := s.unwritten[at]; !again {
					s.unwritten[at] = false
				}
			}
			s.mu.Unlock()
			return err
		}
		due = due[len(part):]
	}
	return nil
}

// due takes the proxies that are to be written.
func (s *Insights) due(urgent bool) []id {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []id
	for at, hurry := range s.unwritten {
		if hurry || !urgent {
			out = append(out, at)
			delete(s.unwritten, at)
		}
	}
	return out
}

// save writes some proxies as they are now, and deletes those that are not
// there any more. Only one goroutine at a time does, so that what was deleted
// does not come back.
func (s *Insights) save(ctx context.Context, ats []id) error {
	var rows []store.StatusRow
	var gone []model.Key
	for _, at := range ats {
		last, known := s.account(at.node())
		in := s.generation(at, last, known)
		if in == nil {
			gone = append(gone, at.key())
			continue
		}
		value, err := json.Marshal(in)
		if err != nil {
			return err
		}
		rows = append(rows, store.StatusRow{Key: at.key(), Value: value})
	}
	var errs []error
	if len(rows) > 0 {
		errs = append(errs, s.Store.Put(ctx, rows))
	}
	if len(gone) > 0 {
		errs = append(errs, s.Store.Delete(ctx, gone))
	}
	return errors.Join(errs...)
}

// row is what is stored of a node.
type row struct {
	DataplaneInsight
	Node *remembered `json:"node,omitempty"`
}

// generation returns a proxy as it is to be written; nil if it is to be deleted, or is
// only expected. last, if known, is how far it is.
func (s *Insights) generation(at id, last Last, known bool) *row {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proxies[at]
	if p == nil || p.forgotten || p.orphan {
		return nil
	}
	if known && p.streams > 0 {
		p.facts.Last = last
	}
	if n := len(p.subscriptions); n > 0 {
		p.subscriptions[n-1].Generation++
	}
	f := p.facts
	if f.Refusal != nil && !f.Refusal.Proved {
		f.Refusal = nil
	}
	if in := p.insight(); in != nil {
		return &row{*in, &f}
	}
	if f.Refusal == nil {
		return nil
	}
	return &row{Node: &f}
}

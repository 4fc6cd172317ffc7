package insight

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// batch is the number of rows of one transaction.
const batch = 500

// deadline bounds one attempt to write what is due.
const deadline = 30 * time.Second

// write is the goroutine that writes. Both timers start at the first change that waits for
// them, so that a thousand disconnects share a few transactions and no change waits longer
// than its time.
func (s *Insights) write(ctx context.Context) {
	defer close(s.done)
	var soon, later alarm
	defer soon.stop()
	defer later.stop()
	failing := false // logged once
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

// alarm is a timer that may be off. Setting it while it runs does not move it.
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

// flush writes all unwritten changes, or only the urgent ones. Changes that could not be
// written stay due.
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

// due takes the proxies that must be written.
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

// save writes the current state of some proxies, and deletes those that no longer exist.
// Only one goroutine calls it at a time, so that deleted rows do not come back.
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

// generation returns a proxy in the form to be written, or nil if it must be deleted or is
// only expected. last, if known, is how far the proxy has come.
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

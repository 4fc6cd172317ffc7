package delivery

import (
	"context"
	"slices"
)

// common is an error of the connection to a receiver, or of a write to the store. It concerns all portals;
// others concern one, but for those of reading.
type common struct{ error }

// reading is an error of the store while it is read, and not one of a row. It may concern one portal, as
// with a damaged part of a disk, or all of them.
type reading struct{ error }

// setAside leaves a portal alone for a while, and wakes the sink for it then. Others go on meanwhile.
func (s *sink) setAside(ctx context.Context, portal string, err error) {
	tries := s.failures[portal]
	s.failed.Add(1)
	s.tried.Store(true) // it is not for the receiver that what is there waits
	if s.failures[portal]++; tries == 0 {
		s.Log.Warn("a syslog sink gets no events of an audit log now, and will", "sink", s.conn.Target.String(), "portal", portal, "error", err)
	}
	s.mu.Lock()
	s.aside[portal] = true
	s.mu.Unlock()
	s.retries.Go(func() {
		_ = s.Rest(ctx, backOff(tries)) // its end is seen
		s.mu.Lock()
		delete(s.aside, portal)
		s.mu.Unlock()
		s.wake(portal)
	})
}

// missed remembers a portal that could not be read. It is tried again as soon as another one could, which tells
// that the store is there, and otherwise after a while. Others go on meanwhile, if they can be read.
func (s *sink) missed(ctx context.Context, portal string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.unread, portal) {
		s.unread = append(s.unread, portal)
	}
	if !s.blind && !s.named[portal] { // one that is named already says nothing of the others
		s.Log.Warn("a syslog sink cannot read an audit log now, and will", "sink", s.conn.Target.String(), "portal", portal, "error", err)
		s.blind, s.named[portal] = true, true
	}
	s.failed.Add(1)
	if s.look != nil {
		return
	}
	wait := backOff(s.looks)
	s.looks++
	ctx, s.look = context.WithCancel(ctx)
	s.retries.Go(func() {
		_ = s.Rest(ctx, wait) // its end is seen
		s.mu.Lock()
		s.look()
		s.look = nil
		again := slices.Clone(s.unread)
		s.mu.Unlock()
		for _, portal := range again {
			s.wake(portal)
		}
	})
}

// saw notes that a portal was read. Each read that succeeds is a reason to try one of the others again: if that
// succeeds, too, the next one follows, and if it does not, this costs no more than one read.
func (s *sink) saw(portal string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.blind, s.looks = false, 0
	delete(s.named, portal)
	before := len(s.unread)
	s.unread = slices.DeleteFunc(s.unread, func(p string) bool { return p == portal })
	if before > 0 && len(s.unread) == 0 {
		s.Log.Info("a syslog sink can read all audit logs again", "sink", s.conn.Target.String())
	}
	switch {
	case len(s.unread) > 0:
		first := s.unread[0]
		s.unread = append(s.unread[1:], first)
		s.portals[first] = true // run has not ended its round
	case s.look != nil:
		s.look() // the next failure does not sit out the wait of this one
	}
}

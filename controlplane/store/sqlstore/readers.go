package sqlstore

import (
	"context"
	"database/sql"

	"github.com/meshgate/meshgate/controlplane/store/internal/feed"
)

// maxReaders bounds the views that run at the same time; others wait. Each session costs the
// page cache of a connection.
const maxReaders = 8

// readers is a bounded pool of read-only sessions, which are opened when they are needed.
type readers struct {
	db *sql.DB
	// slots counts the sessions that exist; free holds the idle ones.
	slots   chan struct{}
	free    chan *session
	closing <-chan struct{}
}

func newReaders(db *sql.DB, closing <-chan struct{}) *readers {
	return &readers{db: db, slots: make(chan struct{}, maxReaders), free: make(chan *session, maxReaders), closing: closing}
}

// acquire returns a session. The caller gives it back with release or drop.
func (p *readers) acquire(ctx context.Context) (*session, error) {
	select {
	case <-p.closing:
		return nil, feed.Closed()
	case s := <-p.free:
		return s, nil
	default:
	}
	select {
	case <-p.closing:
		return nil, feed.Closed()
	case <-ctx.Done():
		return nil, ctx.Err()
	case s := <-p.free:
		return s, nil
	case p.slots <- struct{}{}:
	}
	s, err := newSession(ctx, p.db)
	if err != nil {
		<-p.slots
		return nil, err
	}
	return s, nil
}

func (p *readers) release(s *session) { p.free <- s }

// drop closes a session that may be broken.
func (p *readers) drop(s *session) {
	_ = s.close()
	<-p.slots
}

// close waits for running views and closes their sessions.
func (p *readers) close() {
	for range maxReaders {
		select {
		case p.slots <- struct{}{}:
		case s := <-p.free:
			_ = s.close()
		}
	}
}

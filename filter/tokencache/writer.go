package tokencache

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

// write sends what is due until the link ends. When the cache closes or turns to another
// control plane, write gives up the lease and says goodbye. A link that merely broke keeps
// its lease, because the control plane counts on the lease as well.
func (s *session) write() {
	ticker := time.NewTicker(contract.RenewEvery)
	defer ticker.Stop()
	err := s.renew()
	for err == nil {
		select {
		case <-s.cache.ctx.Done():
			if s.isHeard() { // otherwise the next filter here needs what is on disk
				s.leave()
			}
			return
		case <-s.leaving:
			s.leave()
			return
		case <-s.broken:
			return
		case <-s.ackReady:
			err = s.sendAck()
		case <-s.cache.inUse.ready:
			err = s.sendInUse()
		case <-ticker.C:
			err = s.renew()
		case q := <-s.questions:
			err = s.send(contract.FrameIntrospect, q.Encode(), writeTimeout)
		}
	}
}

// isHeard reports whether a goodbye would be heard. If not, the filter ends without one, as
// if it were killed, and the control plane keeps counting on it.
func (s *session) isHeard() bool {
	select {
	case <-s.broken:
		return false
	default:
		return s.cache.clock.Now().Mono-time.Duration(s.heard.Load()) < silence
	}
}

// sendAck sends what is new since the last acknowledgement.
func (s *session) sendAck() error {
	a := s.ack()
	if a == s.said {
		return nil
	}
	s.said = a
	return s.send(contract.FrameAck, a.Encode(), writeTimeout)
}

func (s *session) send(t contract.FrameType, body []byte, timeout time.Duration) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	return contract.WriteFrame(s.conn, t, body)
}

// renew asks for a lease. It takes the time before it sends, so that the filter's span
// starts before the server's.
func (s *session) renew() error {
	s.mu.Lock()
	s.renewed++
	n := s.renewed
	s.renews[n%maxRenews] = renew{number: n, sent: s.cache.clock.Now()}
	s.mu.Unlock()
	return s.send(contract.FrameRenew, contract.EncodeNumber(n), writeTimeout)
}

// leave stops L1 and removes from disk what may be believed in Redis. Only then does it tell
// the control plane that it need not wait for this filter any more. Otherwise a filter that
// starts here later would believe a Redis without having heard of its revocations. If the
// removal fails, the control plane must not forget this filter either.
func (s *session) leave() {
	s.giveUpLease()
	if err := s.cache.disk.await(s.cache.forgetTrust(&s.cp)); err != nil {
		s.cache.log.Warn("what the control plane vouched for in redis stays on disk", "error", err)
		return
	}
	// If the goodbye is lost, the control plane waits for one lease.
	_ = s.send(contract.FrameBye, nil, cmp.Or(s.cache.opts.leaveTimeout, goodbyeTimeout))
}

func (s *session) giveUpLease() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
	s.cache.setLease(nil)
}

// ask introspects a token and waits for the answer until the context ends. It never waits
// for room in the queue.
func (s *session) ask(ctx context.Context, hash contract.Hash, plugin string) (*contract.Result, error) {
	if err := ctx.Err(); err != nil { // the round is over, perhaps without its turn
		return nil, fmt.Errorf("introspection: %w", err)
	}
	reply := make(chan *contract.Result, 1)
	s.mu.Lock()
	if s.pending == nil {
		s.mu.Unlock()
		return nil, errLinkDown
	}
	s.nextID++
	id := s.nextID
	s.pending[id] = reply
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.pending, id)
	}()
	select {
	case s.questions <- &contract.Introspect{ID: id, Token: hash, Plugin: plugin}:
	default:
		return nil, errBusy
	}
	select {
	case res, ok := <-reply:
		if !ok {
			return nil, errLinkDown
		}
		return res, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("introspection: %w", ctx.Err())
	}
}

// answer hands a result to the asker if it still waits.
func (s *session) answer(m *contract.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reply, ok := s.pending[m.ID]; ok {
		delete(s.pending, m.ID)
		reply <- m // buffered, and sent to once
	}
}

// fail ends all pending questions with the end of the link.
func (s *session) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, reply := range s.pending {
		close(reply)
	}
	s.pending = nil
}

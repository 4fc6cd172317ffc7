package revoke

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

func (l *link) writeLoop() {
	defer l.end()
	for {
		select {
		case <-l.ctx.Done():
			return
		case f := <-l.out:
			if err := l.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
				return
			}
			if err := contract.WriteFrame(l.conn, f.kind, f.body); err != nil {
				return
			}
		}
	}
}

// read reads one frame within the size limit for filters.
func (l *link) read() (contract.FrameType, []byte, error) {
	head, err := l.in.Peek(4)
	if err != nil {
		return 0, nil, err
	}
	if n := binary.BigEndian.Uint32(head); n > maxInbound {
		return 0, nil, fmt.Errorf("frame of %d bytes exceeds the limit of %d", n, maxInbound)
	}
	return contract.ReadFrame(l.in)
}

func (l *link) readLoop() error {
	for {
		if err := l.conn.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return err
		}
		kind, body, err := l.read()
		if err != nil {
			return err
		}
		if err := l.handle(kind, body); err != nil {
			return err
		}
	}
}

func (l *link) handle(kind contract.FrameType, body []byte) error {
	switch kind {
	case contract.FrameRenew:
		n, err := contract.DecodeNumber(body)
		if err != nil {
			return fmt.Errorf("decode renew: %w", err)
		}
		l.renew(n)
		return nil
	case contract.FrameAck:
		a, err := contract.DecodeAck(body)
		if err != nil {
			return fmt.Errorf("decode ack: %w", err)
		}
		return l.ack(a)
	case contract.FrameInUse:
		m, err := contract.DecodeInUse(body)
		if err != nil {
			return fmt.Errorf("decode in use: %w", err)
		}
		return l.refillInUse(m)
	case contract.FrameIntrospect:
		q, err := contract.DecodeIntrospect(body)
		if err != nil {
			return fmt.Errorf("decode introspect: %w", err)
		}
		l.introspect(q)
		return nil
	case contract.FrameBye:
		return errBye
	default:
		return fmt.Errorf("unexpected frame of type %d", kind)
	}
}

// renew grants a lease, counted from the receipt of the frame. It grants nothing if the
// filter has left a position unacknowledged for longer than a lease.
func (l *link) renew(number uint64) {
	received := time.Now()
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if len(l.waiting) > 0 && received.Sub(l.waiting[0].sent) > contract.Lease {
		return
	}
	l.lease = received.Add(contract.Lease)
	l.push(frame{contract.FrameGranted, contract.EncodeNumber(number)})
}

// ack notes how far the filter is. Its memory and its disk are tracked separately: the disk
// may be slow or full, and this must not delay callers that wait only for the memory.
func (l *link) ack(a contract.Ack) error {
	l.r.mu.Lock()
	defer l.r.mu.Unlock()
	if l.former() {
		return errFormer
	}
	if a.Applied > l.r.history.at {
		return fmt.Errorf("position %d was never sent", a.Applied)
	}
	l.settle(a.Applied)
	if a.Applied >= l.membersAt {
		l.known.scopes, l.was = l.members.scopes, nil
	}
	l.confirmTrust(a.Durable)
	return nil
}

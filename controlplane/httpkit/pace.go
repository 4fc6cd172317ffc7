package httpkit

import (
	"context"
	"errors"
	"net"
)

var errPutOut = errors.New("there are too many handshakes")

// pace gives a slot to a handshake while it computes, and takes the slot back
// while it waits for its client: how long that takes is the client's choice, so
// it must not be at the cost of others. From then on the handshake is one of those
// begun, of which the oldest makes place for the newest. A handshake is one
// goroutine; pace is its alone.
type pace struct {
	ctx   context.Context // of the handshake
	conn  net.Conn
	slots *quota
	begun *room
	leave func() // gives the slot back; nil without one
	part  func() // leaves those begun; nil before
}

// work waits for a slot.
func (p *pace) work() error {
	leave, ok := p.slots.enter(p.ctx, p.conn)
	if !ok {
		return errPutOut
	}
	p.leave = leave
	return nil
}

// wait gives the slot back, if there is one, because the client is to speak.
func (p *pace) wait() {
	p.rest()
	if p.part == nil {
		p.part = p.begun.enter(p.conn)
	}
}

// end follows the handshake.
func (p *pace) end() {
	p.rest()
	if p.part != nil {
		p.part()
	}
}

func (p *pace) rest() {
	if p.leave != nil {
		p.leave()
		p.leave = nil
	}
}

package httpkit

import (
	"context"
	"errors"
	"net"
)

var errPutOut = errors.New("there are too many handshakes")

// pace gives a handshake a slot while it computes, and takes the slot back while it waits
// for its client. The client chooses how long that takes, so the wait must not cost others a
// slot. From its first wait on, the handshake is one of those begun; when there are too many
// of them, the oldest is dropped for the newest. A handshake is one goroutine, and pace
// belongs to it alone.
type pace struct {
	ctx   context.Context // of the handshake
	conn  net.Conn
	slots *quota
	begun *room
	leave func() // gives the slot back; nil without one
	part  func() // removes it from those begun; nil before
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

// wait gives the slot back, if there is one, because it is the client's turn to speak.
func (p *pace) wait() {
	p.rest()
	if p.part == nil {
		p.part = p.begun.enter(p.conn)
	}
}

// end is called after the handshake.
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

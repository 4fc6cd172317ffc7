package extauthz

import (
	"context"
	"sync/atomic"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// Bounds of the questions in progress in a process. An agent is in that process, too, and the
// relay that gives its Envoy configuration. Clients decide how many questions there are and how
// large, before anybody knows who they are.
const (
	// maxHeld bounds the bytes of all of them.
	maxHeld = 256 << 20
	// unread is what the transport holds at most of a question that is not read yet: the window
	// of its stream. The library knows no smaller one.
	unread = 64 << 10
	// maxReading bounds how many are read at the same time. Of each of them the transport may
	// hold a whole message.
	maxReading = 32
)

// addresses share counters if there are more of them, which only makes those fill sooner.
const addresses = 4096

// room is what the questions in progress share. An address may hold as much as is free beside
// it: half of the room if it is alone, a third if there are two. So there is always room for
// one that comes anew, whatever the others do.
type room struct {
	most    int64 // maxHeld, but in tests
	held    atomic.Int64
	by      [addresses]atomic.Int64
	reading chan struct{} // has an element for each question that is being read
}

func newRoom() *room { return &room{most: maxHeld, reading: make(chan struct{}, maxReading)} }

// place is what one question takes of a room.
type place struct {
	room  *room
	bytes int64
	by    *atomic.Int64 // of its address, nil until it is read
}

// enter takes a place for a question that is not read yet, so that nobody knows whose it is.
// The caller must leave it.
func (r *room) enter() (p *place, ok bool) {
	p = &place{room: r, bytes: unread}
	return p, r.held.Add(unread) <= r.most
}

// charge takes as many bytes as a question has, on behalf of a client. It is false if there is
// no room for them, or the address of the client has its share already: the question is to be
// refused, and they count until then.
func (p *place) charge(bytes int, of tokencache.Asker) bool {
	p.by = &p.room.by[of.Address%addresses]
	more := int64(bytes) - p.bytes
	p.bytes += more
	own := p.by.Add(p.bytes)
	return own <= p.room.most-p.room.held.Add(more)
}

func (p *place) leave() {
	p.room.held.Add(-p.bytes)
	if p.by != nil {
		p.by.Add(-p.bytes)
	}
}

// read reads a question when its turn has come. Envoy sends what it has, so turns are short.
func (r *room) read(ctx context.Context, read func() error) error {
	select {
	case r.reading <- struct{}{}:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	defer func() { <-r.reading }()
	return read()
}

// ask reads a question of Envoy and answers it. It refuses one for which there is no room, and
// one that has not even a place is not read before. The error is one of the transport.
func (s *Server) ask(ctx context.Context, read func(any) error) (*authv3.CheckResponse, error) {
	p, ok := s.room.enter()
	defer p.leave()
	if !ok {
		return s.refuseUnread(), nil
	}
	q := new(authv3.CheckRequest)
	if err := s.room.read(ctx, func() error { return read(q) }); err != nil {
		return nil, err
	}
	m := newMessage(ctx, s, q.GetAttributes())
	if !p.charge(proto.Size(q), m.asker()) {
		return s.refuseUnread(), nil
	}
	return s.decide(m), nil
}

// refuseUnread answers a question for which there is no room, with 503.
func (s *Server) refuseUnread() *authv3.CheckResponse {
	m := &message{server: s}
	return m.refuse(engine.BodyBudget, nil, nil)
}

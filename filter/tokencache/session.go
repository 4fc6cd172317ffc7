package tokencache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/meshgate/meshgate/filter/contract"
)

const (
	// readTimeout ends a link on which nothing arrives: every Renew brings a
	// Granted, so silence for a whole lease means that nobody is there.
	readTimeout = contract.Lease
	// writeTimeout ends a link whose peer does not read.
	writeTimeout = time.Second
	// goodbyeTimeout bounds the last message.
	goodbyeTimeout = 250 * time.Millisecond
	// leaseSpan is the filter's lease, counted from the sending of its Renew.
	leaseSpan = contract.Lease - contract.LeaseMargin
	// silence is how long nothing arrives on a link before it counts as one on which nobody
	// hears a goodbye: two Renews stay without an answer.
	silence = 2 * contract.RenewEvery
	// maxRenews bounds the unanswered Renews that are remembered.
	maxRenews = 8
	// maxQuestions bounds the introspections that wait to be sent.
	maxQuestions = maxFlights
)

// errLinkDown means that the link ended before an answer came, errBusy that
// too many questions wait to be sent.
var (
	errLinkDown = errors.New("freshness link is down")
	errBusy     = errors.New("too many introspections are waiting to be sent")
)

// session is one welcomed connection to the control plane. One goroutine reads,
// another writes; state both need is behind mu.
type session struct {
	cache *Cache
	conn  *linkConn
	cp    contract.ControlPlaneSettings

	said      contract.Ack  // the writer's: what was acknowledged last
	ackReady  chan struct{} // the writer acknowledges what is new
	questions chan *contract.Introspect
	broken    chan struct{} // closed when reading has ended
	leaving   chan struct{} // closed when the filter wants to go
	heard     atomic.Int64  // the monotonic time at which a frame was read last
	leaveOnce sync.Once
	closeOnce sync.Once

	mu      sync.Mutex
	pending map[uint64]chan *contract.Result // nil after fail
	nextID  uint64
	renews  [maxRenews]renew // by number modulo its length
	renewed uint64           // number of the newest Renew
	granted bool
	left    bool // no lease is taken any more
	// applied is the position up to which everything is; unsaved are trusts that may
	// not be on disk, in their order.
	applied contract.Position
	unsaved []unsaved
}

// maxUnsaved is one trust that is being written and one that stands for those that
// come after it, of which only the last is written.
const maxUnsaved = 2

// unsaved is a trust, or several in a row, that the disk holds when the wish of
// that number is fulfilled. What it holds meanwhile is good up to before.
type unsaved struct {
	number uint64
	before contract.Position
}

// renew remembers when a Renew was sent.
type renew struct {
	number uint64
	sent   Instant
}

func newSession(c *Cache, conn *linkConn, cp contract.ControlPlaneSettings) *session {
	s := &session{
		cache: c, conn: conn, cp: cp,
		ackReady:  make(chan struct{}, 1),
		questions: make(chan *contract.Introspect, maxQuestions),
		pending:   map[uint64]chan *contract.Result{},
		broken:    make(chan struct{}),
		leaving:   make(chan struct{}),
	}
	s.heard.Store(int64(c.clock.Now().Mono))
	return s
}

// close ends both goroutines' I/O.
func (s *session) close() {
	s.closeOnce.Do(func() { _ = s.conn.Close() }) // nothing can be done about it
}

// hello exchanges the first frames. What Welcome says is in force before anything
// else is read, and whoever has questions finds the session; the caller retires it.
func (s *session) hello(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = s.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := s.conn.SetDeadline(time.Now().Add(connectTimeout)); err != nil {
		return err
	}
	st := s.cache.standing.Load()
	body, err := contract.EncodeJSON(contract.Hello{
		Version: contract.LinkVersion, Instance: s.cache.instance, Log: st.log, Applied: st.applied,
	})
	if err != nil {
		return err
	}
	if err := contract.WriteFrame(s.conn, contract.FrameHello, body); err != nil {
		return fmt.Errorf("send hello: %w", err)
	}
	t, body, err := contract.ReadFrame(s.conn)
	if err != nil {
		return fmt.Errorf("read welcome: %w", err)
	}
	if t != contract.FrameWelcome {
		return fmt.Errorf("frame of type %d instead of a welcome", t)
	}
	var w contract.Welcome
	if err := contract.DecodeJSON(body, &w); err != nil {
		return fmt.Errorf("decode welcome: %w", err)
	}
	number, err := s.cache.welcomed(s, &w)
	if err != nil {
		return err
	}
	s.said.Applied, s.applied = w.From, w.From
	s.unsaved = []unsaved{{number, 0}}
	if !stop() {
		return errLinkDown
	}
	return s.conn.SetDeadline(time.Time{})
}

// read applies frames in their order until the link ends.
func (s *session) read() error {
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			return err
		}
		t, body, err := contract.ReadFrame(s.conn)
		if err != nil {
			return err
		}
		s.heard.Store(int64(s.cache.clock.Now().Mono))
		if err := s.apply(t, body); err != nil {
			return err
		}
	}
}

// apply handles one frame. An error ends the link unacknowledged, so that the
// control plane waits for the lease and sends again what was missed.
func (s *session) apply(t contract.FrameType, body []byte) error {
	switch t {
	case contract.FrameInvalidate:
		m, err := contract.DecodeInvalidate(body)
		if err != nil {
			return fmt.Errorf("decode invalidate: %w", err)
		}
		if err := s.cache.invalidated(m); err != nil {
			return err
		}
		s.took(m.To, nil)
	case contract.FrameTrust:
		var m contract.TrustChange
		if err := contract.DecodeJSON(body, &m); err != nil {
			return fmt.Errorf("decode trust: %w", err)
		}
		switch number, err := s.cache.entrusted(&s.cp, &m); {
		case errors.Is(err, errMoved): // not acknowledged; the writer says goodbye
		case err != nil:
			return err
		default:
			s.took(m.At, &unsaved{number, m.At - 1})
			s.cache.refillAfter(m.Trust)
		}
	case contract.FrameGranted:
		n, err := contract.DecodeNumber(body)
		if err != nil {
			return fmt.Errorf("decode granted: %w", err)
		}
		s.grant(n)
		s.cache.noteLease(&s.cp)
	case contract.FrameRefilled:
		n, err := contract.DecodeNumber(body)
		if err != nil {
			return fmt.Errorf("decode refilled: %w", err)
		}
		s.cache.inUse.refilled(n)
	case contract.FrameLevel2:
		var m contract.Level2
		if err := contract.DecodeJSON(body, &m); err != nil {
			return fmt.Errorf("decode level2: %w", err)
		}
		s.cache.told(&s.cp, &m)
	case contract.FrameScopes:
		var m contract.Scopes
		if err := contract.DecodeJSON(body, &m); err != nil {
			return fmt.Errorf("decode scopes: %w", err)
		}
		return s.cache.rescoped(&s.cp, &m)
	case contract.FrameResult:
		m, err := contract.DecodeResult(body)
		if err != nil {
			return fmt.Errorf("decode result: %w", err)
		}
		s.answer(m)
	default:
		return fmt.Errorf("unexpected frame of type %d", t)
	}
	return nil
}

// took notes what was applied, and if that is a trust, by when it is on disk.
func (s *session) took(at contract.Position, trust *unsaved) {
	s.mu.Lock()
	s.applied = at
	switch n := len(s.unsaved); {
	case trust == nil:
	case n >= maxUnsaved:
		s.unsaved[n-1].number = trust.number
	default:
		s.unsaved = append(s.unsaved, *trust)
	}
	s.mu.Unlock()
	s.acknowledge()
}

// acknowledge lets the writer say how far the filter is.
func (s *session) acknowledge() {
	select {
	case s.ackReady <- struct{}{}:
	default: // it will look anyway
	}
}

// ack is how far the filter is now.
func (s *session) ack() contract.Ack {
	done := s.cache.disk.fulfilled()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.unsaved) > 0 && s.unsaved[0].number <= done {
		s.unsaved = s.unsaved[1:]
	}
	a := contract.Ack{Applied: s.applied, Durable: s.applied}
	if len(s.unsaved) > 0 {
		a.Durable = s.unsaved[0].before
	}
	return a
}

// state says whether a lease was ever granted and whether the filter has left.
func (s *session) state() (granted, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted, s.left
}

// depart makes the writer say goodbye and end the session.
func (s *session) depart() { s.leaveOnce.Do(func() { close(s.leaving) }) }

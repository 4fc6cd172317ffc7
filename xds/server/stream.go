package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/meshgate/meshgate/xds/alarm"
	"github.com/meshgate/meshgate/xds/places"
	"github.com/meshgate/meshgate/xds/snapshot"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// stream is one open stream. Only its handler goroutine uses the session and starts writes. A
// reader goroutine parses requests and hands them over. Secrets are made on other goroutines.
type stream struct {
	srv     *Server
	ctx     context.Context
	wire    wire
	id      uint64
	node    string // guarded by Server.mu until the stream is admitted
	session *session
	sub     *snapshot.Subscription
	log     *slog.Logger
	bucket  bucket
	// refusals decides which refusals are logged.
	refusals refusalLog

	// claim and token are what the client presented. proved says that they belong together.
	// All are guarded by Server.mu.
	claim, token string
	proved       bool
	// owner is the owner of the stream's place, nil while it has none; guarded by Server.mu.
	owner    *places.Owner
	until    time.Time    // when the token expires, zero for never
	expiry   *alarm.Alarm // set to until
	verdicts chan verdict

	requests chan request
	admitted chan struct{} // closed on admission
	ended    chan error    // the error that ended the reader
	done     chan struct{}
	secrets  secretary
}

// serve is the handler of both variants. A panic ends only this stream.
func (s *Server) serve(ctx context.Context, w wire, vectors bool) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	st, err := s.open(ctx, w)
	if err != nil {
		cancel()
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error("stream_panicked", "node", st.node, "panic", p, "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "the stream failed")
		}
		cancel()
		close(st.done)
		s.leave(st)
	}()
	if err := st.known(); err != nil {
		return st.note(err)
	}
	if err := st.settle(); err != nil {
		return st.note(err)
	}
	s.work.Add(1) // the reader, which ends after this handler
	go st.read()
	return st.note(st.run(vectors))
}

func (s *Server) open(ctx context.Context, w wire) (*stream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, status.Error(codes.Unavailable, "the control plane is shutting down")
	}
	// Streams without a place yet have a limit of their own, so that they take no places.
	if len(s.streams) >= s.cfg.Limits.Places.All+s.cfg.Limits.Silent {
		return nil, status.Error(codes.ResourceExhausted, "too many streams")
	}
	s.last++
	st := &stream{
		srv: s, ctx: ctx, wire: w, id: s.last, log: s.cfg.Log,
		requests: make(chan request), admitted: make(chan struct{}), verdicts: make(chan verdict, 1), ended: make(chan error, 1), done: make(chan struct{}),
		expiry: alarm.New(s.cfg.Now), bucket: bucket{tokens: float64(s.cfg.Limits.Burst)},
	}
	st.secrets.init(ctx)
	s.streams[st] = struct{}{}
	s.hush(st)
	s.work.Add(1)
	return st, nil
}

// leave cleans up after the handler. The reader ends by itself: gRPC ends its receive when the
// handler has returned.
func (s *Server) leave(st *stream) {
	s.mu.Lock()
	delete(s.streams, st)
	if st.owner != nil {
		s.places.Give(*st.owner)
	}
	s.unjudged.Remove(st)
	s.heard(st)
	if i := slices.Index(s.byNode[st.node], st); i >= 0 {
		s.byNode[st.node] = slices.Delete(s.byNode[st.node], i, i+1)
		if len(s.byNode[st.node]) == 0 {
			delete(s.byNode, st.node)
		}
	}
	s.mu.Unlock()
	s.work.Done()
}

// read receives requests from the wire. Before the stream is admitted it reads only one, with
// a tighter limit.
func (st *stream) read() {
	defer st.srv.work.Done()
	limits := st.srv.cfg.Limits
	for first := true; ; first = false {
		bytes := 0
		if first {
			bytes = limits.FirstBytes
		}
		r, err := st.wire.recv(bytes, limits.Names)
		if err != nil {
			st.ended <- err
			return
		}
		select {
		case st.requests <- r:
		case <-st.done:
			return
		}
		select {
		case <-st.admitted:
		case <-st.done:
			return
		}
	}
}

// run admits the proxy by its first request and then serves it.
func (st *stream) run(vectors bool) (err error) {
	first, err := st.first()
	if err != nil {
		return err
	}
	release, err := st.admit(first)
	if err != nil {
		return err
	}
	defer release()
	close(st.admitted)
	st.expiry.Set(st.until)
	defer st.expiry.Set(time.Time{})
	// A maker of secrets that does not return holds up only this stream. The subscription is
	// closed first, so that nobody waits for the proxy.
	defer st.secrets.stop()
	st.sub = st.srv.cfg.Snapshots.Subscribe(st.node)
	defer st.sub.Close()
	st.session = newSession(st.node, vectors, st.srv.cfg.Limits, &st.srv.diffs)
	st.session.renew(st.sub.State())
	connected := st.event(nil)
	connected.Metadata, connected.Until = first.metadata, st.until
	st.srv.cfg.Observer.Connected(connected)
	defer func() {
		over := st.event(nil)
		over.Error, over.Renewed = farewell(err), errors.Is(err, errRenewed)
		st.srv.cfg.Observer.Disconnected(over)
	}()
	if err := st.take(first); err != nil {
		return err
	}
	if err := st.wire.admitted(); err != nil {
		return err
	}
	for {
		if err := st.pump(); err != nil {
			return err
		}
		if err := st.wait(); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// wait handles the next event.
func (st *stream) wait() error {
	select {
	case r := <-st.requests:
		return st.take(r)
	case err := <-st.ended:
		return err
	case <-st.sub.Wake():
		st.session.renew(st.sub.State())
		st.secrets.turn(st.session.state.Set)
		st.report()
		return nil
	case <-st.secrets.ready:
		st.collect()
		return nil
	case <-st.secrets.retry():
		st.secrets.due()
		return nil
	case v := <-st.verdicts:
		st.expiry.Set(v.until)
		return v.err
	case <-st.expiry.C():
		if !st.expiry.Due() {
			return nil
		}
		return turnAway(errExpired, errExpired)
	case <-st.srv.closing:
		return status.Error(codes.Unavailable, "the control plane is shutting down")
	case <-st.ctx.Done():
		return status.FromContextError(st.ctx.Err()).Err()
	}
}

// farewell returns what a proxy was told when its stream ended. It is empty if the proxy left
// or its connection broke.
func farewell(err error) string {
	if s, ok := status.FromError(err); ok && s.Code() != codes.OK && s.Code() != codes.Canceled {
		return s.Message()
	}
	return ""
}

func (st *stream) first() (request, error) {
	silent := time.NewTimer(st.srv.cfg.Limits.FirstRequest)
	defer silent.Stop()
	select {
	case r := <-st.requests:
		st.srv.mu.Lock()
		st.srv.heard(st)
		st.srv.mu.Unlock()
		return r, nil
	case v := <-st.verdicts:
		return request{}, v.err
	case err := <-st.ended:
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return request{}, errOr(err, codes.Canceled, "the stream ended before its first request")
	case <-silent.C:
		return request{}, status.Error(codes.DeadlineExceeded, "no request arrived")
	case <-st.srv.closing:
		return request{}, status.Error(codes.Unavailable, "the control plane is shutting down")
	case <-st.ctx.Done():
		return request{}, status.FromContextError(st.ctx.Err()).Err()
	}
}

func errOr(err error, code codes.Code, text string) error {
	if err != nil {
		return err
	}
	return status.Error(code, text)
}

// take applies one request.
func (st *stream) take(r request) error {
	if r.node != "" && r.node != st.node {
		return status.Error(codes.InvalidArgument, "the node id of a stream cannot change")
	}
	a, err := st.session.receive(r)
	// An answer is free, unless it refuses or asks for more. A proxy could otherwise have the
	// same content sent, and its refusals logged, for ever.
	costs, cost := a == nil || a.refused || a.asks, 1
	if a == nil || a.asks || !a.searches() {
		cost += st.session.toLookAt(r.url) / namesForOne
	} else {
		cost += st.session.toLookAtBeyond(r.url) / namesForOne
	}
	if costs && !st.bucket.take(time.Now(), st.srv.cfg.Limits, cost) {
		return status.Error(codes.ResourceExhausted, "too many requests")
	}
	if a != nil {
		st.settled(a)
	}
	return err
}

// settled reports an answer to the observer and the log.
func (st *stream) settled(a *answer) {
	e := st.event(a.response)
	if !a.refused {
		st.srv.cfg.Observer.Acknowledged(e)
		if len(st.session.types[a.response.typ].retried) > 0 {
			st.report()
		}
		return
	}
	e.Error = a.text
	if a.divided {
		st.log.Debug("configuration_is_sent_in_parts", "node", st.node, "type", e.Type, "resources", e.Resources, "revision", e.Revision, "error", a.text)
	} else if skipped, due := st.refusals.due(st.srv.cfg.Now(), a.text); due {
		st.log.Warn("configuration_refused", "node", st.node, "type", e.Type, "revision", e.Revision, "error", a.text, "skipped", skipped)
	}
	st.srv.cfg.Observer.Rejected(e)
	st.report()
}

// report passes on the current refusals. It runs before any confirmation, so that a waiting
// client never sees a refused revision as accepted.
func (st *stream) report() { st.sub.Reject(st.session.rejections()) }

// pump sends everything that is due and confirms what was answered.
func (st *stream) pump() error {
	if names := st.session.missing(); len(names) > 0 {
		st.request(names)
	}
	sent := false
	for {
		r := st.session.next()
		if r == nil {
			break
		}
		if err := st.transmit(r); err != nil {
			return err
		}
		sent = true
		st.srv.cfg.Observer.Sent(st.event(r))
	}
	down := st.session.turnedDown
	st.session.turnedDown = nil
	for _, a := range down {
		st.settled(a)
	}
	if sent {
		st.report()
	}
	if state, ok := st.session.confirmed(); ok {
		if st.sub.Confirm(state) && st.srv.cfg.Confirmed != nil {
			st.srv.cfg.Confirmed(st.node, state)
		}
	}
	return nil
}

// transmit writes one response. If the proxy does not read, only the writing goroutine blocks.
// The stream can still be ended, and the time is limited. A write that is left behind ends
// with the stream, when the handler returns.
func (st *stream) transmit(r *response) error {
	written := make(chan error, 1)
	st.srv.work.Add(1)
	go func() {
		defer st.srv.work.Done()
		written <- st.wire.send(r)
	}()
	slow := time.NewTimer(st.srv.cfg.Limits.SendTimeout)
	defer slow.Stop()
	for {
		select {
		case err := <-written:
			return err
		case v := <-st.verdicts:
			if st.expiry.Set(v.until); v.err != nil {
				return v.err
			}
		case <-st.expiry.C():
			if st.expiry.Due() {
				return turnAway(errExpired, errExpired)
			}
		case <-slow.C:
			return status.Error(codes.DeadlineExceeded, "the proxy does not read")
		case <-st.srv.closing:
			return status.Error(codes.Unavailable, "the control plane is shutting down")
		case <-st.ctx.Done():
			return status.FromContextError(st.ctx.Err()).Err()
		}
	}
}

func (st *stream) event(r *response) Event {
	e := Event{Node: st.node, Stream: st.id}
	if r != nil {
		e.Type, e.Revision, e.Resources = r.typ, r.state.Revision, len(r.add)+len(r.remove)
	}
	return e
}

package extauthz

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
)

// Server decides requests for Envoys. It is safe for concurrent use.
type Server struct {
	authv3.UnimplementedAuthorizationServer
	host   *host.Host
	source uint32
	chains *chains
	room   *room
	bare   sync.Once // a request without raw headers was logged

	decisions *decisions
}

// New returns a server with the token cache that open makes. The cache is opened at once, so
// that it is linked to the control plane before the first request. Close ends it.
func New(log *slog.Logger, open func(*host.Host) (host.Tokens, error)) (*Server, error) {
	h := host.New(log, func(h *host.Host, _ *contract.Settings, _ string) (host.Tokens, error) { return open(h) })
	source, _, err := h.AcquireSource(nil)
	if err != nil {
		return nil, fmt.Errorf("open the token cache: %w", err)
	}
	h.Begin()
	return &Server{host: h, source: source, chains: newChains(h), room: newRoom(), decisions: newDecisions()}, nil
}

// Close ends the token cache. No call may be in progress.
func (s *Server) Close() {
	s.chains.close()
	s.host.ReleaseSource(s.source)
	s.host.Wait()
}

// Check implements the authorization service. It refuses every request that it cannot
// decide, and never returns an error.
func (s *Server) Check(ctx context.Context, q *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	return s.decide(newMessage(ctx, s, q.GetAttributes())), nil
}

// decide answers a question.
func (s *Server) decide(m *message) *authv3.CheckResponse {
	if r := s.check(m); r != nil {
		return r
	}
	m = &message{server: s}
	return m.refuse(engine.Undecided, nil, nil)
}

// check is decide, but returns nil after a panic.
func (s *Server) check(m *message) *authv3.CheckResponse {
	defer s.host.Recovered("check")
	if m.http.GetHeaderMap() == nil {
		s.bare.Do(func() {
			s.host.Log().Error("requests are refused: Envoy does not send raw headers, set encode_raw_headers")
		})
		return m.refuse(engine.Undecided, nil, nil)
	}
	program := s.chains.get(m.extensions)
	request := &engine.Request{Path: m.first(":path"), HTTP2: m.http2()}
	buf := make([]byte, engine.BufferSize)
	v := s.host.Settle(s.source, program, request, m, buf)
	switch {
	case v.Action == engine.Issue:
		s.host.Hasten() // the issued token will be used next
		return m.pass(program, &v, buf)
	case v.Action == engine.Continue:
		return m.pass(program, &v, buf)
	case v.Refusal != nil:
		return m.refuse(v.Refusal, &v, buf)
	}
	return m.refuse(engine.Undecided, nil, nil)
}

// addressOf returns the address and port of a client, or "" if there is none.
func addressOf(a *corev3.Address) string {
	socket := a.GetSocketAddress()
	if socket == nil {
		return ""
	}
	return net.JoinHostPort(socket.GetAddress(), strconv.FormatUint(uint64(socket.GetPortValue()), 10))
}

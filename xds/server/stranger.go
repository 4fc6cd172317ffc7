package server

import (
	"strconv"

	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// What a stream makes the server remember of types that it does not serve.
const (
	maxStrangers  = 16
	maxStrangeURL = 256
)

// strange takes a request of a type that is not served here, as of a newer proxy or
// of one whose bootstrap asks for more. It is answered once, with nothing: without
// an answer the proxy would wait at its start.
func (s *session) strange(url resource.TypeURL) error {
	if _, known := s.strangers[url]; known {
		return nil
	}
	if len(s.strangers) >= maxStrangers || len(url) > maxStrangeURL {
		return status.Error(codes.InvalidArgument, "the stream asks for too many types that are not served here")
	}
	if s.strangers == nil {
		s.strangers = map[resource.TypeURL]struct{}{}
	}
	s.strangers[url] = struct{}{}
	s.unanswered = append(s.unanswered, url)
	return nil
}

// stranger returns the next empty answer, nil if none is due. Nobody waits for what
// the proxy says of it.
func (s *session) stranger() *response {
	if len(s.unanswered) == 0 {
		return nil
	}
	url := s.unanswered[0]
	s.unanswered = s.unanswered[1:]
	s.seq++
	return &response{typ: url, seq: s.seq, nonce: strconv.FormatUint(s.seq, 10), state: s.state}
}

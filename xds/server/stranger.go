package server

import (
	"slices"
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

// runtimeLayer is the type of which an absence is told, see strange.
const runtimeLayer resource.TypeURL = "type.googleapis.com/envoy.service.runtime.v3.Runtime"

// strange takes a request of a type that is not served here, as of a newer proxy or
// of one whose bootstrap asks for more. It is answered once, with nothing, and what
// the proxy waits for it gives up after its initial_fetch_timeout. Layers of runtime
// values are said to be absent, so that an Envoy that names some starts at once; the
// state-of-the-world variant has no word for that. Not so other types: an Envoy that
// hears that a filter's configuration is absent (envoy.config.core.v3.
// TypedExtensionConfig) stops its clock and keeps the listener waiting for ever.
func (s *session) strange(r request) error {
	_, known := s.strangers[r.url]
	if !known && (len(s.strangers) >= maxStrangers || len(r.url) > maxStrangeURL) {
		return status.Error(codes.InvalidArgument, "the stream asks for too many types that are not served here")
	}
	if len(r.subscribe) > s.limits.Names {
		return status.Error(codes.ResourceExhausted, "the stream subscribes to too many names")
	}
	if s.strangers == nil {
		s.strangers = map[resource.TypeURL]struct{}{}
	}
	s.strangers[r.url] = struct{}{}
	absent := &response{typ: r.url}
	if !s.sotw && r.url == runtimeLayer {
		absent.remove = slices.DeleteFunc(slices.Clone(r.subscribe), func(name string) bool { return name == "*" })
	}
	if !known || len(absent.remove) > 0 {
		s.unanswered = append(s.unanswered, absent)
	}
	return nil
}

// stranger returns the next such answer, nil if none is due. Nobody waits for what
// the proxy says of it.
func (s *session) stranger() *response {
	if len(s.unanswered) == 0 {
		return nil
	}
	r := s.unanswered[0]
	s.unanswered = s.unanswered[1:]
	s.seq++
	r.seq, r.nonce, r.state = s.seq, strconv.FormatUint(s.seq, 10), s.state
	return r
}

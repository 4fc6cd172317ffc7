package server

import (
	"slices"
	"strconv"

	"github.com/meshgate/meshgate/xds/resource"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// These constants limit what a stream makes the server remember of types that it does not
// serve.
const (
	maxStrangers  = 16
	maxStrangeURL = 256
)

// runtimeLayer is the type whose resources are reported as absent, see strange.
const runtimeLayer resource.TypeURL = "type.googleapis.com/envoy.service.runtime.v3.Runtime"

// strange handles a request for a type that is not served here, from a newer proxy or from one
// whose bootstrap asks for more. It is answered once, with nothing. The proxy gives up waiting
// for the resources after its initial_fetch_timeout. Layers of runtime values are reported as
// absent, so that an Envoy that names some starts at once; the state-of-the-world variant
// cannot express that. Other types are not reported as absent: if an Envoy hears that the
// configuration of a filter is absent (envoy.config.core.v3.TypedExtensionConfig), it stops
// its timer and keeps the listener waiting for ever.
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

// stranger returns the next answer for a type that is not served, or nil if none is due. The
// reply of the proxy to it is ignored.
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

package extauthz

import (
	"context"
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/metadata"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/filter/engine"
	"github.com/meshgate/meshgate/filter/host"
	"github.com/meshgate/meshgate/filter/tokencache"
)

// partialHeader says, with the value true, that Envoy has sent only a part of the body.
const partialHeader = "x-envoy-auth-partial-body"

// message is a request as Envoy shows it. It implements [engine.Reader].
type message struct {
	server *Server
	ctx    context.Context // context of the call; Resolve stops waiting when it ends
	http   *authv3.AttributeContext_HttpRequest
	// tls says that the client's connection is encrypted.
	tls bool
	// headers are the headers of the request by lower-case name, including pseudo headers.
	headers map[string][][]byte
	source  string // address of the client, with its port
	// extensions say what applies to the route.
	extensions map[string]string
	route      *corev3.Metadata // of the route, with route_metadata_context_namespaces
}

func newMessage(ctx context.Context, s *Server, attributes *authv3.AttributeContext) *message {
	m := &message{
		server: s, ctx: ctx, http: attributes.GetRequest().GetHttp(), headers: map[string][][]byte{}, tls: encrypted(ctx, attributes),
	}
	for _, h := range m.http.GetHeaderMap().GetHeaders() {
		name := strings.ToLower(h.GetKey())
		m.headers[name] = append(m.headers[name], valueOf(h))
	}
	m.route, m.extensions = attributes.GetRouteMetadataContext(), attributes.GetContextExtensions()
	m.source = m.client(addressOf(attributes.GetSource().GetAddress()))
	return m
}

// client returns the address of the client with its port: that of the peer, unless the listener
// has found another one. Of that one there is no port.
func (m *message) client(peer string) string {
	told, _ := metadata.FromIncomingContext(m.ctx)
	header := told.Get(contract.AuthzClient)
	if len(header) != 1 {
		return peer
	}
	seen, err := netip.ParseAddr(string(m.first(header[0])))
	if at, wrong := netip.ParseAddrPort(peer); err != nil || wrong == nil && at.Addr().Unmap() == seen.Unmap() {
		return peer
	}
	return netip.AddrPortFrom(seen, 0).String()
}

// encrypted reports whether the client's connection is encrypted. Envoy sends a session for
// every connection, but a server name only for encrypted ones whose client has sent one, so a
// listener that says how its clients are connected is believed before.
func encrypted(ctx context.Context, attributes *authv3.AttributeContext) bool {
	told, _ := metadata.FromIncomingContext(ctx)
	if scheme := told.Get(contract.AuthzScheme); len(scheme) == 1 {
		return scheme[0] == "https"
	}
	return attributes.GetTlsSession().GetSni() != "" // with include_tls_session
}

// valueOf returns the value of a header, never nil. Envoy sends it raw.
func valueOf(h *corev3.HeaderValue) []byte {
	if raw := h.GetRawValue(); raw != nil {
		return raw
	}
	return []byte(h.GetValue())
}

// first returns the first value of a header, or nil if it was not sent.
func (m *message) first(name string) []byte {
	if values := m.headers[name]; len(values) > 0 {
		return values[0]
	}
	return nil
}

// Headers implements [engine.Reader].
func (m *message) Headers(names []string) (values [][]byte, repeated uint32) {
	values = make([][]byte, len(names))
	for i, n := range names {
		values[i] = m.first(n)
		if len(m.headers[n]) > 1 {
			repeated |= 1 << i
		}
	}
	return values, repeated
}

// Body implements [engine.Reader]. A chain that reads bodies is refused if the route sends
// none, so an empty body here means that the client has sent none. Envoy calls
// a body of which it holds exactly max_request_bytes whole, ended or not, so a body of that length
// counts as cut. With a limit of a byte beyond [contract.MaxBody] the engine refuses that length.
func (m *message) Body() (engine.BodyState, []byte) {
	if string(m.first(partialHeader)) == "true" {
		return engine.BodyTooLarge, nil
	}
	body := m.http.GetRawBody()
	if len(body) == 0 {
		body = []byte(m.http.GetBody())
	}
	if len(body) == contract.AuthzMaxBody {
		return engine.BodyTooLarge, nil
	}
	return engine.BodyRead, body
}

// Resolve implements [engine.Reader].
func (m *message) Resolve(hash contract.Hash, plugin string) engine.Found {
	return m.server.host.Ask(m.ctx, m.server.source, m.asker(), hash, plugin)
}

// asker is the client on whose behalf Envoy asks.
func (m *message) asker() tokencache.Asker { return host.AskerOf([]byte(m.source)) }

// scheme returns the scheme of the client's connection, no matter what the request claims.
func (m *message) scheme() string {
	if m.tls {
		return "https"
	}
	return "http"
}

// http2 reports whether the client speaks HTTP/2 or later.
func (m *message) http2() bool {
	p := m.http.GetProtocol()
	return strings.HasPrefix(p, "HTTP/2") || strings.HasPrefix(p, "HTTP/3")
}

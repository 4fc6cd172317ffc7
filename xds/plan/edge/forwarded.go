package edge

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/meshgate/meshgate/xds/plan"
)

// These headers tell upstreams where a request comes from. The connection manager adds the
// peer to X-Forwarded-For and writes X-Forwarded-Proto and -Port, the route writes the prefix
// that it strips, and the filter writes the others and removes the claims of clients that are
// not trusted, or Envoy does it for the filter ([cleaned]). See
// docs/adr/0026-headers-are-cleaned-by-the-filter.md.
const (
	headerForwardedFor   = "x-forwarded-for"
	headerForwardedHost  = "x-forwarded-host"
	headerForwardedPath  = "x-forwarded-path"
	headerForwardedProto = "x-forwarded-proto"
	// headerRealIP is the client's address alone, whoever the client is.
	headerRealIP = "x-real-ip"
	// headerForwarded contains all forwarding information in one header (RFC 7239), for
	// upstreams that read it.
	headerForwarded = "forwarded"
	// headerPeer is what Envoy says of the address of the client, before it selects a route.
	headerPeer = "x-envoy-external-address"
)

// forwarded returns the headers that every route sets. No client can have other headers
// dropped by naming them in Connection.
func forwarded() []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{plan.Upgrade()}
}

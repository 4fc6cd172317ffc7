package edge

import (
	"strings"

	"github.com/meshgate/meshgate/filter/contract"
	"github.com/meshgate/meshgate/xds/accesslog"
)

// Params is what a plan reads about a proxy, besides the view. Params are comparable: proxies
// with equal parameters get equal sets.
type Params struct {
	// Address is the IP address that both listeners bind. Empty means all IPv4 addresses.
	Address string
	// HTTPPort and HTTPSPort are the ports of the listeners. 0 omits the listener.
	HTTPPort, HTTPSPort uint32
	// OAuth is the control plane's data-plane server. An empty Host omits its cluster and the
	// route to it.
	OAuth Endpoint
	// RootsFile is a PEM bundle on the proxy's machine with the authorities for upstream
	// servers. Without it, an upstream whose certificate must be verified is refused.
	RootsFile string
	// Trusted are the networks of clients whose X-Forwarded-* headers count, as CIDRs in
	// order, separated by commas. Empty means that no client is trusted.
	Trusted string
	// ForwardDotSegments forwards paths in which some server could read a segment "..",
	// instead of refusing them with 400.
	ForwardDotSegments bool
	// Filter says how the proxy has the filter.
	Filter contract.Mode
	// Tracing says where to send spans.
	Tracing Tracing
	// Log describes the access log.
	Log accesslog.Settings
}

// Endpoint is a TLS server.
type Endpoint struct {
	// Host is an IP address or a DNS name.
	Host string
	Port uint32
	// ServerName is the name of the server in TLS: an IP address or a DNS name. Empty means
	// Host.
	ServerName string
}

// These are the names of secrets that a gateway subscribes to.
const (
	// SecretServer is the certificate of the HTTPS listener.
	SecretServer = "gateway:certificate"
	// SecretIdentity is the client certificate that the proxy presents to the OAuth server.
	SecretIdentity = "gateway:identity"
	// SecretCA validates the control plane.
	SecretCA = "controlplane:ca"
)

// prefixCertificate begins the names of secrets with certificates of users.
const prefixCertificate = SecretServer + ":"

// SecretCertificate returns the name of the secret with a certificate, or with its alternative
// pair.
func SecretCertificate(id string, alternative bool) string {
	if alternative {
		return prefixCertificate + id + ":alt"
	}
	return prefixCertificate + id
}

// ParseCertificate splits the name of a secret with a certificate. ok is false for any other
// name.
func ParseCertificate(name string) (id string, alternative, ok bool) {
	id, ok = strings.CutPrefix(name, prefixCertificate)
	id, alternative = strings.CutSuffix(id, ":alt")
	return id, alternative, ok && id != ""
}

// tableName begins the names of route tables ([adapter.tableName]). A table and the listeners
// belong together: what one leaves to the filter the other must not rely on. A proxy whose
// filter is too old for these listeners keeps its own, and so must keep its table, which has
// another name.
const tableName = "gateway:routes"

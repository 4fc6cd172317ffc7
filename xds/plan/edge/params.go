package edge

import (
	"strings"

	"github.com/meshgate/meshgate/xds/accesslog"
)

// Params are what a proxy brings along besides the view. They are comparable:
// proxies with equal parameters get equal sets.
type Params struct {
	// Address is the IP address that both listeners bind; empty means all IPv4
	// addresses.
	Address string
	// HTTPPort and HTTPSPort are the ports of the listeners; 0 leaves one out.
	HTTPPort, HTTPSPort uint32
	// OAuth is the control plane's data-plane server; a zero Host leaves the
	// cluster and the route to it out.
	OAuth Endpoint
	// RootsFile is a PEM bundle on the proxy's machine that signs upstream
	// servers. Without it an upstream whose certificate must be verified is
	// refused.
	RootsFile string
	// Trusted are the networks of clients whose X-Forwarded-* headers count, as
	// CIDRs in order, with commas between; empty trusts nobody.
	Trusted string
	// ForwardDotSegments passes paths on in which some server could read a segment
	// "..", instead of refusing them with 400.
	ForwardDotSegments bool
	// Tracing says where spans go.
	Tracing Tracing
	// Log is the access log.
	Log accesslog.Settings
}

// Endpoint is a TLS server.
type Endpoint struct {
	// Host is an IP address or a DNS name.
	Host string
	Port uint32
	// ServerName is the name that the server is asked for in TLS: an IP address or a
	// DNS name. Empty means Host.
	ServerName string
}

// Names of secrets that a gateway subscribes to.
const (
	// SecretServer is the certificate of the HTTPS listener.
	SecretServer = "gateway:certificate"
	// SecretIdentity is the client certificate of the proxy, shown to the OAuth
	// server.
	SecretIdentity = "gateway:identity"
	// SecretCA validates the control plane.
	SecretCA = "controlplane:ca"
)

// prefixCertificate begins the names of secrets with certificates of users.
const prefixCertificate = SecretServer + ":"

// SecretCertificate is the name of the secret with a certificate, or with its
// alternative pair.
func SecretCertificate(id string, alternative bool) string {
	if alternative {
		return prefixCertificate + id + ":alt"
	}
	return prefixCertificate + id
}

// ParseCertificate splits the name of a secret with a certificate; ok is false
// for any other.
func ParseCertificate(name string) (id string, alternative, ok bool) {
	id, ok = strings.CutPrefix(name, prefixCertificate)
	id, alternative = strings.CutSuffix(id, ":alt")
	return id, alternative, ok && id != ""
}

// TableName is the name of the route table that both listeners subscribe to.
const TableName = "gateway"

package contract

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Mode says how a proxy has the filter. The zero value is [ModeModule].
type Mode string

// Modes, by the adapters below filter/.
const (
	// ModeModule: the dynamic module, in the process of a stock Envoy.
	ModeModule Mode = ""
	// ModeExtAuthz: an authorization service, which Envoy's ext_authz filter asks.
	ModeExtAuthz Mode = "extauthz"
	// ModeGolang: the library for the filter for Go of Envoy's contrib build.
	ModeGolang Mode = "golang"
)

// moduleName is what people call ModeModule.
const moduleName = "module"

// ModeNames lists the names of modes, the default first.
func ModeNames() []string { return []string{moduleName, string(ModeExtAuthz), string(ModeGolang)} }

// ParseMode returns the mode with a name.
func ParseMode(name string) (Mode, error) {
	if name == moduleName {
		return ModeModule, nil
	}
	if m := Mode(name); name != "" && slices.Contains(ModeNames(), name) {
		return m, nil
	}
	return "", fmt.Errorf("must be one of %s", strings.Join(ModeNames(), ", "))
}

// Known reports whether this program knows the mode.
func (m Mode) Known() bool { return m == ModeModule || m == ModeExtAuthz || m == ModeGolang }

// String returns the name of the mode.
func (m Mode) String() string {
	if m == ModeModule {
		return moduleName
	}
	return string(m)
}

var errHidesInBodies = errors.New("it hides credentials in bodies, which an authorization service cannot do: switch hide_credentials off, or key_in_body and access_token_in_body, or use another filter.mode")

// Honours returns nil if the adapter of the mode can carry out a chain. An adapter refuses
// every request of a chain that it cannot carry out.
func (m Mode) Honours(c *Chain) error {
	if m != ModeExtAuthz {
		return nil
	}
	for _, p := range c.Plugins {
		if inBody, hides := p.body(); inBody && hides {
			return fmt.Errorf("plugin %s: %w", p.ID, errHidesInBodies)
		}
	}
	return nil
}

// ReadsBodies reports whether a plugin of the chain looks for credentials in bodies.
func (c *Chain) ReadsBodies() bool {
	return slices.ContainsFunc(c.Plugins, func(p Plugin) bool {
		inBody, _ := p.body()
		return inBody
	})
}

// body reports whether a plugin looks for credentials in bodies, and whether it hides those
// that it finds.
func (p *Plugin) body() (reads, hides bool) {
	switch {
	case p.OAuth2 != nil:
		return p.OAuth2.InBody, p.OAuth2.HideCredentials
	case p.KeyAuth != nil:
		return p.KeyAuth.InBody, p.KeyAuth.HideCredentials
	}
	return false, false
}

// Names of Envoy's filters that carry the chain of a route to the filter.
const (
	// ExtAuthzFilter is Envoy's filter that asks an authorization service.
	ExtAuthzFilter = "envoy.filters.http.ext_authz"
	// GolangFilter is Envoy's filter that runs a library written in Go.
	GolangFilter = "envoy.filters.http.golang"
)

// AuthzCluster is the cluster that leads to the authorization service. The agent writes it
// into the bootstrap, because only the machine knows where its service is. No service can
// have this name.
const AuthzCluster = "@authz"

// Context extensions of a route, by which Envoy tells the authorization service what applies
// to a request.
const (
	// AuthzChain is the encoded chain ([Chain]).
	AuthzChain = "meshgate.chain"
	// AuthzBody is [AuthzTrue] if Envoy sends bodies.
	AuthzBody = "meshgate.body"
	// AuthzIssue is [AuthzTrue] if the virtual host has a route to the OAuth server for
	// requests with [HeaderOAuthPlugin], and Envoy chooses a route again after the check. The
	// service cannot see this by itself.
	AuthzIssue = "meshgate.issue"
	AuthzTrue  = "true"
)

// MaxBody is the largest body, in bytes, that is searched for credentials. A longer body
// counts as having none.
const MaxBody = 1 << 20

// AuthzMaxBody is max_request_bytes of Envoy's with_request_body on gateways that meshgate
// configures: how much of a body Envoy holds before it asks an authorization service, whether
// the request has a credential elsewhere or not. Nothing bounds what it holds of all bodies
// together, so it is a sixteenth of what is searched elsewhere ([MaxBody]). A longer body counts
// as having no credential, and passes on as it comes if there is one in a header. The byte
// beyond 64 KiB tells a body that is too long from one that just fits.
const AuthzMaxBody = 64<<10 + 1

// AuthzScheme is metadata of the calls to the authorization service, http or https: how the
// clients of the listener are connected. Without it the service goes by the server name that
// a client has sent, and a client without one counts as not encrypted.
const AuthzScheme = "meshgate-scheme"

// AuthzClient is metadata of the calls to the authorization service: the name of the header in
// which the listener has written the address of the client, whoever has sent one. Without it
// the client is the peer of the connection, which behind a load balancer is that one.
const AuthzClient = "meshgate-client-header"

// GolangLibrary is the file of the library for Envoy's filter for Go.
const GolangLibrary = "lib" + FilterName + "-golang.so"

// ModuleLibrary is the file of the dynamic module.
const ModuleLibrary = "lib" + FilterName + ".so"

// Members of the configuration of Envoy's filter for Go.
const (
	// GolangListener is the filter's part of a listener: a [FilterConfig].
	GolangListener = "listener"
	// GolangChain is the [Chain] of a route.
	GolangChain = "chain"
	// GolangDisabled is true on a route without a chain.
	GolangDisabled = "disabled"
)

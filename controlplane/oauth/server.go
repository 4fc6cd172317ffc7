package oauth

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/filter/contract"
)

// Writer is the one write path.
type Writer interface {
	Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error)
}

// Options of a Server.
type Options struct {
	Store  store.Store
	Writer Writer
	// Grants that exist, see [Grants].
	Grants []Grant
	// TrustedIPs may speak for the scheme of their clients, where a plugin has
	// accept_http_if_already_terminated.
	TrustedIPs []netip.Prefix
	// Minted, if set, hears of each new token. It must not block.
	Minted func(scope string, token contract.Hash)
	Log    *slog.Logger
	// Now is the clock.
	Now func() time.Time
}

// Server answers the issuing endpoints of all gateways. It is an http.Handler
// for connections on which the caller has verified, but need not have demanded,
// client certificates.
type Server struct {
	Options
	grants map[string]Grant
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{Options: o, grants: map[string]Grant{}}
	for _, g := range o.Grants {
		s.grants[g.Type()] = g
	}
	return s
}

// gatewayScope returns the control plane that a gateway's client certificate
// speaks for: spiffe://meshgate/cp/<control plane>/<instance>.
func gatewayScope(r *http.Request) (string, bool) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return "", false
	}
	for _, u := range r.TLS.PeerCertificates[0].URIs {
		part := strings.Split(u.Path, "/")
		if u.Scheme == "spiffe" && u.Host == "meshgate" && len(part) == 4 && part[1] == "cp" && part[2] != "" {
			return part[2], true
		}
	}
	return "", false
}

// ServeHTTP answers one request that a gateway handed over.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	scope, ok := gatewayScope(r)
	plugin := r.Header.Get(contract.HeaderOAuthPlugin)
	if !ok || plugin == "" {
		_ = writeReply(w, http.StatusForbidden, map[string]string{"message": "only gateways may call this endpoint"})
		return
	}
	err := s.serve(w, r, scope, plugin)
	switch {
	case err == nil:
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Unavailable):
		s.Log.WarnContext(r.Context(), "token request could not be served", "plugin", plugin, "error", err)
		_ = writeReply(w, http.StatusServiceUnavailable, map[string]string{"message": "try again later"})
	default:
		s.Log.ErrorContext(r.Context(), "token request failed", "plugin", plugin, "error", err)
		_ = writeReply(w, http.StatusInternalServerError, map[string]string{"message": "An unexpected error occurred"})
	}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, scope, plugin string) error {
	t := &Request{Plugin: plugin, Service: r.Header.Get(contract.HeaderOAuthService)}
	if err := s.Store.View(r.Context(), func(tx store.Reader) (err error) {
		t.Config, err = pluginConfig(tx, scope, plugin)
		return err
	}); err != nil {
		return err
	}
	endpoint := "token"
	if strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/oauth2/authorize") {
		endpoint = "authorization"
	}
	if r.Method != http.MethodPost {
		return refuseMethod(w, r.Method, endpoint, t.Config.Realm)
	}
	var err error
	if t.params, err = readParams(w, r); err != nil {
		return refuse(w, bad("invalid_request", "The request body is too large or cannot be read"), nil)
	}
	state := t.params["state"]
	if e := s.checkHTTPS(t.Config, r); e != nil {
		return refuse(w, e, state)
	}
	if endpoint != "token" {
		return refuse(w, errResponseType, state)
	}
	return s.token(w, r, scope, t, state)
}

// pluginConfig reads the configuration of an oauth2 plugin instance.
func pluginConfig(r store.Reader, scope, id string) (*gateway.OAuth2Config, error) {
	res, err := r.Get(gateway.Plugins, scope, id)
	if err != nil {
		return nil, err
	}
	spec := res.Spec.(*gateway.Plugin)
	if spec.Name != gateway.PluginOAuth2 || !spec.Enabled {
		return nil, fault.New(fault.NotFound, "plugin %s is not an enabled oauth2 plugin", id)
	}
	var cfg gateway.OAuth2Config
	if err := json.Unmarshal(spec.Config, &cfg); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "decode configuration of plugin %s", id)
	}
	return &cfg, nil
}

// checkHTTPS demands that the client's connection was encrypted.
// Source: RFC 6749 section 3.2.
func (s *Server) checkHTTPS(cfg *gateway.OAuth2Config, r *http.Request) *Error {
	if r.Header.Get(contract.HeaderOAuthScheme) == "https" {
		return nil
	}
	if !cfg.AcceptHTTPIfAlreadyTerminated || !s.trusted(r.Header.Get(contract.HeaderOAuthClient)) {
		return errHTTPS
	}
	protos := r.Header.Values(contract.HeaderOAuthProto)
	switch {
	case len(protos) == 0:
		return errHTTPS
	case len(protos) > 1 || strings.Contains(protos[0], ","):
		return errManyProtos
	case strings.EqualFold(protos[0], "https"):
		return nil
	}
	return errHTTPS
}

func (s *Server) trusted(client string) bool {
	addr, err := netip.ParseAddr(client)
	if err != nil {
		return false
	}
	for _, p := range s.TrustedIPs {
		if p.Contains(addr.Unmap()) {
			return true
		}
	}
	return false
}

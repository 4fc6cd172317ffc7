package assembly

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/meshgate/meshgate/controlplane/access/oidc"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// callers says who makes a request.
type callers struct {
	// local makes callers on this machine administrators.
	local bool
	// user returns the user whose token it is. Its error is a Denied fault for a token that
	// does not count.
	user func(ctx context.Context, token string) (model.Actor, error)
	// authority says whether an authority of client certificates is trusted now.
	authority func(*x509.Certificate) bool
}

// onThisMachine reports whether a request makes its caller an administrator without a token.
func (c callers) onThisMachine(r *http.Request) bool { return c.local && httpkit.Local(r) }

// Identify returns the caller of a request: an administrator on this machine, whatever token is
// shown; else the user of the token; else the one of the client certificate, unless a page of
// another site made the request; else nobody.
//
// Whoever shows a token that does not count is not taken for the user of a certificate beside it, and
// of several tokens none counts: whoever checked the request before may have read another one.
func (c callers) Identify(r *http.Request) (model.Actor, error) {
	if c.onThisMachine(r) {
		return model.Administrator(), nil
	}
	if token, ok := httpkit.TokenOf(r); ok {
		return c.user(r.Context(), token)
	}
	shown := len(r.Header.Values("Authorization"))
	if shown > 1 {
		return model.Actor{}, fault.New(fault.Denied, "the request has more than one Authorization header")
	}
	who, ok, err := httpkit.CertifiedUser(r, time.Now(), c.authority)
	switch {
	case err != nil:
		return who, err
	case ok && shown > 0:
		return model.Actor{}, fault.New(fault.Denied, "the Authorization header beside the client certificate has no bearer token")
	case ok && httpkit.SameSite(r):
		return who, nil
	}
	return model.Anonymous(), nil
}

// callers are those of the mesh API.
func (cp *ControlPlane) callers() callers {
	return callers{local: cp.cfg.Access.LocalhostIsAdmin, user: cp.userOf, authority: cp.trustsClients}
}

// trusting returns the ports at which callers on this machine are administrators without a token.
func (cp *ControlPlane) trusting() (ports []uint16) {
	if !cp.cfg.Access.LocalhostIsAdmin {
		return nil
	}
	at := []net.Listener{cp.ports.mesh, cp.ports.meshTLS}
	if cp.AdminToken == "" {
		at = append(at, cp.ports.admin, cp.ports.adminTLS)
	}
	for _, ln := range at {
		if ln != nil {
			ports = append(ports, uint16(port(ln))) //nolint:gosec // a port
		}
	}
	return ports
}

// trustsClients reports whether an authority is one of those in access.clientCAFile now.
func (cp *ControlPlane) trustsClients(c *x509.Certificate) bool {
	if cp.clientCAs == nil {
		return false
	}
	now, err := cp.clientCAs.get()
	return err == nil && now.has(c)
}

// userOf returns the user of a token: of a personal access token, of another one of this control
// plane, or of one of the issuer that is trusted.
func (cp *ControlPlane) userOf(ctx context.Context, token string) (model.Actor, error) {
	if cloud.IsToken(token) {
		return cp.tokenHolder(ctx, token)
	}
	if cp.issuer != nil && cp.issuer.Issued(token) {
		name, groups, err := cp.issuer.Check(ctx, token)
		if err != nil {
			httpkit.EntryOf(ctx).IssuerAway = fault.Is(err, fault.Unavailable) && ctx.Err() == nil // the caller may have left
			return model.Actor{}, err
		}
		who, ok := httpkit.ForeignUser(name, groups)
		if !ok {
			return who, fault.New(fault.Denied, "the token names a user that its issuer cannot name")
		}
		return who, nil
	}
	c, err := cp.people.CheckUser(ctx, token)
	if err != nil {
		return model.Actor{}, err
	}
	return model.User(c.Name, c.Groups...), nil
}

// identifyAdmin returns the caller of the administration API of gateways: the holder of its
// token, or a caller as the mesh API knows it. As soon as there is such a token, callers on
// this machine must show one, too. A wrong administration token in its own header is 401 whatever is
// shown beside it.
func (cp *ControlPlane) identifyAdmin(r *http.Request) (model.Actor, error) {
	sent := httpkit.SentToken(r)
	if cp.AdminToken != "" && sent {
		if who, err := httpkit.Bearer(cp.AdminToken, gatewayapi.TokenHolder)(r); err == nil {
			return who, nil
		}
	}
	c := cp.callers()
	c.local = c.local && cp.AdminToken == ""
	if len(r.Header.Values(httpkit.HeaderAdminToken)) > 0 && !c.onThisMachine(r) {
		return model.Actor{}, httpkit.Unauthenticated()
	}
	who, err := c.Identify(r)
	if fault.Is(err, fault.Denied) || err == nil && sent && who.Name == model.UserAnonymous {
		return who, httpkit.Unauthenticated()
	}
	return who, err
}

// openIssuer prepares the trusted issuer, if there is one. It asks it for nothing yet.
func (cp *ControlPlane) openIssuer() (err error) {
	o := &cp.cfg.Access.OIDC
	if o.Issuer == "" {
		return nil
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CAFile != "" {
		var text []byte
		if text, err = os.ReadFile(o.CAFile); err != nil {
			return fmt.Errorf("access.oidc.caFile: %w", err)
		}
		pool, err := parsePool([][]byte{text})
		if err != nil {
			return fmt.Errorf("access.oidc.caFile %w", err)
		}
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
	}
	cp.closers.add(func(context.Context) { transport.CloseIdleConnections() })
	cp.issuer, err = oidc.New(oidc.Options{
		Issuer: o.Issuer, Audience: o.Audience, UserClaim: o.UserClaim, GroupsClaim: o.GroupsClaim, Client: &http.Client{Transport: transport}, Now: time.Now, Log: cp.Log,
	})
	if err == nil {
		cp.closers.add(func(context.Context) { cp.issuer.End() })
	}
	return err
}

// publicKeys reads the keys of tokens that were issued elsewhere.
func (cp *ControlPlane) publicKeys() (keys []identity.PublicKey, err error) {
	for i, k := range cp.cfg.Tokens.PublicKeys {
		var key *rsa.PublicKey
		text, err := os.ReadFile(k.KeyFile)
		if err == nil {
			key, err = identity.ParsePublicKey(text)
		}
		if err != nil {
			return nil, fmt.Errorf("tokens.publicKeys[%d].keyFile %s: %w", i, k.KeyFile, err)
		}
		keys = append(keys, identity.PublicKey{For: identity.TokenKind(k.For), Mesh: k.Mesh, ID: k.KeyID, Key: key, Users: k.Users, Groups: k.Groups})
	}
	if err := identity.CheckPublicKeys(keys); err != nil {
		return nil, fmt.Errorf("tokens.publicKeys: %w", err)
	}
	return keys, nil
}

// openPeople makes sure that users and zones can get tokens, and that there is a first one.
func (cp *ControlPlane) openPeople(ctx context.Context) error {
	gate := cp.gate.As(model.System("lifecycle"))
	err := cp.people.Ensure(ctx, gate)
	if err == nil && cp.cfg.Access.BootstrapAdminToken {
		err = cp.people.EnsureAdmin(ctx, gate, false)
	}
	if fault.CodeOf(err) == fault.Internal && cp.holds(ctx, mesh.GlobalSecrets) {
		// There are some that cannot be read. They keep nobody else from starting.
		cp.Log.Error("the keys of user and zone tokens cannot be looked after", "error", err)
		return nil
	}
	return err
}

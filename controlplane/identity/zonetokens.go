package identity

import (
	"context"
	"slices"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// What a zone token permits.
const (
	ScopeIngress = "ingress"
	ScopeEgress  = "egress"
)

// ZoneTokenRequest asks for the token of the proxies between zones.
type ZoneTokenRequest struct {
	Zone string `json:"zone"`
	// Scope lists what the token permits. It must be given, and may be empty.
	Scope []string `json:"scope"`
	// ValidFor is a duration such as 720h; ten years if empty.
	ValidFor string `json:"validFor"`
}

// Subject is what the token is of.
func (r ZoneTokenRequest) Subject() (model.Key, model.Scoping) {
	return model.Key{Kind: "zone_token", Name: r.Zone}, model.Global
}

// ZoneIngressTokenRequest asks for the older token of the ingress of a zone.
type ZoneIngressTokenRequest struct {
	Zone string `json:"zone"`
	// ValidFor is a duration such as 720h; ten years if empty.
	ValidFor string `json:"validFor"`
}

// Subject is what the token is of.
func (r ZoneIngressTokenRequest) Subject() (model.Key, model.Scoping) {
	return model.Key{Kind: "zone_ingress_token", Name: r.Zone}, model.Global
}

// ZoneClaims are the claims of a zone token.
type ZoneClaims struct {
	jwt.RegisteredClaims
	Zone  string   `json:"Zone"`
	Scope []string `json:"Scope"`
}

// ZoneIngressClaims are the claims of the token of an ingress.
type ZoneIngressClaims struct {
	jwt.RegisteredClaims
	Zone string `json:"Zone"`
}

// from implements proof.
func (*ZoneClaims) from() (series, error) { return ZoneToken.series(), nil }

// registered implements proof.
func (c *ZoneClaims) registered() *jwt.RegisteredClaims { return &c.RegisteredClaims }

// proven implements proof. The token of a zone proves no node.
func (*ZoneClaims) proven(err error) error { return err }

// from implements proof.
func (*ZoneIngressClaims) from() (series, error) { return ZoneIngressToken.series(), nil }

// registered implements proof.
func (c *ZoneIngressClaims) registered() *jwt.RegisteredClaims { return &c.RegisteredClaims }

// proven implements proof.
func (*ZoneIngressClaims) proven(err error) error { return err }

// claims returns the claims of the requested token.
func (r *ZoneTokenRequest) claims(now time.Time) (jwt.Claims, error) {
	life, vs := lifeOf(r.ValidFor)
	if r.Scope == nil {
		vs = append([]fault.Violation{{Path: "scope", Message: "cannot be empty"}}, vs...)
	}
	if err := fault.Violated(vs); err != nil {
		return nil, err
	}
	return ZoneClaims{RegisteredClaims: lasting(now, life), Zone: r.Zone, Scope: r.Scope}, nil
}

// long names the member of the request that makes a token too long.
func (r *ZoneTokenRequest) long() string { return "scope" }

// claims returns the claims of the requested token.
func (r *ZoneIngressTokenRequest) claims(now time.Time) (jwt.Claims, error) {
	life, vs := lifeOf(r.ValidFor)
	if r.Zone == "" {
		vs = append([]fault.Violation{{Path: "zone", Message: "cannot be empty"}}, vs...)
	}
	if err := fault.Violated(vs); err != nil {
		return nil, err
	}
	return ZoneIngressClaims{RegisteredClaims: lasting(now, life), Zone: r.Zone}, nil
}

// long names the member of the request that makes a token too long.
func (r *ZoneIngressTokenRequest) long() string { return "zone" }

// IssueZone returns the token of a zone.
func (t *ControlPlaneTokens) IssueZone(ctx context.Context, r ZoneTokenRequest) (string, error) {
	return t.issue(ctx, ZoneToken.series(), &r)
}

// IssueZoneIngress returns the token of the ingress of a zone.
func (t *ControlPlaneTokens) IssueZoneIngress(ctx context.Context, r ZoneIngressTokenRequest) (string, error) {
	return t.issue(ctx, ZoneIngressToken.series(), &r)
}

// AuthenticateZone checks that a token permits a proxy of a zone to act in a scope, and
// returns when the token ends. Faults: Denied for an invalid token, Forbidden for a token of
// another zone or without the scope. Failures of the control plane itself have the code of
// their cause.
func (t *ControlPlaneTokens) AuthenticateZone(ctx context.Context, zone, scope, token string) (until time.Time, err error) {
	var c ZoneClaims
	err = t.store.View(ctx, func(r store.Reader) error { return t.verify(r, token, &c) })
	switch {
	case err != nil:
		return until, err
	case zone == "" || c.Zone != zone:
		return until, fault.New(fault.Forbidden, "the proxy's zone %s is not the token's %s", zone, c.Zone)
	case !slices.Contains(c.Scope, scope):
		return until, fault.New(fault.Forbidden, "the token is not for the scope %q", scope)
	}
	return c.ExpiresAt.Time, nil
}

// AuthenticateZoneIngress checks that a token of an ingress is for a zone; see
// [ControlPlaneTokens.AuthenticateZone].
func (t *ControlPlaneTokens) AuthenticateZoneIngress(ctx context.Context, zone, token string) (until time.Time, err error) {
	var c ZoneIngressClaims
	err = t.store.View(ctx, func(r store.Reader) error { return t.verify(r, token, &c) })
	switch {
	case err != nil:
		return until, err
	case zone == "" || c.Zone != zone:
		return until, fault.New(fault.Forbidden, "the proxy's zone %s is not the token's %s", zone, c.Zone)
	}
	return c.ExpiresAt.Time, nil
}

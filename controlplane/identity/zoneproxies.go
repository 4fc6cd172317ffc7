package identity

import (
	"context"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// ClaimsZone reports whether a token says that it is for proxies of a zone. It verifies nothing.
func ClaimsZone(token string) bool {
	c, ok := zoneClaims(token)
	return ok && c.Zone != ""
}

// zoneClaims reads the claims of a token without verifying anything. The older tokens of ingresses
// have no scope.
func zoneClaims(token string) (c ZoneClaims, ok bool) {
	_, _, err := jwt.NewParser().ParseUnverified(bare(token), &c)
	return c, err == nil
}

func bare(token string) string { return strings.TrimPrefix(token, "Bearer ") }

// CheckZoneToken checks a token of a zone, whichever proxy it is for. Faults are those of
// [ControlPlaneTokens.AuthenticateZone].
func (t *ControlPlaneTokens) CheckZoneToken(ctx context.Context, token string) error {
	c, _ := zoneClaims(token)
	return t.store.View(ctx, func(r store.Reader) error {
		if c.Scope == nil {
			return t.verify(r, bare(token), &ZoneIngressClaims{})
		}
		return t.verify(r, bare(token), &ZoneClaims{})
	})
}

// CheckZoneProxy checks that a token permits proxies of a type in a zone, and returns when it ends.
// Ingresses may have tokens of either kind.
func (t *ControlPlaneTokens) CheckZoneProxy(ctx context.Context, zone, proxyType, token string) (until time.Time, err error) {
	if c, _ := zoneClaims(token); c.Scope == nil && proxyType == mesh.ProxyIngress {
		return t.AuthenticateZoneIngress(ctx, zone, bare(token))
	}
	return t.AuthenticateZone(ctx, zone, proxyType, bare(token))
}

// AuthenticateZoneProxy checks that a token permits a proxy of a zone to be a node whose resource
// exists and is in the zone, and returns when the token ends. Faults: Denied for an invalid token,
// Forbidden for a token of another zone or type, NotFound for a resource that does not exist.
func (t *ControlPlaneTokens) AuthenticateZoneProxy(ctx context.Context, zone, nodeID, token string) (until time.Time, err error) {
	proxyType, name, ok := mesh.ParseZoneNode(nodeID)
	if !ok || len(nodeID) > maxNodeID {
		return until, fault.New(fault.Forbidden, "this is not the id of a proxy of a zone")
	}
	if until, err = t.CheckZoneProxy(ctx, zone, proxyType, token); err != nil {
		return until, err
	}
	err = t.store.View(ctx, func(r store.Reader) error {
		res, err := r.Get(mesh.ZoneKind(proxyType), "", name)
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "zone %s %s does not exist; create it first", proxyType, name)
		}
		if err != nil {
			return err
		}
		if !res.Spec.(mesh.Zonal).In(zone, zone) {
			return fault.New(fault.Forbidden, "zone %s %s is in another zone than %s", proxyType, name, zone)
		}
		return nil
	})
	return until, err
}

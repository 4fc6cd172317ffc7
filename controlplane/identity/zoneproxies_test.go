package identity_test

import (
	"context"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestZoneProxies: an ingress is let in with a token of its zone for ingresses, of either kind, if
// its resource exists in the zone.
func TestZoneProxies(t *testing.T) {
	db := memstore.New()
	defer func() { _ = db.Close() }()
	tokens := identity.NewControlPlaneTokens(db, time.Now)
	if err := tokens.Ensure(t.Context(), directly{db}); err != nil {
		t.Fatal(err)
	}
	for name, zone := range map[string]string{"in": "", "named": "west", "far": "east"} {
		_, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: mesh.ZoneIngresses, Name: name, Spec: &mesh.ZoneIngress{Zone: zone}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := db.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.ZoneEgresses, Name: "out", Spec: &mesh.ZoneEgress{}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	issue := func(zone string, scope ...string) string {
		t.Helper()
		token, err := tokens.IssueZone(t.Context(), identity.ZoneTokenRequest{Zone: zone, Scope: scope})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	older := func(zone string) string {
		t.Helper()
		token, err := tokens.IssueZoneIngress(t.Context(), identity.ZoneIngressTokenRequest{Zone: zone})
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	good := issue("west", "egress", "ingress")
	for _, c := range []struct {
		what, node, token string
		want              fault.Code
	}{
		{"a token of the zone", "zone/ingress/in", good, ""},
		{"an ingress that names the zone", "zone/ingress/named", good, ""},
		{"with the scheme", "zone/ingress/in", "Bearer " + good, ""},
		{"an older token", "zone/ingress/in", older("west"), ""},
		{"an older token of another zone", "zone/ingress/in", older("east"), fault.Forbidden},
		{"a token of another zone", "zone/ingress/in", issue("east", "ingress"), fault.Forbidden},
		{"a token for egresses", "zone/ingress/in", issue("west", "egress"), fault.Forbidden},
		{"a token for nothing", "zone/ingress/in", issue("west", append([]string{}, "")...), fault.Forbidden},
		{"no token", "zone/ingress/in", "", fault.Denied},
		{"a made-up token", "zone/ingress/in", good[:len(good)-8] + "AAAAAAAA", fault.Denied},
		{"an ingress that does not exist", "zone/ingress/none", good, fault.NotFound},
		{"an ingress of another zone", "zone/ingress/far", good, fault.Forbidden},
		{"an egress", "zone/egress/out", good, ""},
		{"an egress with a token for ingresses", "zone/egress/out", issue("west", "ingress"), fault.Forbidden},
		{"an egress with an older token", "zone/egress/out", older("west"), fault.Denied},
		{"an egress with the name of an ingress", "zone/egress/in", good, fault.NotFound},
		{"another type", "zone/gateway/in", good, fault.Forbidden},
		{"a proxy of a mesh", "default.in", good, fault.Forbidden},
	} {
		_, err := tokens.AuthenticateZoneProxy(t.Context(), "west", c.node, c.token)
		if got := fault.CodeOf(err); err == nil && c.want != "" || err != nil && got != c.want {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	if !identity.ClaimsZone(good) || !identity.ClaimsZone(older("west")) || identity.ClaimsZone("x") {
		t.Error("tokens of zones are not told from others")
	}
	for _, token := range []string{good, older("east")} {
		if err := tokens.CheckZoneToken(t.Context(), token); err != nil {
			t.Error(err)
		}
	}
}

// directly writes to a store.
type directly struct{ store.Store }

// Write implements identity.Writer.
func (d directly) Write(ctx context.Context, class model.Class, fn func(store.Tx) error) (store.Commit, error) {
	return d.Update(ctx, class, fn)
}

package identity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/identity/identitytest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// globalTest has a control plane with one key of each kind of tokens.
type globalTest struct {
	*ControlPlaneTokens
	t     *testing.T
	store store.Store
	clock *identitytest.Clock
}

func newGlobalTest(t *testing.T, public ...PublicKey) *globalTest {
	s, c := identitytest.Memory(t), identitytest.NewClock()
	g := &globalTest{NewControlPlaneTokens(s, c.Now, public...), t, s, c}
	for i, prefix := range []string{"user-token", "zone-token", "zone-ingress-token"} {
		g.secret(prefix+"-signing-key-1", pkcs1(signingKeys()[i]))
	}
	return g
}

// secret stores a global secret, or deletes it if data is nil.
func (g *globalTest) secret(name string, data []byte) {
	g.t.Helper()
	if data == nil {
		storetest.Place(g.t, g.store, mesh.GlobalSecrets, "", name, nil)
		return
	}
	storetest.Place(g.t, g.store, mesh.GlobalSecrets, "", name, &mesh.Secret{Data: data})
}

func (g *globalTest) user(name string, groups ...string) string {
	g.t.Helper()
	token, err := g.IssueUser(g.t.Context(), UserTokenRequest{Name: name, Groups: groups, ValidFor: "1h"})
	if err != nil {
		g.t.Fatal(err)
	}
	return token
}

func (g *globalTest) zone(zone string, scope ...string) string {
	g.t.Helper()
	token, err := g.IssueZone(g.t.Context(), ZoneTokenRequest{Zone: zone, Scope: scope})
	if err != nil {
		g.t.Fatal(err)
	}
	return token
}

// TestGlobalTokens: header and claims of the tokens of users and zones.
func TestGlobalTokens(t *testing.T) {
	g := newGlobalTest(t)
	ingress, err := g.IssueZoneIngress(t.Context(), ZoneIngressTokenRequest{Zone: "east"})
	if err != nil {
		t.Fatal(err)
	}
	now := identitytest.Epoch.Unix()
	tenYears := float64(now + int64(DataplaneTokenLife/time.Second))
	for token, want := range map[string]map[string]any{
		g.user("bob", "a", "b"):   {"Name": "bob", "Groups": []any{"a", "b"}, "exp": float64(now + 3600)},
		g.user("eve"):             {"Name": "eve", "Groups": nil, "exp": float64(now + 3600)},
		g.zone("east", "ingress"): {"Zone": "east", "Scope": []any{"ingress"}, "exp": tenYears},
		ingress:                   {"Zone": "east", "exp": tenYears},
	} {
		got := part(t, token, 1)
		if got["jti"] == "" || got["iat"] != float64(now) || got["nbf"] != float64(now-300) {
			t.Errorf("%v", got)
		}
		for _, k := range []string{"jti", "iat", "nbf"} {
			delete(got, k)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]any{"alg": "RS256", "kid": "1", "typ": "JWT"}, part(t, token, 0)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestGlobalTokenRequests: violations, with the texts that clients compare.
func TestGlobalTokenRequests(t *testing.T) {
	g := newGlobalTest(t)
	user := func(r UserTokenRequest) error { _, err := g.IssueUser(t.Context(), r); return err }
	zone := func(r ZoneTokenRequest) error { _, err := g.IssueZone(t.Context(), r); return err }
	ingress := func(r ZoneIngressTokenRequest) error {
		_, err := g.IssueZoneIngress(t.Context(), r)
		return err
	}
	for name, test := range map[string]struct {
		err  error
		want []fault.Violation
	}{
		"nothing":        {user(UserTokenRequest{}), []fault.Violation{{Path: "name", Message: "cannot be empty"}, {Path: "validFor", Message: "cannot be empty"}}},
		"no time":        {user(UserTokenRequest{Name: "b", ValidFor: "0s"}), []fault.Violation{{Path: "validFor", Message: "cannot be empty or nil"}}},
		"no minutes":     {user(UserTokenRequest{Name: "b", ValidFor: "0m"}), []fault.Violation{{Path: "validFor", Message: "cannot be empty or nil"}}},
		"no hours":       {user(UserTokenRequest{Name: "b", ValidFor: "0h0ms"}), []fault.Violation{{Path: "validFor", Message: "cannot be empty or nil"}}},
		"minus nothing":  {user(UserTokenRequest{Name: "b", ValidFor: "-0"}), []fault.Violation{{Path: "validFor", Message: "cannot be empty or nil"}}},
		"hardly any":     {user(UserTokenRequest{Name: "b", ValidFor: "1ms"}), []fault.Violation{{Path: "validFor", Message: "is invalid: must be at least one second"}}},
		"bad time":       {user(UserTokenRequest{Name: "b", ValidFor: "x"}), []fault.Violation{{Path: "validFor", Message: `is invalid: time: invalid duration "x"`}}},
		"past":           {user(UserTokenRequest{Name: "b", ValidFor: "-1h"}), []fault.Violation{{Path: "validFor", Message: "is invalid: must be at least one second"}}},
		"nobody":         {user(UserTokenRequest{Name: model.UserAnonymous, ValidFor: "1h"}), []fault.Violation{{Path: "name", Message: "cannot be the name of a user who is identified"}}},
		"of a token":     {user(UserTokenRequest{Name: "token:ci", ValidFor: "1h"}), []fault.Violation{{Path: "name", Message: "cannot be the name of a user who is identified"}}},
		"of a program":   {user(UserTokenRequest{Name: "system:ci", ValidFor: "1h"}), []fault.Violation{{Path: "name", Message: "cannot be the name of a user who is identified"}}},
		"nobody's group": {user(UserTokenRequest{Name: "b", Groups: []string{model.GroupAnonymous}, ValidFor: "1h"}), []fault.Violation{{Path: "groups", Message: "cannot contain the group of those who are not identified"}}},
		"too long":       {user(UserTokenRequest{Name: "b", Groups: []string{strings.Repeat("g", maxTokenLength)}, ValidFor: "1h"}), []fault.Violation{{Path: "groups", Message: "make a token of more than 8192 bytes, which nobody could use"}}},
		"no scope":       {zone(ZoneTokenRequest{Zone: "a"}), []fault.Violation{{Path: "scope", Message: "cannot be empty"}}},
		"no scopes":      {zone(ZoneTokenRequest{Zone: "a", Scope: []string{}}), nil},
		"other scopes":   {zone(ZoneTokenRequest{Scope: []string{"x"}}), nil},
		"bad zone time":  {zone(ZoneTokenRequest{Zone: "a", Scope: []string{}, ValidFor: "y"}), []fault.Violation{{Path: "validFor", Message: `is invalid: time: invalid duration "y"`}}},
		"no zone":        {ingress(ZoneIngressTokenRequest{}), []fault.Violation{{Path: "zone", Message: "cannot be empty"}}},
	} {
		var got []fault.Violation
		if e, ok := errors.AsType[*fault.Error](test.err); ok {
			got = e.Violations
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestCheckUser: who may be who.
func TestCheckUser(t *testing.T) {
	g := newGlobalTest(t)
	key := signingKeys()[0]
	ids := func(name string, exp time.Time) UserClaims {
		return UserClaims{RegisteredClaims: jwt.RegisteredClaims{ID: "i", ExpiresAt: jwt.NewNumericDate(exp)}, Name: name}
	}
	later, past := identitytest.Epoch.Add(time.Hour), identitytest.Epoch.Add(-time.Hour)
	c, err := g.CheckUser(t.Context(), g.user("bob", "team"))
	if err != nil || c.Name != "bob" || len(c.Groups) != 1 {
		t.Fatalf("%v %v", c, err)
	}
	forever := ids("bob", later)
	forever.ExpiresAt = nil
	nameless := ids("bob", later)
	nameless.ID = ""
	for name, token := range map[string]string{
		"empty":            "",
		"no token":         "a.b.c",
		"no user":          sign(t, jwt.SigningMethodRS256, "1", key, ids("", later)),
		"anonymous":        sign(t, jwt.SigningMethodRS256, "1", key, ids(model.UserAnonymous, later)),
		"a token's holder": sign(t, jwt.SigningMethodRS256, "1", key, ids("token:ci", later)),
		"a program":        sign(t, jwt.SigningMethodRS256, "1", key, ids("system:ci", later)),
		"expired":          sign(t, jwt.SigningMethodRS256, "1", key, ids("bob", past)),
		"without an end":   sign(t, jwt.SigningMethodRS256, "1", key, forever),
		"without an id":    sign(t, jwt.SigningMethodRS256, "1", key, nameless),
		"unknown key":      sign(t, jwt.SigningMethodRS256, "2", key, ids("bob", later)),
		"a numeric kid":    sign(t, jwt.SigningMethodRS256, 1, key, ids("bob", later)),
		"no kid":           sign(t, jwt.SigningMethodRS256, nil, key, ids("bob", later)),
		"another method":   sign(t, jwt.SigningMethodRS512, "1", key, ids("bob", later)),
		"a shared secret":  sign(t, jwt.SigningMethodHS256, "1", []byte("secret"), ids("bob", later)),
		"a zone's token":   g.zone("east", "ingress"),
		"too long":         strings.Repeat("x", maxTokenLength+1),
	} {
		if _, err := g.CheckUser(t.Context(), token); !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestAuthenticateZone: a zone token is for its zone and its scopes.
func TestAuthenticateZone(t *testing.T) {
	g := newGlobalTest(t)
	token := g.zone("east", "ingress")
	ingress, err := g.IssueZoneIngress(t.Context(), ZoneIngressTokenRequest{Zone: "east"})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		zone, scope, token string
		want               fault.Code
	}{
		"good":          {"east", ScopeIngress, token, ""},
		"another scope": {"east", ScopeEgress, token, fault.Forbidden},
		"another zone":  {"west", ScopeIngress, token, fault.Forbidden},
		"no zone":       {"", ScopeIngress, g.zone("", "ingress"), fault.Forbidden},
		"a user":        {"east", ScopeIngress, g.user("east"), fault.Denied},
		"the older one": {"east", ScopeIngress, ingress, fault.Denied},
	} {
		until, err := g.AuthenticateZone(t.Context(), test.zone, test.scope, test.token)
		if test.want == "" && (err != nil || !until.Equal(identitytest.Epoch.Add(DataplaneTokenLife))) || test.want != "" && !fault.Is(err, test.want) {
			t.Errorf("%s: %v %v", name, until, err)
		}
	}
	for zone, want := range map[string]fault.Code{"east": "", "west": fault.Forbidden, "": fault.Forbidden} {
		if _, err := g.AuthenticateZoneIngress(t.Context(), zone, ingress); want == "" && err != nil || want != "" && !fault.Is(err, want) {
			t.Errorf("ingress of %q: %v", zone, err)
		}
	}
	if _, err := g.AuthenticateZoneIngress(t.Context(), "east", token); !fault.Is(err, fault.Denied) {
		t.Errorf("a zone token as one of an ingress: %v", err)
	}
}

// TestGlobalRotation: tokens of an old key count until the key is deleted or withdrawn, and
// revoked ones do not count.
func TestGlobalRotation(t *testing.T) {
	g := newGlobalTest(t)
	gate := keyGate(g.store)
	check := func(token string) error { _, err := g.CheckUser(context.WithoutCancel(t.Context()), token); return err }
	first := g.user("bob")
	if serial, err := g.Rotate(t.Context(), gate, UserToken); serial != "2" || err != nil {
		t.Fatalf("%s %v", serial, err)
	}
	second := g.user("bob")
	if part(t, second, 0)["kid"] != "2" || check(first) != nil || check(second) != nil {
		t.Errorf("%v %v %v", part(t, second, 0), check(first), check(second))
	}
	g.secret("user-token-signing-key-1", nil)
	if err := check(first); !fault.Is(err, fault.Denied) || check(second) != nil {
		t.Errorf("a token of a deleted key: %v; of the other: %v", err, check(second))
	}
	if added, err := RevokeTokens(t.Context(), gate, UserToken, "", []string{part(t, second, 1)["jti"].(string)}); added != 1 || err != nil {
		t.Fatalf("%d %v", added, err)
	}
	if err := check(second); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked token: %v", err)
	}
	third := g.user("bob")
	out, err := g.Withdraw(t.Context(), gate, UserToken)
	if err != nil || out.Serial != "3" {
		t.Fatalf("%v %v", out, err)
	}
	if err := check(third); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "its holder needs a new token") || check(g.user("bob")) != nil {
		t.Errorf("a token of a withdrawn key: %v", err)
	}
	if _, err := g.AuthenticateZone(t.Context(), "east", ScopeIngress, g.zone("east", ScopeIngress)); err != nil {
		t.Errorf("the keys of zones are others: %v", err)
	}
	if err := g.store.View(t.Context(), func(r store.Reader) error {
		keys, err := g.Keys(r, UserToken)
		if len(keys) != 2 || !keys[0].Withdrawn || !keys[1].Signs {
			t.Errorf("%+v", keys)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestMissingGlobalKey names the secret that is missing.
func TestMissingGlobalKey(t *testing.T) {
	g := newGlobalTest(t)
	g.secret("zone-token-signing-key-1", nil)
	_, err := g.IssueZone(t.Context(), ZoneTokenRequest{Zone: "a", Scope: []string{}})
	e, ok := errors.AsType[*fault.Error](err)
	if want := `there is no signing key with KID 1. GlobalSecret of name "zone-token-signing-key-1" is not found. If signing key was rotated, regenerate the token`; !ok || e.Code != fault.NotFound || e.Detail != want {
		t.Errorf("%v", err)
	}
}

// TestEnsure: the first start makes the keys and the token of an administrator, and later
// ones change nothing.
func TestEnsure(t *testing.T) {
	s, clock := identitytest.Memory(t), identitytest.NewClock()
	tokens, gate := NewControlPlaneTokens(s, clock.Now), keyGate(s)
	read := func() (out map[string]string) {
		out = map[string]string{}
		if err := s.View(t.Context(), func(r store.Reader) error {
			all, err := store.ListAll(r, mesh.GlobalSecrets, store.Query{})
			for _, res := range all {
				out[res.Name] = string(res.Spec.(*mesh.Secret).Data)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	start := func() {
		t.Helper()
		if err := errors.Join(tokens.Ensure(t.Context(), gate), tokens.EnsureAdmin(t.Context(), gate, false)); err != nil {
			t.Fatal(err)
		}
	}
	start()
	first := read()
	for _, name := range []string{"admin-user-token", "user-token-signing-key-1", "zone-token-signing-key-1", "zone-ingress-token-signing-key-1"} {
		if first[name] == "" {
			t.Errorf("no secret %s", name)
		}
	}
	start()
	if diff := cmp.Diff(first, read()); diff != "" {
		t.Error("the second start changed secrets")
	}
	if c, err := tokens.CheckUser(t.Context(), first["admin-user-token"]); err != nil || !model.User(c.Name, c.Groups...).Administrates() {
		t.Errorf("%v %v", c, err)
	}
	if _, err := tokens.Withdraw(t.Context(), gate, UserToken); err != nil {
		t.Fatal(err)
	}
	start() // the withdrawn key does not come back
	if err := tokens.EnsureAdmin(t.Context(), gate, true); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.CheckUser(t.Context(), read()["admin-user-token"]); err != nil || read()["user-token-signing-key-1"] != "" {
		t.Errorf("after a withdrawal: %v", err)
	}
}

// TestOffline: tokens that were issued elsewhere count if the public half of their key is
// configured, for their kind and mesh only.
func TestOffline(t *testing.T) {
	key, err := NewOfflineKey("ci", pkcs1(signingKeys()[1]))
	if err != nil {
		t.Fatal(err)
	}
	public := func(of TokenKind, meshName string) PublicKey {
		text, err := key.Public()
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := ParsePublicKey(text)
		if err != nil {
			t.Fatal(err)
		}
		return PublicKey{For: of, Mesh: meshName, ID: "ci", Key: parsed}
	}
	token, err := key.User(UserTokenRequest{Name: "bob", ValidFor: "1h"}, identitytest.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	for of, want := range map[TokenKind]bool{UserToken: true, ZoneToken: false} {
		if _, err := newGlobalTest(t, public(of, "")).CheckUser(t.Context(), token); (err == nil) != want {
			t.Errorf("with a key for %s tokens: %v", of, err)
		}
	}
	bounded := func(users, groups []string) PublicKey {
		k := public(UserToken, "")
		k.Users, k.Groups = users, groups
		return k
	}
	for name, test := range map[string]struct {
		key    PublicKey
		user   string
		groups []string
		want   bool
	}{
		"anybody":                {bounded(nil, nil), "bob", []string{"staff"}, true},
		"the administrator":      {bounded(nil, nil), model.UserAdministrator, nil, false},
		"administrators":         {bounded(nil, nil), "bob", []string{"staff", model.GroupAdministrator}, false},
		"another of the system":  {bounded(nil, nil), "mesh-system:robot", nil, false},
		"a listed administrator": {bounded([]string{"bob"}, []string{model.GroupAdministrator}), "bob", []string{model.GroupAdministrator}, true},
		"a listed user":          {bounded([]string{"bob"}, nil), "bob", []string{"staff"}, true},
		"who is not listed":      {bounded([]string{"bob"}, nil), "eve", nil, false},
		"a listed group":         {bounded(nil, []string{"ci"}), "eve", []string{"ci"}, true},
		"one not listed":         {bounded(nil, []string{"ci"}), "eve", []string{"ci", "staff"}, false},
		"no groups":              {bounded(nil, []string{}), "eve", []string{"ci"}, false},
	} {
		token, err := key.User(UserTokenRequest{Name: test.user, Groups: test.groups, ValidFor: "1h"}, identitytest.Epoch)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newGlobalTest(t, test.key).CheckUser(t.Context(), token); (err == nil) != test.want || err != nil && !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	g := newGlobalTest(t, public(UserToken, ""))
	g.secret("user-token-revocations", []byte(part(t, token, 1)["jti"].(string)+"\n"))
	if _, err := g.CheckUser(t.Context(), token); !fault.Is(err, fault.Denied) {
		t.Errorf("a revoked one: %v", err)
	}
	zone, err := key.Zone(ZoneTokenRequest{Zone: "east", Scope: []string{ScopeEgress}}, identitytest.Epoch)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newGlobalTest(t, public(ZoneToken, "")).AuthenticateZone(t.Context(), "east", ScopeEgress, zone); err != nil {
		t.Error(err)
	}
	for meshName, want := range map[string]bool{"m": true, "other": false} {
		token, err := key.Dataplane(DataplaneTokenRequest{Mesh: meshName}, identitytest.Epoch)
		if err != nil {
			t.Fatal(err)
		}
		s := identitytest.Memory(t)
		if _, err := NewDataplaneTokens(s, identitytest.NewClock().Now, public(DataplaneToken, "m")).Check(t.Context(), token); (err == nil) != want {
			t.Errorf("of mesh %s: %v", meshName, err)
		}
	}
	for name, keys := range map[string][]PublicKey{
		"two purposes":   {public(UserToken, ""), public(DataplaneToken, "m")},
		"no mesh":        {public(DataplaneToken, "")},
		"a mesh":         {public(ZoneToken, "m")},
		"another kind":   {public("robot", "")},
		"of gateways":    {public(GatewayToken, "")},
		"users of zones": {{For: ZoneToken, ID: "ci", Users: []string{"bob"}, Key: public(UserToken, "").Key}},
		"a number":       {{For: UserToken, ID: "7", Key: public(UserToken, "").Key}},
		"no id":          {{For: UserToken, Key: public(UserToken, "").Key}},
		"the same twice": {public(UserToken, ""), {For: UserToken, ID: "ci", Key: &signingKeys()[2].PublicKey}},
	} {
		if err := CheckPublicKeys(keys); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckPublicKeys([]PublicKey{public(UserToken, ""), {For: ZoneToken, ID: "ci", Key: &signingKeys()[2].PublicKey}}); err != nil {
		t.Error(err)
	}
}

// TestLastGlobalKeyStays: the last key of users is not deleted by mistake.
func TestLastGlobalKeyStays(t *testing.T) {
	g := newGlobalTest(t)
	uses := NewUses(g.clock.Now)
	may := func(name string) (err error) {
		_ = g.store.View(t.Context(), func(r store.Reader) error {
			res, e := r.Get(mesh.GlobalSecrets, "", name)
			if e != nil {
				t.Fatal(e)
			}
			err = uses.MayRemove(r, res)
			return nil
		})
		return err
	}
	g.secret("other", []byte("x"))
	if err := may("user-token-signing-key-1"); !fault.Is(err, fault.Conflict) {
		t.Errorf("%v", err)
	}
	if err := may("other"); err != nil {
		t.Error(err)
	}
	g.secret("user-token-signing-key-2", pkcs1(signingKeys()[1]))
	if err := may("user-token-signing-key-1"); err != nil {
		t.Error(err)
	}
}

package access

import (
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

var (
	inM      = Scope{Mesh: "m"}
	inO      = Scope{Mesh: "o"}
	inPlane  = Scope{ControlPlane: "default"}
	anywhere = Scope{Somewhere: true}
	whole    = Scope{}
)

// TestWithoutRoles: everybody may what the reference lets everybody do, and nobody but
// administrators may anything at gateways.
func TestWithoutRoles(t *testing.T) {
	open := []Right{Open, Known, Read, Write, Own}
	for _, rules := range []*Rules{nil, New(Options{})} {
		for _, right := range Rights {
			for _, who := range []model.Actor{model.Anonymous(), model.User("bob")} {
				if got := rules.Decide(who, right, inM).Allowed; got != slices.Contains(open, right) {
					t.Errorf("%s has %q: %t", who, right, got)
				}
				if got := rules.Decide(who, right, inPlane).Allowed; got != (right == Open) {
					t.Errorf("%s has %q at gateways: %t", who, right, got)
				}
			}
			for _, in := range []Scope{inM, inPlane, anywhere, whole} {
				if !rules.Decide(model.Administrator(), right, in).Allowed {
					t.Errorf("administrators lack %q in %s", right, in)
				}
			}
		}
	}
}

// TestRolesOnly: without a role nobody but administrators has anything, even where there are no roles.
func TestRolesOnly(t *testing.T) {
	rules := New(Options{RolesOnly: true})
	for _, in := range []Scope{inM, inPlane, anywhere, whole} {
		for _, right := range Rights {
			if got := rules.Decide(model.User("bob"), right, in).Allowed; got != (right == Open || right == Known) {
				t.Errorf("bob has %q in %s: %t", right, in, got)
			}
			if got := rules.Decide(model.Anonymous(), right, in); got.Allowed != (right == Open) || got.Unidentified != (right != Open) {
				t.Errorf("nobody has %q in %s: %+v", right, in, got)
			}
		}
		if !rules.Decide(model.Administrator(), Write, in).Allowed {
			t.Errorf("administrators lack write in %s", in)
		}
	}
	if !rules.Decide(model.User("ci").Holding(model.OwnRole{Role: "editor", ControlPlane: "default"}), Write, inPlane).Allowed {
		t.Error("a credential lacks the role that it says")
	}
	if rules.Decide(model.User("ci").Holding(model.OwnRole{Role: "editor", ControlPlane: "default"}), Write, whole).Allowed {
		t.Error("a role in one control plane counts everywhere")
	}
}

// TestRoles: what each role gives, and where.
func TestRoles(t *testing.T) {
	rules := New(Options{Roles: []Role{
		{Role: "viewer", Meshes: []string{"m"}, Groups: []string{"viewers"}},
		{Role: "editor", Meshes: []string{"m", "n"}, Users: []string{"ed"}},
		{Role: "admin", ControlPlanes: []string{"default"}, Users: []string{"gus"}},
		{Role: "viewer", All: true, Users: []string{"gus"}},
		{Role: "admin", All: true, Users: []string{"root"}},
	}})
	for _, test := range []struct {
		who   model.Actor
		right Right
		in    Scope
		want  bool
	}{
		{model.User("vi", "viewers"), Read, inM, true},
		{model.User("vi", "viewers"), Read, anywhere, true},
		{model.User("vi", "viewers"), Write, inM, false},
		{model.User("vi", "viewers"), Read, inO, false},
		{model.User("vi", "viewers"), Read, whole, false},
		{model.User("vi", "viewers"), Read, inPlane, false},
		{model.User("viewers"), Read, inM, false},
		{model.User("ed"), Write, inM, true},
		{model.User("ed"), Own, inM, false},
		{model.User("ed"), AdminResources, inM, false},
		{model.User("gus"), Administrator, inPlane, true},
		{model.User("gus"), Read, whole, true},
		{model.User("gus"), Write, inM, false},
		{model.User("gus"), DataplaneTokens, anywhere, false},
		{model.User("root"), UserTokens, whole, true},
		{model.User("bob"), Known, whole, true},
		{model.User("bob"), Read, anywhere, false},
		{model.User("root"), "another", whole, true}, // an unknown right is one of admins
		{model.User("ed"), "another", inM, false},
		{model.Anonymous(), Open, whole, true},
		{model.Anonymous(), Known, whole, false},
		{model.Actor{}, Read, inM, false},
		{model.Node("m.web"), Read, inM, false},
		{model.Actor{Kind: model.ActorNode, Name: "root"}, Read, inM, false},
		{model.Actor{Kind: model.ActorNode, Name: model.UserAdministrator}, Read, inM, false},
	} {
		if v := rules.Decide(test.who, test.right, test.in); v.Allowed != test.want || v.Reason == "" {
			t.Errorf("%s, %q in %s: %+v", test.who, test.right, test.in, v)
		}
	}
	if v := rules.Decide(model.Anonymous(), Read, inM); !v.Unidentified {
		t.Errorf("%+v", v)
	}
	if v := rules.Decide(model.User("bob"), Read, inM); v.Unidentified {
		t.Errorf("%+v", v)
	}
}

// TestStatic: settings give single rights to users and groups, with roles and without, but to
// nobody without an identity where one is needed.
func TestStatic(t *testing.T) {
	static := Static{Stats: {Groups: []string{"ops", model.GroupAnonymous}}, AdminResources: {Users: []string{"sec"}}}
	for _, o := range []Options{{Static: static}, {Static: static, Roles: []Role{{Role: "viewer", All: true, Users: []string{"x"}}}}} {
		rules := New(o)
		for _, test := range []struct {
			who   model.Actor
			right Right
			want  bool
		}{
			{model.User("bob", "ops"), Stats, true},
			{model.User("bob", "ops"), Clusters, false},
			{model.User("sec"), AdminResources, true},
			{model.User("ops"), Stats, false},
			{model.Anonymous(), Stats, !rules.IdentityNeeded()},
		} {
			if got := rules.Decide(test.who, test.right, inM).Allowed; got != test.want {
				t.Errorf("%s, %q: %t", test.who, test.right, got)
			}
		}
	}
}

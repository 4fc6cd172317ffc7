package access

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestExceeds: whoever names users may name none with a right that he lacks, in any scope.
func TestExceeds(t *testing.T) {
	rules := New(Options{
		Static: Static{UserTokens: {Groups: []string{"issuers"}}, AdminResources: {Groups: []string{"keepers"}}},
		Roles: []Role{
			{Role: "admin", All: true, Groups: []string{"platform"}},
			{Role: "editor", Meshes: []string{"m"}, Groups: []string{"shop"}},
			{Role: "viewer", Meshes: []string{"m"}, Groups: []string{"guests"}},
			{Role: "admin", ControlPlanes: []string{"c"}, Groups: []string{"edge"}},
		},
	})
	issuer := model.User("ina", "issuers", "shop")
	for group, want := range map[string]bool{
		"": false, "shop": false, "guests": false, "issuers": false,
		"platform": true, "keepers": true, "edge": true, model.GroupAdministrator: true,
	} {
		if got := rules.Exceeds(model.User("x", group), issuer); got != want {
			t.Errorf("a user of %q exceeds: %t", group, got)
		}
	}
	if rules.Exceeds(model.User("x", "platform"), model.Administrator()) {
		t.Error("somebody exceeds an administrator")
	}
	var none *Rules
	if none.Exceeds(model.User("x", "any"), issuer) || !none.Exceeds(model.User("x", model.GroupAdministrator), issuer) {
		t.Error("without rules only administrators exceed others")
	}
}

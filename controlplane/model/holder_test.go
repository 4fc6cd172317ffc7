package model_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
)

// TestHolders: names of holders of personal access tokens are theirs alone; those of service
// accounts, which other issuers name, look like them and are not.
func TestHolders(t *testing.T) {
	for name, want := range map[string]bool{
		"token:ci": true, "token:a:b": true, "token:": true, "system:dashboards": true, "system:": true,
		"system:serviceaccount:shop:deployer": false, "bob": false, "a:token:ci": false, "mesh-system:admin": false,
	} {
		if got := model.IsHolder(name); got != want {
			t.Errorf("%q: %t, want %t", name, got, want)
		}
	}
}

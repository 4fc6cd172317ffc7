package assembly

import (
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/meshapi"
)

// TestKeysThatNoCommandRotates: a request to rotate keys of a listed kind that no command
// rotates is answered with how they are replaced, and not with "no such kind".
func TestKeysThatNoCommandRotates(t *testing.T) {
	for kind, want := range map[string]string{
		"mesh-ca":     `docs/mesh.md has the steps ("A new root")`,
		"records":     "by itself after 30 days",
		"certificate": "PATCH /certificates/{id}",
		"password":    "docs/operations/keys.md",
		"mesh-cas":    "the kinds are node-tokens",
	} {
		err := checkRotation(kind, meshapi.KeyRotation{})
		if !fault.Is(err, fault.NotFound) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

package assembly

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/meshgate/meshgate/controlplane/health"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// unusableKeys holds the stored signing keys of each mesh that cannot be used. Their tokens
// are refused, which would look like an attack in the list of nodes.
type unusableKeys struct {
	mu sync.Mutex
	by map[string][]string
}

// judgeSigningKeys checks the signing keys of the named meshes, or of all, and sets the
// condition of unusable keys. If the store cannot be read, the condition stays as it is.
func (cp *ControlPlane) judgeSigningKeys(ctx context.Context, only ...string) {
	u := &cp.mesh.unusable
	u.mu.Lock()
	defer u.mu.Unlock()
	by := map[string][]string{}
	if len(only) > 0 {
		maps.Copy(by, u.by)
	}
	err := cp.store.View(ctx, func(r store.Reader) error {
		names := only
		if len(names) == 0 {
			all, _, err := store.ListReadable(r, mesh.Meshes, "")
			if err != nil {
				return err
			}
			for _, m := range all {
				names = append(names, m.Name)
			}
		}
		for _, name := range names {
			keys, err := cp.mesh.tokens.Keys(r, name)
			if err != nil {
				return err
			}
			delete(by, name)
			if bad := unusable(name, keys); len(bad) > 0 {
				by[name] = bad
			}
		}
		return nil
	})
	if err != nil {
		if ctx.Err() == nil {
			cp.Log.Warn("the signing keys could not be looked at", "error", err)
		}
		return
	}
	u.by = by
	cp.ready.conditions.Set(conditionSigningKeys, findingOfKeys(by))
}

// unusable names the keys of a mesh that cannot be used.
func unusable(meshName string, keys []identity.SigningKey) (bad []string) {
	for _, k := range keys {
		if !k.Withdrawn && k.Bits == 0 {
			bad = append(bad, k.Serial+" of mesh "+meshName)
		}
	}
	return bad
}

// maxKeysNamed bounds the keys that a text names.
const maxKeysNamed = 10

func findingOfKeys(by map[string][]string) health.Finding {
	var bad []string
	for _, name := range slices.Sorted(maps.Keys(by)) {
		bad = append(bad, by[name]...)
	}
	if len(bad) == 0 {
		return health.Finding{State: health.OK}
	}
	more := ""
	if len(bad) > maxKeysNamed {
		more = fmt.Sprintf(" and %d more", len(bad)-maxKeysNamed)
		bad = bad[:maxKeysNamed]
	}
	return health.Finding{State: health.Degraded, Reason: "unusable", Text: fmt.Sprintf(
		"signing key %s%s cannot be used: its row cannot be decrypted or holds no RSA key. Tokens of it are refused; other keys go on. If the encryption key of the state directory is not the one that sealed it, put that back and start again. Else make a new key (meshgate keys rotate dataplane-tokens --mesh NAME), give the nodes that `meshgate status` lists as refused new tokens, and delete the bad key (meshgate keys delete dataplane-tokens SERIAL --mesh NAME)",
		strings.Join(bad, ", "), more)}
}

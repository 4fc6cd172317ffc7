package assembly

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestRotationsAreRecorded: the changes record who rotated, withdrew or deleted a key, and
// its name, but nothing of the key itself. Keys that are made at a start are not recorded.
func TestRotationsAreRecorded(t *testing.T) {
	cp := openIn(t, t.TempDir())
	defer cp.close(t.Context())
	ctx := model.WithActor(t.Context(), model.User("ann"))
	before := len(recordsOf(t, cp.store))
	ring := keyring{cp}
	told := func() (out []string) {
		t.Helper()
		records := recordsOf(t, cp.store)[before:]
		before += len(records)
		for _, r := range records {
			name := r.Key.Name
			if id, ok := strings.CutPrefix(name, "encryption-key-"); ok {
				name = "encryption-key-ID"
				if id == "" {
					t.Error("an encryption key has no id")
				}
			}
			out = append(out, string(r.Actor.Kind)+":"+r.Actor.Name+" "+string(r.Op)+" "+r.Key.Kind+" "+name)
			raw, err := json.Marshal(r.Members)
			if err != nil || bytes.Contains(raw, []byte("LS0t")) { // base64 of "---"
				t.Errorf("%s: %s, %v", name, raw, err)
			}
		}
		slices.Sort(out)
		return out
	}
	rotate := func(kind string, r meshapi.KeyRotation) {
		t.Helper()
		if _, err := ring.Rotate(ctx, kind, r); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, told()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	rotate(meshapi.KeysNodeTokens, meshapi.KeyRotation{})
	expect("node tokens", "user:ann created identity_key gateway-token-signing-key-2")
	if err := ring.Delete(ctx, meshapi.KeysNodeTokens, "1", true); err != nil {
		t.Fatal(err)
	}
	expect("a key is deleted", "user:ann deleted identity_key gateway-token-signing-key-1")
	rotate(meshapi.KeysNodeTokens, meshapi.KeyRotation{Compromised: true})
	expect("a theft", "user:ann created identity_key gateway-token-signing-key-3", "user:ann created identity_key gateway-token-withdrawn-key-2",
		"user:ann deleted identity_key gateway-token-signing-key-2")
	rotate(meshapi.KeysAudit, meshapi.KeyRotation{})
	expect("the audit log", "user:ann created identity_key audit-log-signing-key-2")
	if err := ring.Delete(ctx, meshapi.KeysAudit, "1", false); err != nil {
		t.Fatal(err)
	}
	expect("its old key", "user:ann deleted identity_key audit-log-signing-key")
	rotate(meshapi.KeysAudit, meshapi.KeyRotation{Compromised: true})
	expect("its key is stolen", "user:ann created identity_key audit-log-signing-key-3", "user:ann created identity_key audit-log-withdrawn-key-2",
		"user:ann deleted identity_key audit-log-signing-key-2")
	rotate(meshapi.KeysAuthority, meshapi.KeyRotation{})
	expect("the first step", "user:ann created identity_key authority-next")
	rotate(meshapi.KeysAuthority, meshapi.KeyRotation{Force: true})
	expect("the second step", "user:ann created identity_key authority", "user:ann created identity_key authority-former",
		"user:ann deleted identity_key authority", "user:ann deleted identity_key authority-next")
	rotate(meshapi.KeysAuthority, meshapi.KeyRotation{Force: true})
	expect("the third step", "user:ann deleted identity_key authority-former")
	rotate(meshapi.KeysEncryption, meshapi.KeyRotation{})
	expect("the encryption key", "user:ann created identity_key encryption-key-ID")
	rotate(meshapi.KeysEncryption, meshapi.KeyRotation{ForgetOld: true})
	expect("once more", "user:ann created identity_key encryption-key-ID")
	if err := cp.encryption.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("the old one is forgotten", "system:encryption deleted identity_key encryption-key-ID")
	if err := cp.encryption.follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("there is nothing to do")
}

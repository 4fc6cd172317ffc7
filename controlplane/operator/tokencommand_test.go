package operator

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestTokenCommand: a control plane that knows the public half accepts what the commands issue.
func TestTokenCommand(t *testing.T) {
	text, err := identity.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ci.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := identity.NewOfflineKey("ci", text)
	if err != nil {
		t.Fatal(err)
	}
	public, err := key.Public()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := identity.ParsePublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	keys := []identity.PublicKey{{For: identity.UserToken, ID: "ci", Key: parsed}, {For: identity.ZoneToken, ID: "ci", Key: parsed}, {For: identity.DataplaneToken, Mesh: "m", ID: "ci", Key: parsed}}
	global, proxies := identity.NewControlPlaneTokens(s, time.Now, keys...), identity.NewDataplaneTokens(s, time.Now, keys...)
	run := func(args ...string) (string, error) {
		out, err := clitest.Execute(t, TokenCommand(), append(args, "--kid", "ci", "--signing-key-file", file)...)
		return strings.TrimSpace(out), err
	}
	token, err := run("user", "--name", "bob", "--group", "a", "--group", "b", "--valid-for", "1h")
	if c, bad := global.CheckUser(t.Context(), token); err != nil || bad != nil || c.Name != "bob" || len(c.Groups) != 2 {
		t.Errorf("user: %v %v", err, bad)
	}
	token, err = run("zone", "--zone", "east", "--scope", "egress")
	if _, bad := global.AuthenticateZone(t.Context(), "east", identity.ScopeEgress, token); err != nil || bad != nil {
		t.Errorf("zone: %v %v", err, bad)
	}
	token, err = run("dataplane", "--mesh", "m", "--name", "web", "--tag", "a=1,2", "--tag", "b=3")
	if c, bad := proxies.Check(t.Context(), token); err != nil || bad != nil || c.Name != "web" || len(c.Tags["a"]) != 2 || len(c.Tags["b"]) != 1 {
		t.Errorf("dataplane: %v %v", err, bad)
	}
	for want, args := range map[string][]string{
		"validFor: cannot be empty":   {"user", "--name", "bob"},
		`--tag "a" is not key=value`:  {"dataplane", "--mesh", "m", "--tag", "a"},
		"kid: must not be a number":   {"zone", "--zone", "a", "--kid", "1"},
		"mesh: cannot be empty":       {"dataplane"},
		"type: x is not a valid prox": {"dataplane", "--mesh", "m", "--type", "x"},
	} {
		if !slices.Contains(args, "--kid") {
			args = append(args, "--kid", "ci")
		}
		if _, err := clitest.Execute(t, TokenCommand(), append(args, "--signing-key-file", file)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}

package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/version"
)

// TestEverySettingIsAFlag: each command that runs everything has all settings as flags,
// except those that are always secret.
func TestEverySettingIsAFlag(t *testing.T) {
	name := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, c := range []*cobra.Command{standaloneCommand(), demoCommand(), cli.ConfigCommand()} {
		for _, k := range config.Table {
			f := c.Flags().Lookup(cli.FlagName(k.Name))
			if config.NeverFlag(k.Name) != "" {
				if f != nil {
					t.Errorf("%s: %s is a flag, which is always refused", c.Name(), k.Name)
				}
				continue
			}
			if f == nil || !name.MatchString(f.Name) || !strings.Contains(f.Usage, k.Help) {
				t.Errorf("%s: no good flag for %s: %+v", c.Name(), k.Name, f)
			}
		}
	}
}

// TestFlagsThatDoNothing: a command without a control plane has no flags for its settings.
func TestFlagsThatDoNothing(t *testing.T) {
	for _, tt := range []struct {
		command *cobra.Command
		has, no string
	}{
		{dataplaneCommand(), "state-dir log-level gateway-http-port drain-delay status-port envoy-path module-path cache-grace access-log-path access-log-max-size access-log-keep", "access-log-format redis-url admin-token data-plane-port backup-every store-type gateway-name"},
		{runCommand(), "state-dir mesh-port redis-url redis-node-url admin-token-file gateway-declarative gateway-trusted-ips access-log-format dataplane-remove-after backup-every",
			"module-path gateway-name gateway-listen gateway-http-port gateway-https-port envoy-path drain-delay status-port cache-grace access-log-path access-log-keep"},
		{backupCommand(), "state-dir store-sqlite-path store-encryption-key-file", "backup-every envoy-path gateway-http-port"},
		{restoreCommand(), "state-dir store-sqlite-path store-encryption-key-file", "backup-every envoy-path gateway-http-port"},
	} {
		for _, name := range strings.Fields(tt.has) {
			if tt.command.Flags().Lookup(name) == nil {
				t.Errorf("%s has no --%s", tt.command.Name(), name)
			}
		}
		for _, name := range strings.Fields(tt.no) {
			if tt.command.Flags().Lookup(name) != nil {
				t.Errorf("%s has --%s, which does nothing there", tt.command.Name(), name)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	got, err := clitest.Execute(t, cli.VersionCommand())
	if err != nil {
		t.Fatal(err)
	}
	if flag, err := clitest.Execute(t, rootCommand(), "--version"); err != nil || flag != got {
		t.Errorf("--version: %q %v, the command says %q", flag, err, got)
	}
	want := `^meshgate development \(revision \S+, go1\.\S+, [a-z0-9]+/[a-z0-9]+, for Envoy ` + regexp.QuoteMeta(version.Envoy) + `\)\n$`
	if !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("%q does not match %s", got, want)
	}
}

// TestConfig: config shows a flag, an environment variable and a default, and no secret.
func TestConfig(t *testing.T) {
	t.Setenv("MESHGATE_ADMIN_PORT", "9001")
	t.Setenv("MESHGATE_REDIS_URL", "redis://:hunter2@r")
	got, err := clitest.Execute(t, cli.ConfigCommand(), "--mesh-port", "9002", "--state-dir", "/tmp/x")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for l := range strings.Lines(got) {
		f := strings.Fields(l)
		rows[f[0]] = f[1:]
	}
	want := map[string][]string{
		"mesh.port":       {"9002", "flag", "MESHGATE_MESH_PORT"},
		"admin.port":      {"9001", "environment", "MESHGATE_ADMIN_PORT"},
		"redis.url":       {config.Mask, "environment", "MESHGATE_REDIS_URL"},
		"gateway.name":    {"gateway-1", "default", "MESHGATE_GATEWAY_NAME"},
		"dataPlane.port":  {"5678", "default", "MESHGATE_DATA_PLANE_PORT"},
		"envoy.logLevel":  {"warning", "default", "MESHGATE_ENVOY_LOG_LEVEL"},
		"gateway.listen":  {"0.0.0.0", "default", "MESHGATE_GATEWAY_LISTEN"},
		"store.type":      {"sqlite", "default", "MESHGATE_STORE_TYPE"},
		"cache.grace":     {"0s", "default", "MESHGATE_CACHE_GRACE"},
		"gateway.tlsPort": nil,
	}
	for key, row := range want {
		if diff := cmp.Diff(row, rows[key]); diff != "" {
			t.Errorf("%s:\n%s", key, diff)
		}
	}
	if strings.Contains(got, "hunter2") {
		t.Errorf("a secret is shown:\n%s", got)
	}
}

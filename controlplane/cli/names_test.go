package cli

import (
	"maps"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
)

func TestFlagName(t *testing.T) {
	for key, want := range map[string]string{
		"stateDir": "state-dir", "store.sqlite.path": "store-sqlite-path", "store.encryption.keyFile": "store-encryption-key-file",
		"redis.url": "redis-url", "dataPlane.port": "data-plane-port", "admin.tlsPort": "admin-tls-port", "modulePath": "module-path",
	} {
		if got := FlagName(key); got != want {
			t.Errorf("%s: --%s, want --%s", key, got, want)
		}
	}
}

// TestListedSettings: every name in the lists of settings must match a setting.
func TestListedSettings(t *testing.T) {
	for _, s := range slices.Concat(ProxySettings, StoreSettings, OwnGateway, slices.Concat(slices.Collect(maps.Values(listedSettings))...)) {
		if !slices.ContainsFunc(config.Table, func(k config.Key) bool { return concerns([]string{s}, k.Name) }) {
			t.Errorf("%q names no setting", s)
		}
	}
}

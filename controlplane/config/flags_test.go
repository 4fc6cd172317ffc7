package config

import (
	"strings"
	"testing"
)

// TestSecretsInFlags: secrets in flags, which everybody can read in the list of processes,
// are refused. The error says what to do instead, and does not repeat the value.
func TestSecretsInFlags(t *testing.T) {
	const canary = "canary-secret-0123"
	for name, tc := range map[string]struct {
		key, value string
		refused    []string
	}{
		"admin token":             {"admin.token", canary, []string{"MESHGATE_ADMIN_TOKEN", "admin.tokenFile"}},
		"encryption key":          {"store.encryption.key", canary, []string{"MESHGATE_STORE_ENCRYPTION_KEY", "store.encryption.keyFile"}},
		"redis":                   {"redis.url", "rediss://u:" + canary + "@h:1", []string{"MESHGATE_REDIS_URL", "configuration file"}},
		"redis, as a parameter":   {"redis.nodeURL", "unix:///run/redis.sock?password=" + canary, []string{"MESHGATE_REDIS_NODE_URL"}},
		"no URL":                  {"redis.url", ":" + canary, []string{"MESHGATE_REDIS_URL"}},
		"redis, open":             {"redis.url", "redis://h:6379/0", nil},
		"redis, socket":           {"redis.nodeURL", "unix:///run/redis.sock", nil},
		"redis, host:port":        {"redis.url", "127.0.0.1:6379", nil},
		"redis, name:port":        {"redis.nodeURL", "redis.example:6379", nil},
		"redis, user and host":    {"redis.url", "u:" + canary + "@h:6379", []string{"MESHGATE_REDIS_URL"}},
		"a token like an address": {"admin.token", canary + ":6379", []string{"MESHGATE_ADMIN_TOKEN"}},
		"empty":                   {"admin.token", "", nil},
		"file":                    {"log.level", "info", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load(Sources{Flags: map[string]string{tc.key: tc.value}})
			if (err != nil) != (tc.refused != nil) {
				t.Fatalf("error %v", err)
			}
			for _, want := range tc.refused {
				if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), canary) {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

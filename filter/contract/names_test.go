package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHeaderNames holds what header handling relies on: Envoy hands names over
// in lower case, a name's twin has underscores for hyphens, and no two names, nor
// a name and a twin of another, are the same.
func TestHeaderNames(t *testing.T) {
	names := slices.Concat(IdentityHeaders[:], OAuthHeaders)
	seen := map[string]bool{}
	for _, n := range names {
		if n == "" || strings.Trim(n, "abcdefghijklmnopqrstuvwxyz-") != "" {
			t.Errorf("%q is not a lower-case header name", n)
		}
		twin := strings.ReplaceAll(n, "-", "_")
		if twin == n {
			t.Errorf("%q has no twin", n)
		}
		if seen[n] || seen[twin] {
			t.Errorf("%q is listed twice", n)
		}
		seen[n], seen[twin] = true, true
	}
	if len(seen) != 2*len(names) {
		t.Errorf("%d names and twins of %d headers", len(seen), len(names))
	}
}

// TestIdentityHeaders fixes the names that upstream servers read.
func TestIdentityHeaders(t *testing.T) {
	want := map[Header]string{
		HeaderConsumerID: "x-consumer-id", HeaderConsumerCustomID: "x-consumer-custom-id", HeaderConsumerUsername: "x-consumer-username",
		HeaderCredentialIdentifier: "x-credential-identifier", HeaderAuthenticatedScope: "x-authenticated-scope",
		HeaderAuthenticatedUserID: "x-authenticated-userid", HeaderAnonymousConsumer: "x-anonymous-consumer",
	}
	got := map[Header]string{}
	for i, n := range IdentityHeaders {
		got[Header(i)] = n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestOAuthHeaders holds that every hand-over header has our prefix, by which no
// upstream or client can mean one of its own.
func TestOAuthHeaders(t *testing.T) {
	for _, n := range OAuthHeaders {
		if !strings.HasPrefix(n, "x-meshgate-") {
			t.Errorf("%q is not ours", n)
		}
	}
}

// TestRedisKeys fixes the keys: control planes and filters of different versions
// share one Redis. A token appears as its SHA-256 only.
func TestRedisKeys(t *testing.T) {
	hash := HashToken([]byte("secret-token"))
	got := []string{
		RedisRecordKey("", hash), RedisRecordKey("p1", hash), RedisCredentialKey("p1", "c1"), RedisConsumerKey("p1", "u1"),
		RedisMembersKey("g1"), RedisClockKey,
	}
	want := []string{
		"meshgate:token:930bbdc51b6aed5c2a5678fd6e28dee7a05e8a4b643cfc0b4427c3efb86c0d94",
		"meshgate:token:p1:930bbdc51b6aed5c2a5678fd6e28dee7a05e8a4b643cfc0b4427c3efb86c0d94",
		"meshgate:credential:p1:c1", "meshgate:consumer:p1:u1", "meshgate:{meshgate:clock}:members:g1", "meshgate:clock",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

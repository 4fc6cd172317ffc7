package relay

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
)

func TestCacheSurvivesAndIsChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c")
	rs := []*resource.Resource{resource.New(resource.Cluster, "a", []byte{1, 2}), resource.New(resource.Secret, "s", []byte("key"))}
	if err := saveCache(path, "n", rs); err != nil {
		t.Fatal(err)
	}
	got, err := loadCache(path, "n")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(rs, got); d != "" {
		t.Fatal(d)
	}
	if _, err := loadCache(path, "other"); !errors.Is(err, errForeign) {
		t.Fatalf("foreign cache: %v", err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		bad := slices.Clone(raw)
		bad[i] ^= 0x40
		if _, err := parseCache(bad, "n"); err == nil {
			t.Fatalf("damage at byte %d went unnoticed", i)
		}
	}
}

func TestBlamed(t *testing.T) {
	names := []string{"a", "a-b", "c"}
	for text, want := range map[string][]string{
		"Error adding/updating listener(s) a-b: port in use": {"a-b"},
		"cluster(s) a: x, c: y":                              {"a", "c"},
		"Proto constraint validation failed":                 names,
	} {
		if d := cmp.Diff(want, blamed(text, names)); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func FuzzParseCache(f *testing.F) {
	f.Add([]byte(cacheMagic))
	f.Add([]byte{})
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = parseCache(raw, "n") })
}

// What is told on reconnecting names everything, and a version only where Envoy has
// confirmed what is here.
func TestVersionsToldOnReconnecting(t *testing.T) {
	put := func(t table, name, body string) { t.put(resource.New(resource.Cluster, name, []byte(body))) }
	current, good := table{}, table{}
	put(current, "same", "1")
	put(good, "same", "1")
	put(current, "new", "1")
	put(current, "changed", "2")
	put(good, "changed", "1")
	put(good, "removed", "1")
	want := map[string]string{
		"same": current[resource.Cluster]["same"].Version, "new": unconfirmed, "changed": unconfirmed, "removed": unconfirmed,
	}
	if got := versions(current, good, resource.Cluster); !maps.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/grpc"
)

// confirmed is a cache together with the table that its file should contain.
type confirmed struct {
	cache
	good   table
	states []map[resource.TypeURL]map[string]string // one after each record
}

func newConfirmed(path string) *confirmed {
	return &confirmed{cache: cache{path: path, node: "n"}, good: table{}}
}

// save stores resources as one response. An empty body drops the resource.
func (c *confirmed) save(t *testing.T, typ resource.TypeURL, bodies map[string]string) {
	t.Helper()
	var put []*resource.Resource
	var dropped []string
	for name, body := range bodies {
		if body == "" {
			c.good.drop(typ, name)
			dropped = append(dropped, name)
			continue
		}
		r := resource.New(typ, name, []byte(body))
		c.good.put(r)
		put = append(put, r)
	}
	if err := c.cache.save(c.good, []*discovery.DeltaDiscoveryResponse{record(typ, put, dropped)}); err != nil {
		t.Fatal(err)
	}
	c.states = append(c.states, state(c.good))
}

// state converts a table into a form that can be compared.
func state(t table) map[resource.TypeURL]map[string]string {
	out := map[resource.TypeURL]map[string]string{}
	for _, r := range t.all() {
		if out[r.Type] == nil {
			out[r.Type] = map[string]string{}
		}
		out[r.Type][r.Name] = r.Version + " " + string(r.Body)
	}
	return out
}

// loaded returns what a later process reads.
func loaded(t *testing.T, path string) map[resource.TypeURL]map[string]string {
	t.Helper()
	got, err := (&cache{path: path, node: "n"}).load()
	if err != nil {
		t.Fatal(err)
	}
	return state(got)
}

// TestCacheHoldsWhatWasConfirmed saves random responses. From time to time a new process takes
// over and adds to the same file.
func TestCacheHoldsWhatWasConfirmed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := newConfirmed(filepath.Join(t.TempDir(), "c"))
	largest := int64(0)
	for step := range 500 {
		bodies := map[string]string{}
		for range 1 + random.IntN(3) {
			body := ""
			if random.IntN(3) > 0 {
				body = strings.Repeat(strconv.Itoa(step), 1+random.IntN(10_000))
			}
			bodies[strconv.Itoa(random.IntN(40))] = body
		}
		c.save(t, resource.Types[random.IntN(len(resource.Types))], bodies)
		if d := cmp.Diff(state(c.good), loaded(t, c.path)); d != "" {
			t.Fatalf("step %d: %s", step, d)
		}
		largest = max(largest, c.size)
		if random.IntN(20) == 0 {
			c.cache = cache{path: c.path, node: "n"}
			if _, err := c.load(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if needed := c.good.bytes(); largest > 8<<20 || needed < 1<<20 {
		t.Fatalf("the file has grown to %d bytes and has to hold some %d", largest, needed)
	}
}

// TestDamagedCache: whatever happens to a file, it is refused or counts as what it was after
// one of its records.
func TestDamagedCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c")
	c := newConfirmed(path)
	c.save(t, resource.Cluster, map[string]string{"a": "1", "b": "1"})
	c.save(t, resource.Secret, map[string]string{"key": "private"})
	c.save(t, resource.Cluster, map[string]string{"a": "2", "b": ""})
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c.states = append(c.states, state(table{}))
	judge := func(what string, raw []byte) (believed bool) {
		t.Helper()
		got, err := (&cache{node: "n"}).parse(raw)
		if err != nil {
			return false
		}
		if !slices.ContainsFunc(c.states, func(s map[resource.TypeURL]map[string]string) bool { return cmp.Equal(s, state(got)) }) {
			t.Fatalf("%s: %v was never confirmed", what, state(got))
		}
		return cmp.Equal(state(got), c.states[2])
	}
	if !judge("undamaged", raw) {
		t.Fatal("the undamaged file is not believed")
	}
	for i := range raw {
		if judge(fmt.Sprintf("cut at byte %d", i), raw[:i]) {
			t.Fatalf("a file without its bytes from %d is believed whole", i)
		}
		bad := slices.Clone(raw)
		bad[i] ^= 0x40
		if judge(fmt.Sprintf("damaged at byte %d", i), bad) {
			t.Fatalf("damage at byte %d went unnoticed", i)
		}
	}
	if _, err := (&cache{path: path, node: "other"}).load(); !errors.Is(err, errForeign) {
		t.Fatalf("foreign cache: %v", err)
	}
}

// TestCacheTornByAPowerFailure: the file has its new length, but any part of what was being
// added may be missing. What was confirmed earlier is still read.
func TestCacheTornByAPowerFailure(t *testing.T) {
	c := newConfirmed(filepath.Join(t.TempDir(), "c"))
	c.save(t, resource.Cluster, map[string]string{"a": "1"})
	before := c.size
	var changes []*discovery.DeltaDiscoveryResponse
	for _, typ := range []resource.TypeURL{resource.Cluster, resource.Listener} {
		r := resource.New(typ, "b", bytes.Repeat([]byte("x"), 50))
		c.good.put(r)
		changes = append(changes, record(typ, []*resource.Resource{r}, nil))
		c.states = append(c.states, state(c.good))
	}
	if err := c.cache.save(c.good, changes); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	for from := int(before); from < len(raw); from += 7 {
		for to := from + 7; to <= len(raw); to += 7 {
			torn := slices.Clone(raw)
			clear(torn[from:to])
			later := cache{node: "n"}
			got, err := later.parse(torn)
			if err != nil {
				t.Fatalf("without the bytes from %d to %d: %v", from, to, err)
			}
			if !slices.ContainsFunc(c.states[:2], func(s map[resource.TypeURL]map[string]string) bool { return cmp.Equal(s, state(got)) }) {
				t.Fatalf("without the bytes from %d to %d it holds %v", from, to, state(got))
			}
			if later.whole {
				t.Fatalf("without the bytes from %d to %d it is added to", from, to)
			}
		}
	}
}

// TestCacheThatOthersTouched: a file that is gone, or is shorter or longer than expected, is
// rewritten with the next change.
func TestCacheThatOthersTouched(t *testing.T) {
	for name, touch := range map[string]func(path string, size int64) error{
		"gone":    func(path string, _ int64) error { return os.Remove(path) },
		"shorter": func(path string, size int64) error { return os.Truncate(path, size-1) },
		"longer":  func(path string, size int64) error { return os.Truncate(path, size+1) },
	} {
		for _, anew := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, new process %t", name, anew), func(t *testing.T) {
				c := newConfirmed(filepath.Join(t.TempDir(), "c"))
				c.save(t, resource.Cluster, map[string]string{"a": "1"})
				c.save(t, resource.Cluster, map[string]string{"b": "1"})
				if err := touch(c.path, c.size); err != nil {
					t.Fatal(err)
				}
				if anew {
					c.cache = cache{path: c.path, node: "n"}
					found, err := c.load()
					if err == nil {
						c.good = found
					}
				}
				c.save(t, resource.Cluster, map[string]string{"c": "1"})
				if d := cmp.Diff(state(c.good), loaded(t, c.path)); d != "" {
					t.Fatal(d)
				}
			})
		}
	}
}

// TestChangeCostsWhatItHolds: a change of one endpoint adds one record, even for a large
// proxy.
func TestChangeCostsWhatItHolds(t *testing.T) {
	c := newConfirmed(filepath.Join(t.TempDir(), "c"))
	many := map[string]string{}
	for i := range 2000 {
		many[strconv.Itoa(i)] = strings.Repeat("x", 500)
	}
	c.save(t, resource.Endpoint, many)
	before := c.size
	c.save(t, resource.Endpoint, map[string]string{"7": "y"})
	if added := c.size - before; added <= 0 || added > 300 {
		t.Fatalf("a change of one byte added %d bytes", added)
	}
}

// TestCachedListenerThatIsNotTaken: an earlier agent accepted a listener that this one
// refuses. The listener is missing and is reported as missing.
func TestCachedListenerThatIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	pipe := &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: "/x"}}}
	c := &cache{path: filepath.Join(dir, "cache"), node: "n"}
	good := table{}
	good.put(xdstest.Freeze(resource.Listener, "in", &listenerv3.Listener{Name: "in", Address: pipe}))
	good.put(xdstest.Listener("out", 1001, "r"))
	if err := c.rewrite(good); err != nil {
		t.Fatal(err)
	}
	r, err := New(Config{
		Password: "password", Node: "n", Socket: filepath.Join(dir, "s"), Cache: c.path, Log: slog.New(slog.DiscardHandler),
		Dial: func(context.Context) (*grpc.ClientConn, error) { return nil, errors.New("nobody is there") },
	})
	if err != nil {
		t.Fatal(err)
	}
	if refused := r.Refused(); len(refused) != 1 || !strings.Contains(refused["in"], "it names a socket") {
		t.Errorf("refused: %v", refused)
	}
	if told := r.told(resource.Listener); told["in"] != unconfirmed || told["out"] != good[resource.Listener]["out"].Version {
		t.Errorf("the control plane is told %v", told)
	}
}

// BenchmarkCacheOneEndpoint changes one endpoint of a proxy with 5,000 resources.
func BenchmarkCacheOneEndpoint(b *testing.B) {
	c := cache{path: filepath.Join(b.TempDir(), "c"), node: "n"}
	good := table{}
	for i := range 5000 {
		good.put(resource.New(resource.Endpoint, strconv.Itoa(i), make([]byte, 500)))
	}
	changes := func(i int) []*discovery.DeltaDiscoveryResponse {
		r := resource.New(resource.Endpoint, "7", []byte(strconv.Itoa(i)))
		good.put(r)
		return []*discovery.DeltaDiscoveryResponse{record(resource.Endpoint, []*resource.Resource{r}, nil)}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := c.save(good, changes(i)); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzParseCache(f *testing.F) {
	first := sha256.Sum256([]byte(cacheMagic))
	named, sum := put([]byte(cacheMagic), first, []byte("n"))
	one, _, err := encode(named, sum, []*discovery.DeltaDiscoveryResponse{record(resource.Cluster, []*resource.Resource{resource.New(resource.Cluster, "a", []byte("b"))}, []string{"c"})})
	if err != nil {
		f.Fatal(err)
	}
	for _, raw := range [][]byte{{}, []byte(cacheMagic), named, one} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c := cache{node: "n"}
		if _, err := c.parse(raw); err == nil && (c.size > int64(len(raw)) || c.whole != (c.size == int64(len(raw)))) {
			t.Fatalf("of %d bytes it holds %d, whole %t", len(raw), c.size, c.whole)
		}
	})
}

// On reconnecting, the relay names everything. It tells a version only where Envoy has
// confirmed the current content.
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

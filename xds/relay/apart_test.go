package relay_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/server"
	"github.com/meshgate/meshgate/xds/xdstest"
	"google.golang.org/protobuf/proto"
)

// speechless returns an Envoy that refuses every response with route tables in which there is
// one of these names, without saying which.
func speechless(bad func() []string) xdstest.Options {
	return xdstest.Options{Reject: func(u resource.TypeURL, names []string) string {
		if u == resource.Route && slices.ContainsFunc(names, func(n string) bool { return slices.Contains(bad(), n) }) {
			return "invalid regex"
		}
		return ""
	}}
}

// manyTables returns a listener for each of n route tables, and the tables, which answer with a
// status.
func manyTables(n, status int) (out []*resource.Resource) {
	for i := range n {
		name := fmt.Sprintf("table%d", i)
		out = append(out, xdstest.Listener("in-"+name, 1000+i, name), xdstest.Routes(name, "", status))
	}
	return out
}

// TestOneBadTableHoldsNoOtherBack: Envoy refuses a response because of two of its nine route
// tables, and does not say which. The control plane is told which, the others are served and
// kept, and these two stay as they were.
func TestOneBadTableHoldsNoOtherBack(t *testing.T) {
	p, dir := startPlane(t, "127.0.0.1:0"), t.TempDir()
	before, after := manyTables(9, 201), manyTables(9, 202)
	p.publish(before...)
	_, stop := startRelay(t, dir, p.addr)
	var bad atomic.Pointer[[]string] // the client reads in a goroutine of its own
	bad.Store(&[]string{})
	c := local(t, dir, speechless(func() []string { return *bad.Load() }))
	c.Request(resource.Route).Equals(t, tables(before)...)
	p.settle(t, p.rev)

	bad.Store(&[]string{"table2", "table7"})
	got := p.settle(t, p.publish(after...))
	if len(got.Rejected) != 1 {
		t.Fatalf("progress %+v", got)
	}
	if text := got.Rejected[0].Error; text != "table2: invalid regex; table7: invalid regex" {
		t.Errorf("the control plane is told %q", text)
	}
	mixed := tables(after)
	mixed[2], mixed[7] = tables(before)[2], tables(before)[7]
	bad.Store(&[]string{})
	c.Request(resource.Route).Equals(t, mixed...)

	p.kill()
	c.Close()
	stop()
	startRelay(t, dir, p.addr) // serves what is on disk
	local(t, dir, xdstest.Options{}).Request(resource.Route).Equals(t, mixed...)
}

func tables(all []*resource.Resource) (out []*resource.Resource) {
	for _, r := range all {
		if r.Type == resource.Route {
			out = append(out, r)
		}
	}
	return out
}

// envoys returns the Envoys of the tests: all that are supported, or the one that is asked for.
func envoys(t *testing.T) []string {
	t.Helper()
	if p := os.Getenv("ENVOY_PATH"); p != "" {
		return []string{p}
	}
	all, err := filepath.Glob("../../.tools/envoy*[0-9y]")
	if err != nil || len(all) == 0 {
		t.Fatalf("no Envoy: set ENVOY_PATH or run make build (%v)", err)
	}
	for i := range all {
		if all[i], err = filepath.Abs(all[i]); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestRealEnvoyRefusesATableWithoutNamingIt: an Envoy that cannot decode a table, or finds that
// it makes no sense, gets the others all the same.
func TestRealEnvoyRefusesATableWithoutNamingIt(t *testing.T) {
	broken := map[string]func(*routev3.RouteConfiguration){
		"it cannot be decoded": func(c *routev3.RouteConfiguration) { c.VirtualHosts[0].Domains = nil },
		"it makes no sense": func(c *routev3.RouteConfiguration) {
			c.VirtualHosts[0].Routes[0].Match.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "("}}
		},
	}
	for _, path := range envoys(t) {
		for name, breaks := range broken {
			t.Run(filepath.Base(path)+", "+name, func(t *testing.T) {
				t.Setenv("ENVOY_PATH", path)
				realEnvoyRefuses(t, breaks)
			})
		}
	}
}

func realEnvoyRefuses(t *testing.T, breaks func(*routev3.RouteConfiguration)) {
	dir, err := os.MkdirTemp("", "apart") // short enough for a socket path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	client := &http.Client{Timeout: patience, Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	names := []string{"shop", "cart", "mail", "news", "wiki"}
	listen := map[string]int{}
	for _, n := range names {
		listen[n] = freePort(t)
	}
	all := func(status int) (out []*resource.Resource) {
		for _, n := range names {
			out = append(out, xdstest.Listener("in-"+n, listen[n], n), xdstest.Routes(n, "", status))
		}
		return out
	}
	p := startPlane(t, "127.0.0.1:0")
	p.publish(all(201)...)
	startRelay(t, dir, p.addr)
	startEnvoy(t, dir)
	for _, n := range names {
		untilAnswer(t, client, dir, listen[n], "201 ")
	}
	next := all(202)
	for i, r := range next {
		if r.Type == resource.Route && r.Name == "mail" {
			next[i] = brokenTable(t, r, breaks)
		}
	}
	got := p.settle(t, p.publish(next...))
	if len(got.Rejected) != 1 || !server.Mentions(got.Rejected[0].Error, "mail") {
		t.Errorf("progress %+v", got)
	}
	for _, n := range names {
		want := "202 "
		if n == "mail" {
			want = "201 "
		}
		expectAnswer(t, client, listen[n], want)
	}
	if got := p.settle(t, p.publish(all(203)...)); len(got.Rejected) > 0 {
		t.Errorf("once it is mended: %+v", got.Rejected)
	}
	for _, n := range names {
		expectAnswer(t, client, listen[n], "203 ")
	}
}

func brokenTable(t *testing.T, r *resource.Resource, breaks func(*routev3.RouteConfiguration)) *resource.Resource {
	t.Helper()
	var c routev3.RouteConfiguration
	if err := proto.Unmarshal(r.Body, &c); err != nil {
		t.Fatal(err)
	}
	breaks(&c)
	return xdstest.Freeze(resource.Route, r.Name, &c)
}

package gatewayapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gatewayapi"
)

// proxies answers with prepared documents of Envoys, by node.
type proxies map[string]string

// Clusters implements gatewayapi.Proxies.
func (p proxies) Clusters(_ context.Context, _ string, read func(string, []byte)) {
	for node, text := range p {
		read(node, []byte(text))
	}
}

// host returns a host of a cluster in Envoy's format.
func host(address, name, status string) string {
	return fmt.Sprintf(`{"address":{"socket_address":{"address":%q,"port_value":80}},"hostname":%q,"weight":100,"health_status":%s}`, address, name, status)
}

// TestHealthOfTargets: the state of a target is what gateways see. If they differ, the worst
// state counts.
func TestHealthOfTargets(t *testing.T) {
	seen := proxies{}
	f := setupWith(t, func(o *gatewayapi.Options) { o.Proxies = seen })
	f.do("PUT", "/upstreams/Api.Example", `{"healthchecks":{"passive":{"unhealthy":{"tcp_failures":1}}}}`)
	f.do("POST", "/upstreams", `{"name":"off.example"}`)
	for _, target := range []string{"10.0.0.1", "10.0.0.2", "[::1]", "Name.Example", "gone.example", "10.0.0.3", "10.0.0.4"} {
		f.do("POST", "/upstreams/api.example/targets", fmt.Sprintf(`{"target":"%s:80"}`, target))
		f.do("POST", "/upstreams/off.example/targets", fmt.Sprintf(`{"target":"%s:80"}`, target))
	}
	f.do("PATCH", "/upstreams/api.example/targets/10.0.0.4:80", `{"weight":0}`)
	read := func(path string) map[string]string {
		t.Helper()
		w := f.do("GET", path, "")
		var doc struct {
			Data []struct {
				Target, Health string
				Data           struct {
					Addresses []struct{ Node, IP, Health string }
				}
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		out := map[string]string{}
		for _, d := range doc.Data {
			for _, a := range d.Data.Addresses {
				out[d.Target+" at "+a.Node] = a.Health
			}
			out[d.Target] = d.Health
		}
		return out
	}
	all := func(state string) map[string]string {
		return map[string]string{
			"10.0.0.1:80": state, "10.0.0.2:80": state, "[0000:0000:0000:0000:0000:0000:0000:0001]:80": state, "Name.Example:80": state,
			"gone.example:80": state, "10.0.0.3:80": state, "10.0.0.4:80": state,
		}
	}
	if diff := cmp.Diff(all("HEALTHCHECKS_OFF"), read("/upstreams/Api.Example/health")); diff != "" {
		t.Errorf("without a service and a gateway: %s", diff)
	}
	w := f.do("POST", "/services", `{"name":"s","host":"API.example"}`)
	var s struct{ ID string }
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	cluster := func(hosts string) string {
		return `{"cluster_statuses":[{"name":"service:` + s.ID + `:0123","host_statuses":[` + hosts + `]},{"name":"oauth2"},
			{"name":"service:00000000-0000-4000-8000-000000000000:0123","host_statuses":[` + host("10.0.0.1", "", `{"failed_active_health_check":true}`) + `]}]}`
	}
	good := host("10.0.0.1", "", `{"eds_health_status":"HEALTHY"}`) + "," + host("::1", "", `{}`)
	seen["one"] = cluster(good + "," + host("10.0.0.2", "", `{"failed_outlier_check":true}`) + "," + host("192.0.2.1", "name.example:80", `{}`))
	seen["two"] = cluster(good + "," + host("10.0.0.2", "", `{}`) + "," + host("192.0.2.2", "name.example", `{"eds_health_status":"HEALTHY"}`))
	seen["broken"] = "not JSON"
	want := map[string]string{
		"10.0.0.1:80": "HEALTHY", "10.0.0.1:80 at one": "HEALTHY", "10.0.0.1:80 at two": "HEALTHY",
		"10.0.0.2:80": "UNHEALTHY", "10.0.0.2:80 at one": "UNHEALTHY", "10.0.0.2:80 at two": "HEALTHY",
		"[0000:0000:0000:0000:0000:0000:0000:0001]:80":        "HEALTHY",
		"[0000:0000:0000:0000:0000:0000:0000:0001]:80 at one": "HEALTHY", "[0000:0000:0000:0000:0000:0000:0000:0001]:80 at two": "HEALTHY",
		"Name.Example:80": "HEALTHY", "Name.Example:80 at one": "HEALTHY", "Name.Example:80 at two": "HEALTHY",
		"gone.example:80": "DNS_ERROR", "10.0.0.3:80": "UNHEALTHY", "10.0.0.4:80": "HEALTHCHECKS_OFF",
	}
	if diff := cmp.Diff(want, read("/upstreams/api.example/health")); diff != "" {
		t.Errorf("seen by two gateways: %s", diff)
	}
	if diff := cmp.Diff(all("HEALTHCHECKS_OFF"), read("/upstreams/off.example/health")); diff != "" {
		t.Errorf("without checks: %s", diff)
	}
	w = f.do("POST", "/services", `{"name":"o","host":"off.example"}`)
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	seen["one"], seen["two"] = cluster(good+","+host("192.0.2.1", "name.example:80", `{}`)), "not JSON"
	unresolved := all("HEALTHCHECKS_OFF")
	unresolved["gone.example:80"] = "DNS_ERROR"
	if diff := cmp.Diff(unresolved, read("/upstreams/off.example/health")); diff != "" {
		t.Errorf("a name that is not resolved, without checks: %s", diff)
	}
	seen["one"] = "not JSON"
	if diff := cmp.Diff(all("HEALTHCHECKS_OFF"), read("/upstreams/off.example/health")); diff != "" {
		t.Errorf("without checks, and no gateway says anything: %s", diff)
	}
	if w := f.do("GET", "/upstreams/none/health", ""); w.Code != 404 {
		t.Errorf("no upstream: %d", w.Code)
	}
	if got := f.page(t, "/upstreams/api.example/health?size=2"); len(got.Data) != 2 || got.Next == nil {
		t.Errorf("page %+v", got)
	}
}

// TestTagsBesideAnotherFilter: who asks for a consumer by a unique value and by tags gets
// one that has both, and a faulty filter is refused: a tool may delete what it gets.
func TestTagsBesideAnotherFilter(t *testing.T) {
	f := setup(t, nil)
	f.do("POST", "/consumers", `{"username":"jo","custom_id":"c-1","tags":["mine","ours"]}`)
	for query, want := range map[string]int{"": 1, "&tags=mine": 1, "&tags=mine,ours": 1, "&tags=other/ours": 1, "&tags=other": 0, "&tags=mine,other": 0} {
		if got := f.page(t, "/consumers?custom_id=c-1"+query); len(got.Data) != want {
			t.Errorf("%q: %d consumers, want %d", query, len(got.Data), want)
		}
	}
	for _, query := range []string{"&tags=", "&tags=a,b/c"} {
		if w := f.do("GET", "/consumers?custom_id=c-1"+query, ""); w.Code != 400 {
			t.Errorf("%q: %d", query, w.Code)
		}
	}
}

// TestTagPages: every tag of every entity is listed once, whatever the size of the pages.
func TestTagPages(t *testing.T) {
	f := setup(t, nil)
	var want []string
	for i := range 7 {
		tags := []string{"all"}
		for j := range i % 4 {
			tags = append(tags, fmt.Sprint("t", j))
		}
		raw, err := json.Marshal(tags)
		if err != nil {
			t.Fatal(err)
		}
		f.do("POST", "/consumers", fmt.Sprintf(`{"username":"c%d","tags":%s}`, i, raw))
		f.do("POST", "/services", fmt.Sprintf(`{"name":"s%d","host":"h.example","tags":%s}`, i, raw))
		f.do("POST", "/upstreams", fmt.Sprintf(`{"name":"u%d.example"}`, i))
		want = append(want, tags...)
		want = append(want, tags...)
	}
	slices.Sort(want)
	for _, path := range []string{"/tags", "/tags/all"} {
		for size := 1; size <= 30; size += 3 {
			var got []string
			seen := map[string]bool{}
			for target := fmt.Sprintf("%s?size=%d", path, size); target != ""; {
				w := f.do("GET", target, "")
				var doc struct {
					Data []map[string]string
					Next *string
				}
				if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 || len(doc.Data) > size {
					t.Fatalf("%s: %d %s", target, w.Code, w.Body)
				}
				for _, d := range doc.Data {
					got = append(got, d["tag"])
					if key := fmt.Sprint(d); seen[key] {
						t.Errorf("twice: %s", key)
					} else {
						seen[key] = true
					}
				}
				if target = ""; doc.Next != nil {
					target = *doc.Next
				}
			}
			slices.Sort(got)
			expected := want
			if path == "/tags/all" {
				expected = slices.DeleteFunc(slices.Clone(want), func(s string) bool { return s != "all" })
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Fatalf("%s by %d: %s", path, size, diff)
			}
		}
	}
}

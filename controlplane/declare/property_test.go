package declare

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
)

// drawn returns a random configuration as a file.
func drawn(t *rapid.T) map[string]any {
	some := func(what string, most int, make func(i int) map[string]any) []any {
		var list []any
		for i := range rapid.IntRange(0, most).Draw(t, what) {
			list = append(list, make(i))
		}
		return list
	}
	is := func(what string) bool { return rapid.Bool().Draw(t, what) }
	tags := func(e map[string]any) map[string]any {
		if is("tagged") {
			e["tags"] = []any{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "tag"), "c"}
		}
		return e
	}
	plugin := func(i int) map[string]any {
		p := map[string]any{"name": []string{"key-auth", "request-termination", "oauth2"}[i]}
		if i == 2 {
			p["config"] = map[string]any{"enable_client_credentials": true, "token_expiration": rapid.IntRange(0, 9999).Draw(t, "expiration")}
		}
		return tags(p)
	}
	route := func(prefix string) func(i int) map[string]any {
		return func(i int) map[string]any {
			r := map[string]any{"paths": []any{fmt.Sprintf("/%s/%d", prefix, i)}, "plugins": some("plugins", 3, plugin)}
			if is("named") {
				r["name"] = fmt.Sprintf("%s-%d", prefix, i)
			}
			if is("headers") {
				r["headers"] = map[string]any{"x-a": []any{"1", "2"}}
			}
			return tags(r)
		}
	}
	return map[string]any{
		"_format_version": "3.0",
		"services": some("services", 3, func(i int) map[string]any {
			return tags(map[string]any{
				"name": fmt.Sprintf("s%d", i), "url": rapid.SampledFrom([]string{"http://a.example", "https://b.example:9443/x", "http://u0"}).Draw(t, "url"),
				"retries": rapid.IntRange(0, 9).Draw(t, "retries"), "routes": some("routes", 3, route(fmt.Sprintf("s%d", i))), "plugins": some("plugins", 2, plugin),
			})
		}),
		"routes": some("routes", 2, route("alone")),
		"consumers": some("consumers", 3, func(i int) map[string]any {
			c := map[string]any{"username": fmt.Sprintf("c%d", i)}
			if is("custom") {
				c = map[string]any{"custom_id": fmt.Sprintf("id-%d", i)}
			}
			c["keyauth_credentials"] = some("keys", 3, func(j int) map[string]any { return tags(map[string]any{"key": fmt.Sprintf("key-%d-%d", i, j)}) })
			c["oauth2_credentials"] = some("applications", 2, func(j int) map[string]any {
				return map[string]any{
					"name": "app", "client_id": fmt.Sprintf("app-%d-%d", i, j), "client_secret": fmt.Sprintf("secret-%d-%d", i, j), "hash_secret": is("hash"),
					"redirect_uris": []any{"https://app.example/cb"},
				}
			})
			return c
		}),
		"upstreams": some("upstreams", 2, func(i int) map[string]any {
			return tags(map[string]any{"name": fmt.Sprintf("u%d", i), "targets": some("targets", 3, func(j int) map[string]any {
				return map[string]any{"target": fmt.Sprintf("10.0.%d.%d:80", i, j), "weight": rapid.IntRange(0, 100).Draw(t, "weight")}
			})})
		}),
		"plugins": some("plugins", 2, plugin),
	}
}

// TestRoundTrip: whatever a file says is the same after a sync, a dump, a reset and a sync of
// the dump, and nothing is left to do after a sync.
func TestRoundTrip(t *testing.T) {
	r := newRig(t, "")
	dir := t.TempDir()
	name := filepath.Join(dir, "f.yaml")
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue { // a run is many commands
		if err := f.Value.Set("25"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(f.DefValue) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		run := func(args ...string) string {
			out, err := clitest.Execute(t, GatewayCommand(), append(args, "--gateway-addr", r.url)...)
			if err != nil {
				rt.Fatalf("%v: %v\n%s\n%s", args, err, out, read(t, name))
			}
			return out
		}
		write := func(text string) {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				rt.Fatal(err)
			}
		}
		idle := func() {
			if out := run("diff", name, "--non-zero-exit-code"); !strings.HasPrefix(out, "Summary:") {
				rt.Fatalf("%s", out)
			}
		}
		text, err := encode(drawn(rt), asYAML)
		if err != nil {
			rt.Fatal(err)
		}
		write(string(text))
		run("sync", name) // over whatever the run before has left
		idle()
		dump := run("dump")
		write(dump)
		idle()
		run("reset", "--yes")
		run("sync", name)
		if again := run("dump"); again != dump {
			rt.Fatalf("before:\n%s\nafter:\n%s", dump, again)
		}
	})
}

// FuzzFile: no file brings the parser down, and one that is taken is not refused for its shape
// afterwards.
func FuzzFile(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("_format_version: \"3.0\"\n_info: {select_tags: [a], defaults: {service: {port: 1}}}\n_cloud: {control_plane_name: x}\n"))
	f.Add([]byte("{\"_format_version\": \"3.0\", \"consumers\": [{\"username\": \"${{ env \\\"DECK_A\\\" }}\"}]}"))
	f.Add([]byte("_format_version: 3.0\nservices: [&a {name: x}, *a]\nplugins: [{name: oauth2, service: {name: x}, config: {anonymous: 5}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Parse([]source{{"f", data}}, Kinds(false, true))
		if err != nil {
			if err.Error() == "" {
				t.Error("an error says nothing")
			}
			return
		}
		b := &builder{document: d, current: newState()}
		if state, err := b.build(t.Context(), Kinds(false, true)); err == nil {
			for _, e := range state.Entities {
				if e.ID == "" || label(e, state) == "" {
					t.Errorf("%v", e)
				}
			}
		}
	})
}

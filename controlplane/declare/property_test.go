package declare

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
	"github.com/meshgate/meshgate/controlplane/declarative"
	"github.com/meshgate/meshgate/e2e/few"
)

// selected is the tag of a configuration of which there is more in the gateway.
const selected = "selected"

// drawn returns a random configuration as a file. cert and key are those of its certificates.
func drawn(t *rapid.T, cert, key string) map[string]any {
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
		if i == 1 && is("literal") {
			p["config"] = map[string]any{"message": declarative.Literal(`${{ env "DECK_X" }} ${{`)}
		}
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
	info := map[string]any{}
	if is("selected") {
		info["select_tags"] = []any{selected}
	}
	return map[string]any{
		"_format_version": "3.0", "_info": info,
		"certificates": some("certificates", 2, func(i int) map[string]any {
			c := map[string]any{"cert": cert, "key": key, "id": fmt.Sprintf("c0000000-0000-4000-8000-00000000000%d", i)}
			if is("named") {
				c["snis"] = []any{fmt.Sprintf("host-%d.example", i)}
			}
			return tags(c)
		}),
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
			c["keyauth_credentials"] = some("keys", 3, func(j int) map[string]any {
				k := map[string]any{"key": fmt.Sprintf("key-%d-%d", i, j)}
				if is("ends") {
					k["ttl"] = rapid.IntRange(1000, 9999).Draw(t, "ttl")
				}
				return tags(k)
			})
			c["oauth2_credentials"] = some("applications", 2, func(j int) map[string]any {
				app := map[string]any{
					"name": "app", "client_id": fmt.Sprintf("app-%d-%d", i, j), "client_secret": fmt.Sprintf("secret-%d-%d", i, j), "hash_secret": is("hash"),
					"redirect_uris": []any{"https://app.example/cb"},
				}
				if is("rotated") {
					app["secondary_secret"] = fmt.Sprintf("old-%d-%d", i, j)
				}
				return app
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

// running are the parts of a dump that differ from second to second.
var running = regexp.MustCompile(`(dumped_at|ttl): .*`)

// TestRoundTrip: whatever a file says is the same after a sync, a dump, a reset and a sync of
// the dump, and nothing is left to do after a sync.
func TestRoundTrip(t *testing.T) {
	r := newRig(t, "")
	cert, key := pair(t)
	dir := t.TempDir()
	name := filepath.Join(dir, "f.yaml")
	few.Runs(t, 25) // a run is many commands
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
		doc := drawn(rt, cert, key)
		var narrowed []string
		text, err := encode(doc, asYAML)
		if err != nil {
			rt.Fatal(err)
		}
		write(string(text))
		if len(doc["_info"].(map[string]any)) > 0 { // else what the run before has left is somebody else's, and in the way
			narrowed = []string{"--select-tag", selected}
			run("reset", "--yes")
		}
		run("sync", name) // over whatever the run before has left
		idle()
		dump := run(append([]string{"dump"}, narrowed...)...)
		write(dump)
		idle()
		run("reset", "--yes")
		run("sync", name)
		if again := run(append([]string{"dump"}, narrowed...)...); running.ReplaceAllString(again, "") != running.ReplaceAllString(dump, "") {
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

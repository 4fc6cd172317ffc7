package all

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
)

// odd are texts and numbers that somebody may write into any field, or as the name of one.
var odd = []any{
	"", "a", "a b", "é", "\x00", "a\x00b", "a\nb", "a\rb", "a\tb", "\x7f", "100%", "%NONE%", "host", ":path", "*", "/a\nb", "/a\x00", `\9`, "(",
	"0s", "-1s", "1ns", "1ms", "50ms", "1000000h", "NaN", "1", "kbps", "1.5", "-1",
	strings.Repeat("a", 256), strings.Repeat("%", 8193), strings.Repeat("a", 16385), "/" + strings.Repeat("a", 70000),
	-1, 0, 1, 101, 600, 65536, 1<<32 - 1, 0.001, 1e300,
}

// TestAcceptedFreezes: of what the API accepts a proxy can be made. A part of it that breaks the
// rules of Envoy's protos would be left as it was, and the proxy told of it, long after the
// answer to whoever wrote it.
func TestAcceptedFreezes(t *testing.T) {
	for _, p := range Policies() {
		if p.Patch != nil {
			continue // texts in texts: see FuzzTemplates
		}
		t.Run(p.Kind.Document.Type, func(t *testing.T) {
			accepted, refused := 0, 0
			for _, s := range policytest.Samples(t, "..", p.Kind) {
				var doc any
				if err := yaml.Unmarshal(s.Text, &doc); err != nil {
					t.Fatal(err)
				}
				vary(doc, "", func(path string, value any) {
					spec := read(p.Kind, doc)
					if spec == nil {
						refused++
						return
					}
					accepted++
					if err := freezes(p, spec); err != nil {
						t.Errorf("%s with %s %.40q: %v", s.Name, path, fmt.Sprint(value), err)
					}
				})
			}
			if accepted == 0 || refused == 0 {
				t.Errorf("%d documents are accepted and %d refused: they are not odd enough", accepted, refused)
			}
		})
	}
}

// vary replaces one leaf, or the name of one tag or header, of a document by one odd value at a
// time, and makes one list very long.
func vary(node any, path string, try func(path string, value any)) {
	switch n := node.(type) {
	case []any:
		for i := range n {
			replace(n[i], fmt.Sprintf("%s[%d]", path, i), func(v any) { n[i] = v }, try)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(n)) {
			replace(n[key], path+"."+key, func(v any) { n[key] = v }, try)
			if parent := path[strings.LastIndex(path, ".")+1:]; parent == "match" || parent == "destination" || parent == "headers" || parent == "tags" {
				rename(n, key, path, try)
			}
		}
	}
}

// replace varies one value, which set puts into its place.
func replace(was any, path string, set func(any), try func(path string, value any)) {
	if list, ok := was.([]any); ok && len(list) > 0 {
		set(slices.Repeat(list[:1], 1001))
		try(path, "1001 elements")
		set(was)
	}
	switch was.(type) {
	case map[string]any, []any:
		vary(was, path, try)
		return
	}
	for _, value := range odd {
		set(value)
		try(path, value)
	}
	set(was)
}

// rename varies the name of a member.
func rename(n map[string]any, key, path string, try func(path string, value any)) {
	was := n[key]
	for _, value := range odd {
		name, is := value.(string)
		if _, there := n[name]; !is || there {
			continue
		}
		delete(n, key)
		n[name] = was
		try(path+"."+key+" named", value)
		delete(n, name)
		n[key] = was
	}
}

// read decodes a document as the API does. It returns nil if that refuses it.
func read(k *model.Kind, doc any) any {
	raw, err := json.Marshal(doc)
	if err != nil {
		return nil
	}
	_, spec, err := model.DecodeDocument(k, raw)
	if err != nil {
		return nil
	}
	k.Document.Default(spec)
	if len(k.Document.Validate(spec)) > 0 {
		return nil
	}
	return spec
}

// freezes makes resources of what a policy edits and adds.
func freezes(p *policy.Policy, spec any) error {
	s := policytest.Choose(p, policytest.Of(p.Kind, "x", spec))
	for _, protocol := range []string{mesh.ProtocolHTTP, mesh.ProtocolTCP} {
		if _, err := build(protocol, []chosen{{p, s}}); err != nil {
			return fmt.Errorf("%s: %w", protocol, err)
		}
	}
	return policytest.FreezeContributions(p, s)
}

package all

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
	"github.com/meshgate/meshgate/xds/resource"
)

// helpers are the folders that are not policies.
var helpers = []string{"all", "callers", "logging", "permit", "policytest", "target", "tracing"}

func folder(p *policy.Policy) string {
	return filepath.Join("..", strings.ToLower(p.Kind.Document.Type))
}

// TestEveryFolderIsListed: every folder of a policy has its line in Policies.
func TestEveryFolderIsListed(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	var folders, listed []string
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(helpers, e.Name()) {
			folders = append(folders, e.Name())
		}
	}
	for _, p := range Policies() {
		listed = append(listed, filepath.Base(folder(p)))
	}
	if diff := cmp.Diff(folders, listed); diff != "" {
		t.Errorf("folders (-there +listed):\n%s", diff)
	}
}

// TestEveryFolderIsComplete requires of each policy what readers and the program rely on.
func TestEveryFolderIsComplete(t *testing.T) {
	for _, p := range Policies() {
		d := p.Kind.Document
		t.Run(d.Type, func(t *testing.T) {
			dir := folder(p)
			for _, name := range []string{"spec.go", "apply.go", "explain.go", filepath.Base(dir) + "_test.go", "README.md"} {
				if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
					t.Error(err)
				}
			}
			if d.Singular == "" || d.Plural == "" || !d.Policy || acts(d.Inbound)+acts(d.Outbound)+acts(d.Proxy) != 1 || d.Default == nil || d.Validate == nil {
				t.Errorf("document is incomplete: %+v", d)
			}
			if p.Kind.Path == "" || p.Kind.Scoping != model.Mesh || p.Kind.Class != model.Config {
				t.Errorf("kind is incomplete: %+v", p.Kind)
			}
			if _, ok := p.Kind.New().(model.Selecting); !ok {
				t.Error("specs do not say what they select")
			}
			if p.Explain == nil || reflect.ValueOf(p.Edits).IsZero() {
				t.Error("the policy does nothing, or does not explain it")
			}
			for _, s := range policytest.Samples(t, "..", p.Kind) {
				if _, err := os.Stat(filepath.Join(dir, "testdata", s.Name+".golden.yaml")); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func acts(here bool) int {
	if here {
		return 1
	}
	return 0
}

// TestReadmes: the examples in each README are valid.
func TestReadmes(t *testing.T) {
	for _, p := range Policies() {
		for _, text := range policytest.Examples(t, filepath.Join(folder(p), "README.md")) {
			policytest.Resource(t, p.Kind, text)
		}
	}
}

// TestEveryKindHasAPage: each policy, and each other kind that changes how a mesh is called, has
// a page for operators with commands, which e2e/guides runs. Their table names it, and the page
// leads to the README of the policy, which has the fields.
func TestEveryKindHasAPage(t *testing.T) {
	pages := filepath.Join("..", "..", "..", "docs", "policies")
	table, err := os.ReadFile(filepath.Join(pages, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range append(Kinds(), mesh.ExternalServices, mesh.VirtualOutbounds) {
		page := strings.ReplaceAll(k.Name, "_", "-") + ".md"
		if !strings.Contains(string(table), "| ["+k.Document.Type+"]("+page+") |") {
			t.Errorf("docs/policies/README.md does not lead to %s", page)
		}
		text, err := os.ReadFile(filepath.Join(pages, page))
		if err != nil {
			t.Error(err)
			continue
		}
		wanted := []string{"# " + k.Document.Type + "\n", "\n```sh\n", "put shop/" + k.Path + "/", "\nremove shop/" + k.Path + "/"}
		if k.Document.Policy {
			wanted = append(wanted, "](../../xds/policy/"+strings.ToLower(k.Document.Type)+"/README.md")
		}
		for _, w := range wanted {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s does not have %q", page, w)
			}
		}
	}
}

// TestKindsAreDistinct: names are storage keys, and paths are routes.
func TestKindsAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Kinds() {
		for _, key := range []string{"name " + k.Name, "path " + k.Path, "type " + k.Document.Type} {
			if seen[key] {
				t.Errorf("%s twice", key)
			}
			seen[key] = true
		}
	}
}

// TestDefaults: a new mesh gets exactly these policies. They are valid and complete, and each
// call returns a new spec.
func TestDefaults(t *testing.T) {
	var names []string
	for _, d := range Defaults() {
		names = append(names, d.Prefix)
		spec := d.Spec()
		if reflect.TypeOf(spec) != reflect.TypeOf(d.Kind.New()) || spec == d.Spec() {
			t.Errorf("%s: spec is %T, or shared", d.Prefix, spec)
		}
		before := d.Spec()
		d.Kind.Document.Default(spec)
		if diff := cmp.Diff(before, spec); diff != "" {
			t.Errorf("%s is not complete:\n%s", d.Prefix, diff)
		}
		if vs := d.Kind.Document.Validate(spec); len(vs) > 0 {
			t.Errorf("%s: %v", d.Prefix, vs)
		}
	}
	want := []string{"allow-all-", "route-all-", "timeout-all-", "circuit-breaker-all-", "retry-all-"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// selections returns what the samples of a policy choose.
func selections(t *testing.T, p *policy.Policy) []*policy.Selection {
	t.Helper()
	var out []*policy.Selection
	for _, s := range policytest.Samples(t, "..", p.Kind) {
		out = append(out, policytest.Select(t, p, s.Text))
	}
	return out
}

// chosen is a policy with its selection.
type chosen struct {
	policy    *policy.Policy
	selection *policy.Selection
}

// build applies policies to new drafts, phase by phase, and freezes them.
func build(protocol string, cs []chosen) (map[string]string, error) {
	cs = deciding(cs)
	d := policytest.NewDrafts(protocol, true)
	for _, phase := range []policy.Phase{policy.Routes, policy.Settings} {
		for _, c := range cs {
			if c.policy.Phase != phase {
				continue
			}
			if err := d.Apply(c.policy, c.selection); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range cs {
		if err := d.Callers(c.policy, c.selection); err != nil {
			return nil, err
		}
	}
	for _, c := range cs {
		if err := d.Demand(c.policy, c.selection); err != nil {
			return nil, err
		}
	}
	rs, err := d.Freeze()
	return bodies(rs), err
}

// deciding leaves out the policies for which another one decides.
func deciding(cs []chosen) []chosen {
	return slices.DeleteFunc(slices.Clone(cs), func(c chosen) bool {
		return slices.ContainsFunc(cs, func(o chosen) bool { return o.policy.Kind.Name == c.policy.Yields && o.selection != nil })
	})
}

func bodies(rs []*resource.Resource) map[string]string {
	out := map[string]string{}
	for _, r := range rs {
		out[string(r.Type)+" "+r.Name] = string(r.Body)
	}
	return out
}

// TestEditsArePure: the same selection makes the same bytes again, and stays unchanged.
func TestEditsArePure(t *testing.T) {
	for _, p := range Policies() {
		for i, s := range selections(t, p) {
			fresh := selections(t, p)[i]
			for _, protocol := range policytest.Protocols {
				first, err := build(protocol, []chosen{{p, s}})
				if err != nil {
					t.Fatal(err)
				}
				second, err := build(protocol, []chosen{{p, s}})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(first, second); diff != "" {
					t.Errorf("%s, %s: second time differs:\n%s", p.Kind.Name, protocol, diff)
				}
			}
			p.Explain(s)
			if diff := cmp.Diff(fresh.Policies[0].Spec, s.Policies[0].Spec); diff != "" {
				t.Errorf("%s: the spec was changed:\n%s", p.Kind.Name, diff)
			}
		}
	}
}

// TestOrderOfPoliciesMakesNoDifference shuffles the policies of all phases. The bytes must be
// equal and satisfy the rules of every proto.
func TestOrderOfPoliciesMakesNoDifference(t *testing.T) {
	policies := Policies()
	inputs := make([][]*policy.Selection, len(policies))
	for i, p := range policies {
		inputs[i] = selections(t, p)
	}
	rapid.Check(t, func(t *rapid.T) {
		var cs []chosen
		for i, p := range policies {
			cs = append(cs, chosen{p, rapid.SampledFrom(inputs[i]).Draw(t, p.Kind.Name)})
		}
		protocol := rapid.SampledFrom(policytest.Protocols).Draw(t, "protocol")
		want, err := build(protocol, cs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := build(protocol, rapid.Permutation(cs).Draw(t, "order"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("the order makes a difference:\n%s", diff)
		}
	})
}

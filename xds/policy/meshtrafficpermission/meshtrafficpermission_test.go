package meshtrafficpermission

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/view"
	"github.com/meshgate/meshgate/xds/policy"
	"github.com/meshgate/meshgate/xds/policy/policytest"
	"github.com/meshgate/meshgate/xds/policy/target"
)

func TestGolden(t *testing.T) { policytest.Golden(t, Policy) }

// TestValidate covers every violation, with its path.
func TestValidate(t *testing.T) {
	const (
		to   = `"targetRef":{"kind":"Mesh"}`
		item = `{"targetRef":{"kind":"Mesh"},"default":{"action":"Allow"}}`
	)
	const unknown = "spec.from[0].default.action: value is not supported. Available values: Allow, Deny, AllowWithShadowDeny"
	for _, c := range []struct {
		name, fields string
		want         []string
	}{
		{"valid", `"spec":{` + to + `,"from":[` + item + `]}`, nil},
		{"capitals", `"spec":{` + to + `,"from":[{"targetRef":{"kind":"MeshServiceSubset","name":"web","tags":{"version":"v1"}},"default":{"action":"ALLOW_WITH_SHADOW_DENY"}},{"targetRef":{"kind":"Mesh"},"default":{"action":"DENY"}}]}`, nil},
		{"nothing", `"labels":{}`, []string{"spec: must be defined"}},
		{"empty", `"spec":{}`, []string{"spec.targetRef: must be defined", "spec.from: must have at least one element"}},
		{"too many", `"spec":{` + to + `,"from":[` + strings.Repeat(item+",", 64) + item + `]}`, []string{"spec.from: must have at most 64 elements"}},
		{"target", `"spec":{"targetRef":{"kind":"MeshService"},"from":[` + item + `]}`, []string{"spec.targetRef.name: must be set with kind MeshService"}},
		{"no caller", `"spec":{` + to + `,"from":[{"default":{"action":"Allow"}}]}`, []string{"spec.from[0].targetRef.kind: value is not supported. Available values: Mesh, MeshSubset, MeshService, MeshServiceSubset"}},
		{"no default", `"spec":{` + to + `,"from":[{"targetRef":{"kind":"Mesh"}}]}`, []string{"spec.from[0].default: must be defined"}},
		{"no action", `"spec":{` + to + `,"from":[{"targetRef":{"kind":"Mesh"},"default":{}}]}`, []string{unknown}},
		{"action", `"spec":{` + to + `,"from":[{"targetRef":{"kind":"Mesh"},"default":{"action":"allow"}}]}`, []string{unknown}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, spec := policytest.Decode(t, Kind, []byte(`{"type":"MeshTrafficPermission","mesh":"demo","name":"x",`+c.fields+`}`))
			Kind.Document.Default(spec)
			var got []string
			for _, v := range Kind.Document.Validate(spec) {
				got = append(got, v.Path+": "+v.Message)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func permits(r *target.Ref, from ...target.Item[Conf]) *Resource {
	return &Resource{Spec: &Spec{TargetRef: r, From: from}}
}

// TestAdmits: the strongest item about a caller decides, and what cannot be read denies.
func TestAdmits(t *testing.T) {
	all, web := &target.Ref{Kind: target.Mesh}, &target.Ref{Kind: target.Service, Name: "web"}
	item := func(r *target.Ref, action Action) target.Item[Conf] {
		return target.Item[Conf]{TargetRef: r, Default: &Conf{action}}
	}
	of := func(name string, spec *Resource) *view.Policy { return policytest.Of(Kind, name, spec) }
	for _, c := range []struct {
		name   string
		chosen []*view.Policy
		want   bool
	}{
		{"allowed", []*view.Policy{of("a", permits(all, item(web, Allow)))}, true},
		{"with a shadow", []*view.Policy{of("a", permits(all, item(web, "ALLOW_WITH_SHADOW_DENY")))}, true},
		{"denied", []*view.Policy{of("a", permits(all, item(all, Allow), item(web, Deny)))}, false},
		{"the later item is stronger", []*view.Policy{of("a", permits(all, item(web, Deny), item(all, Allow)))}, true},
		{"the stronger policy", []*view.Policy{of("a", permits(web, item(all, Deny))), of("b", permits(all, item(web, Allow)))}, false},
		{"in no item", []*view.Policy{of("a", permits(all, item(&target.Ref{Kind: target.Service, Name: "jobs"}, Allow)))}, false},
		{"unreadable caller", []*view.Policy{of("a", permits(all, item(all, Allow), item(&target.Ref{Kind: "x"}, Allow)))}, false},
		{"unreadable action", []*view.Policy{of("a", permits(all, item(all, "allow")))}, false},
		{"no conf", []*view.Policy{of("a", permits(all, target.Item[Conf]{TargetRef: all}))}, false},
		{"unreadable target", []*view.Policy{of("a", permits(&target.Ref{Kind: "MeshGateway"}, item(all, Allow)))}, false},
		{"no target", []*view.Policy{of("a", permits(nil, item(all, Allow)))}, false},
		{"no spec", []*view.Policy{of("a", &Resource{})}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			caller := mesh.Tags{mesh.TagService: "web"}
			if got := admits(c.chosen, func(s mesh.Tags) bool { return mesh.Matches(s, caller) }); got != c.want {
				t.Errorf("admitted: %v", got)
			}
			d := policytest.NewDrafts("tcp", true)
			if err := d.Apply(Policy, &policy.Selection{Policies: c.chosen}); err != nil || len(d.Inbound.AuthenticatedNetwork) != 1 {
				t.Errorf("%v, %d filters", err, len(d.Inbound.AuthenticatedNetwork))
			}
		})
	}
}

package mesh_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
)

// lines writes violations in the form of the reference tables.
func lines(vs []fault.Violation) []string {
	var out []string
	for _, v := range vs {
		out = append(out, v.Path+": "+v.Message)
	}
	return out
}

func selectors(matches ...mesh.Tags) []mesh.Selector {
	var ss []mesh.Selector
	for _, m := range matches {
		ss = append(ss, mesh.Selector{Match: m})
	}
	return ss
}

func TestSelectors(t *testing.T) {
	const service = mesh.TagService
	for _, tc := range []struct {
		name string
		got  []fault.Violation
		want []string
	}{
		{"sources", mesh.CheckSources(selectors(mesh.Tags{service: "*"}, mesh.Tags{service: "a/b", "version": "1"})), nil},
		{"no source", mesh.CheckSources(nil), []string{"sources: must have at least one element"}},
		{"empty source", mesh.CheckSources(selectors(nil)), []string{
			"sources[0].match: must have at least one tag", `sources[0].match: mandatory tag "mesh.io/service" is missing`,
		}},
		{"source without service", mesh.CheckSources(selectors(mesh.Tags{service: "*"}, mesh.Tags{"version": "1"})), []string{
			`sources[1].match: mandatory tag "mesh.io/service" is missing`,
		}},
		{"destinations", mesh.CheckDestinations(selectors(mesh.Tags{service: "backend"})), nil},
		{"no destination", mesh.CheckDestinations(nil), []string{"destinations: must have at least one element"}},
		{"empty destination", mesh.CheckDestinations(selectors(nil)), []string{
			`destinations[0].match: must consist of exactly one tag "mesh.io/service"`, `destinations[0].match: mandatory tag "mesh.io/service" is missing`,
		}},
		{"destination by another tag", mesh.CheckDestinations(selectors(mesh.Tags{"version": "1"})), []string{
			`destinations[0].match: must consist of exactly one tag "mesh.io/service"`,
			`destinations[0].match["version"]: tag "version" is not allowed`,
			`destinations[0].match: mandatory tag "mesh.io/service" is missing`,
		}},
		{"destination with another tag", mesh.CheckDestinations(selectors(mesh.Tags{service: "b", "version": ""})), []string{
			`destinations[0].match: must consist of exactly one tag "mesh.io/service"`,
			`destinations[0].match["version"]: tag "version" is not allowed`,
			`destinations[0].match["version"]: tag value must be non-empty`,
		}},
		{"any", mesh.CheckAny("selectors", selectors(mesh.Tags{"x": "*"})), nil},
		{"none", mesh.CheckAny("selectors", nil), []string{"selectors: must have at least one element"}},
		{"characters", mesh.CheckAny("selectors", selectors(mesh.Tags{"": "1", "a b": "1", "b": "x*", "c": "a/b", "d": "é"})), []string{
			"selectors[0].match: tag name must be non-empty",
			`selectors[0].match["a b"]: tag name must consist of alphanumeric characters, dots, dashes, slashes and underscores`,
			`selectors[0].match["b"]: tag value must consist of alphanumeric characters, dots, dashes, slashes and underscores or be "*"`,
			`selectors[0].match["d"]: tag value must consist of alphanumeric characters, dots, dashes, slashes and underscores or be "*"`,
		}},
		{"tags", mesh.ValidateTags("tags", mesh.Tags{"a": "*", "b": "a/b", "c": "", "d": "x_1.y-z:0"}), []string{
			`tags["a"]: tag value must consist of alphanumeric characters, dots, dashes and underscores`,
			`tags["b"]: tag value must consist of alphanumeric characters, dots, dashes and underscores`,
			`tags["c"]: tag value must be non-empty`,
		}},
		{"many tags", mesh.ValidateTags("tags", manyTags(128)), nil},
		{"too many tags", mesh.ValidateTags("tags", manyTags(129)), []string{"tags: must have at most 128 tags"}},
		{"long tags", mesh.ValidateTags("tags", mesh.Tags{
			strings.Repeat("k", 255): strings.Repeat("v", 255), strings.Repeat("n", 256): "1", service: strings.Repeat("s", 256),
		}), []string{
			`tags["mesh.io/service"]: must not be longer than 255 characters`,
			`tags["` + strings.Repeat("n", 32) + `..."]: must not be longer than 255 characters`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, lines(tc.got)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
}

func manyTags(n int) mesh.Tags {
	out := mesh.Tags{}
	for i := range n {
		out[fmt.Sprint("k", i)] = "v"
	}
	return out
}

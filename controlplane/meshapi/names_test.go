package meshapi

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestNames checks the rules for names and labels, in the order in which they are reported.
func TestNames(t *testing.T) {
	const (
		strict     = "invalid characters. A lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character"
		lax        = "invalid characters. Valid characters are numbers, lowercase latin letters and '-', '_', '.' symbols."
		name       = "name from the URL has to be the same as in body"
		typ        = "type from the URL has to be the same as in body"
		labelKey   = "a label key is an optional DNS subdomain and a slash, then up to 63 alphanumeric characters, '-', '_' or '.', the first and last of them alphanumeric"
		labelValue = "a label value is up to 63 alphanumeric characters, '-', '_' or '.', the first and last of them alphanumeric"
		mesh       = "mesh from the URL has to be the same as in body"
	)
	long, sixty := strings.Repeat("a", 254), strings.Repeat("a", 64)
	for _, test := range []struct {
		test string
		path string
		meta map[string]any
		want []string
	}{
		{"everything at once", "a", map[string]any{"type": "X", "mesh": "M", "name": "B", "labels": map[string]string{"-": ""}}, []string{
			"name", name, "type", typ, "mesh", mesh, `labels["-"]`, labelKey, "name", strict, "mesh", lax,
		}},
		{"nothing", "a", map[string]any{}, []string{"name", name, "type", typ, "mesh", mesh, "name", "cannot be empty", "mesh", "cannot be empty"}},
		{"underscore in a new name", "a_b", map[string]any{"name": "a_b"}, []string{"name", strict}},
		{"underscore in an old name", "old_name", map[string]any{"name": "old_name"}, nil},
		{"upper case", "A", map[string]any{"name": "A"}, []string{"name", strict}},
		{"a dot at the end", "a.", map[string]any{"name": "a."}, []string{"name", strict}},
		{"two dots", "a..b", map[string]any{"name": "a..b"}, []string{"name", strict}},
		{"parent", "..", map[string]any{"name": ".."}, []string{"name", strict}},
		{"an encoded slash", "a/b", map[string]any{"name": "a/b"}, []string{"name", strict}},
		{"a newline at the end", "a\n", map[string]any{"name": "a\n"}, []string{"name", strict}},
		{"253 characters", long[1:], map[string]any{"name": long[1:]}, nil},
		{"254 characters", long, map[string]any{"name": long}, []string{"name", "value length must less or equal 253"}},
		{"labels", "a", map[string]any{"labels": map[string]string{
			"ok": "", "example.com/ok": "A.b_c-1", sixty: "x", "/x": "x", "a/b/c": "x", "A/x": "x", "a/": "x", "v1": "-", "v2": sixty,
		}}, []string{
			`labels["/x"]`, labelKey, `labels["A/x"]`, labelKey, `labels["a/"]`, labelKey, `labels["a/b/c"]`, labelKey,
			`labels["` + sixty + `"]`, labelKey, `labels["v1"]`, labelValue, `labels["v2"]`, labelValue,
		}},
		{"labels of the system", "a", map[string]any{"labels": map[string]string{"mesh.io/origin": "foo", "mesh.io/zone": "west", "mesh.io/mesh": "n"}}, []string{
			`labels["mesh.io/mesh"]`, "has to be the same as the mesh of the resource",
			`labels["mesh.io/origin"]`, `unknown resource origin "foo"`,
			`labels["mesh.io/zone"]`, `must be the local zone "east"`,
		}},
		{"right labels of the system", "a", map[string]any{"labels": map[string]string{"mesh.io/origin": "zone", "mesh.io/zone": "east", "mesh.io/mesh": "m"}}, nil},
	} {
		t.Run(test.test, func(t *testing.T) {
			a := seeded(t)
			// The resource is from a time when names were laxer.
			if _, err := a.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
				_, err := tx.Create(&model.Resource{Kind: tickets, Scope: "m", Name: "old_name", Spec: &ticket{}})
				return err
			}); err != nil {
				t.Fatal(err)
			}
			doc := map[string]any{"type": "Ticket", "mesh": "m", "name": "a", "sources": []any{map[string]any{}}, "conf": map[string]any{}}
			if len(test.meta) == 0 {
				doc = map[string]any{"sources": doc["sources"], "conf": doc["conf"]}
			}
			for k, v := range test.meta {
				doc[k] = v
			}
			raw, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			rec := request(a.handler, "PUT", "/meshes/m/tickets/"+url.PathEscape(test.path), string(raw), "Content-Type", mediaJSON)
			if test.want == nil {
				if rec.Code != 201 && rec.Code != 200 {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
				return
			}
			check(t, rec, expected(400, "Could not process a resource", "Resource is not valid", test.want...))
		})
	}
}

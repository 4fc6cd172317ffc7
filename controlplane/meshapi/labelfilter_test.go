package meshapi

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestEveryKindIsFilteredByLabels: lists of every kind with labels show those that have all of the labels
// that are asked for, with these values exactly, at each path.
func TestEveryKindIsFilteredByLabels(t *testing.T) {
	seen := 0
	for _, k := range offered() {
		if _, ok := k.New().(labelled); !ok {
			continue
		}
		seen++
		t.Run(k.Document.Type, func(t *testing.T) {
			w, sample := newWorld(t), samplesOf(t, k)[0]
			for name, labels := range map[string]map[string]any{
				"a": {"team": "shop", "mesh.io/env": "prod"}, "b": {"team": "shop"}, "c": {"team": "shopping", "mesh.io/env": "prod"}, "d": nil, "e": {"team": ""},
			} {
				w.expect(201, "PUT", collectionOf(k)+"/"+name, sample.with(map[string]any{"name": name, "labels": labels}).text(t))
			}
			for _, list := range slices.Compact([]string{collectionOf(k), "/" + k.Path}) {
				for query, want := range map[string]string{
					"filter[labels.team]=shop":                                    "a b",
					"filter%5Blabels.team%5D=shop":                                "a b",
					"filter[labels.team]=shop&filter[labels.mesh.io/env]=prod":    "a",
					"filter[labels.mesh.io/env]=prod":                             "a c",
					"filter[labels.team]=":                                        "e",
					"filter[labels.team]=shop&filter[labels.team]=shopping":       "",
					"filter[labels.nobody]=x":                                     "",
					"filter[labels.mesh.io/env]=prod&name=c&filter[labels.team]=": "",
					"filter[labels.mesh.io/env]=prod&name=c":                      "c",
				} {
					var names []string
					p := w.page(list + "?" + query)
					for _, item := range p.Items {
						names = append(names, item.Name)
					}
					if got := strings.Join(names, " "); got != want || p.Total != len(names) {
						t.Errorf("%s?%s: %s of %d, want %s", list, query, got, p.Total, want)
					}
				}
				first := w.page(list + "?filter[labels.team]=shop&size=1")
				if first.Total != 2 || first.Next == nil || !strings.Contains(*first.Next, "filter%5Blabels.team%5D=shop") {
					t.Errorf("%s: pages of %+v", list, first)
				}
				for _, name := range []string{"filter", "filter[name]", "filter[labels]", "filter[labels.]", "filter[labels.team", "filter[labels.a b]", "filter[labels.team][eq]", "filter[label.team]"} {
					rec := w.expect(400, "GET", list+"?"+strings.ReplaceAll(name, " ", "%20")+"=shop", "")
					if text := rec.Body.String(); !strings.Contains(text, `"field": "`+name+`"`) || !strings.Contains(text, "filter[labels.KEY]=VALUE") || !strings.Contains(text, "Beside it there are name") {
						t.Errorf("%s: %s", name, text)
					}
				}
			}
		})
	}
	if seen < 20 {
		t.Errorf("%d kinds have labels", seen)
	}
}

// TestMeshesOfSomeAreFiltered: whoever sees some meshes gets those of them with the labels, and the others get those
// of all.
func TestMeshesOfSomeAreFiltered(t *testing.T) {
	a := seeded(t)
	a.options.Rules = access.New(access.Options{Roles: append(roles, access.Role{Role: "viewer", Meshes: []string{"m", "n"}, Users: []string{"both"}})})
	a.put(t, "/meshes/n", `{"type":"Mesh","name":"n","labels":{"team":"shop"}}`)
	a.put(t, "/meshes/o", `{"type":"Mesh","name":"o","labels":{"team":"shop"}}`)
	h := Handler(a.options)
	for caller, want := range map[string][2]int{"viewer-m": {0, 1}, "admin-o": {1, 1}, "both": {1, 2}, "viewer-all": {2, 3}} {
		for i, path := range []string{"/meshes?filter[labels.team]=shop", "/meshes"} {
			rec := request(h, "GET", path, "", "X-User", caller)
			var p listing
			if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || p.Total != want[i] || len(p.Items) != want[i] {
				t.Errorf("%s at %s: %d of %d, %v, want %d", caller, path, len(p.Items), p.Total, err, want[i])
			}
		}
	}
}

// TestInsightsHaveNoFilters: lists of what is no resource refuse filters of resources, and name the parameters that
// they have.
func TestInsightsHaveNoFilters(t *testing.T) {
	h := Handler(seeded(t).options)
	for path, others := range map[string]string{"/mesh-insights": "name", "/service-insights": "name, type", "/meshes/m/service-insights": "name, type"} {
		for _, name := range []string{"filter", "filter[labels.team]", "filter[name]"} {
			rec := request(h, "GET", path+"?size=1&"+name+"=shop", "")
			if text := rec.Body.String(); rec.Code != 400 || !strings.Contains(text, `"field": "`+name+`"`) || !strings.Contains(text, "There are "+others+`"`) {
				t.Errorf("%s?%s: %d %s", path, name, rec.Code, text)
			}
		}
		if rec := request(h, "GET", path+"?size=1", ""); rec.Code != 200 {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
}

// TestListsWithoutLabels: a list of resources that have no labels says so.
func TestListsWithoutLabels(t *testing.T) {
	bare := model.Describe(struct{ Note string }{}, model.Kind{
		Name: "bare", Path: "bares", Scoping: model.Global, Document: &model.Document{Type: "Bare", Singular: "Bare", Plural: "Bares"},
	})
	c := collection{&API{}, bare}
	if _, err := c.filter(map[string][]string{"filter[labels.a]": {"b"}}, "/bares"); err == nil || !strings.Contains(err.Error(), "have no labels") {
		t.Error(err)
	}
	if got := (collection{&API{}, mesh.Dataplanes}).filters(); !slices.Equal(got, []string{"name", "tag", "gateway"}) {
		t.Error(got)
	}
}

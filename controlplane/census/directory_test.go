package census_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/meshgate/meshgate/controlplane/census"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// directory lists what the census knows of the dataplanes of meshes.
func (w *world) directory(meshes ...string) (out []string) {
	w.t.Helper()
	known := w.search(census.Search{Meshes: meshes, Known: true, Limit: 1000}).Page
	for _, of := range w.traits(meshes...) {
		for _, key := range w.search(census.Search{Meshes: meshes, Limit: 1000, Accepts: func(t *census.Traits) bool { return t == of }}).Page {
			out = append(out, fmt.Sprintf("%s/%s %v %s known %t", key.Scope, key.Name, of.Tags, of.Gateway, slices.Contains(known, key)))
		}
	}
	order := w.search(census.Search{Meshes: meshes, Limit: 1000}).Page
	slices.SortFunc(out, func(a, b string) int { return place(order, a) - place(order, b) })
	return out
}

// place is that of a line in a list.
func place(order []model.Key, line string) int {
	return slices.IndexFunc(order, func(k model.Key) bool { return strings.HasPrefix(line, k.Scope+"/"+k.Name+" ") })
}

// traits are those of the dataplanes of meshes.
func (w *world) traits(meshes ...string) (out []*census.Traits) {
	w.t.Helper()
	w.search(census.Search{Meshes: meshes, Accepts: func(t *census.Traits) bool { out = append(out, t); return true }})
	return out
}

func (w *world) search(s census.Search) *census.Found {
	w.t.Helper()
	if s.Kind == nil {
		s.Kind = mesh.Dataplanes
	}
	found, err := w.census.Find(context.Background(), s)
	w.must(err)
	return found
}

// TestDirectory: it shows what was written and reported before it was asked, in the order of lists,
// and dataplanes with the same tags share them.
func TestDirectory(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "a", &mesh.Mesh{})
	w.put(mesh.Meshes, "", "b", &mesh.Mesh{})
	for _, name := range []string{"z", "c", "x"} {
		w.put(mesh.Dataplanes, "a", name, plain("web"))
	}
	w.put(mesh.Dataplanes, "b", "g", &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Gateway: &mesh.Gateway{Tags: mesh.Tags{mesh.TagService: "edge"}}}})
	w.connect("a", "x")
	want := func(when string, lines ...string) {
		t.Helper()
		if d := cmp.Diff(lines, w.directory("b", "a", "none"), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	tags := fmt.Sprint(plain("web").TagSets())
	gateway := "b/g [mesh.io/service=edge] DELEGATED known false"
	want("at first", gateway, "a/c "+tags+"  known false", "a/x "+tags+"  known true", "a/z "+tags+"  known false")
	if n := len(w.traits("a")); n != 1 {
		t.Errorf("%d traits of dataplanes with the same tags", n)
	}
	w.put(mesh.Dataplanes, "a", "x", plain("api"))
	w.remove(mesh.Dataplanes, "a", "c")
	want("after changes", gateway, "a/x "+fmt.Sprint(plain("api").TagSets())+"  known true", "a/z "+tags+"  known false")
	w.end()
	w.begin()
	want("in another process", gateway, "a/x "+fmt.Sprint(plain("api").TagSets())+"  known true", "a/z "+tags+"  known false")
	w.removeMesh("a")
	want("without the mesh", gateway)
}

// TestExternalServicesAreListed: they come, change and go, beside dataplanes of the same names.
func TestExternalServicesAreListed(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "a", &mesh.Mesh{})
	outside := func(service string) *mesh.ExternalService {
		x := &mesh.ExternalService{Tags: mesh.Tags{mesh.TagService: service}, Networking: &mesh.ExternalNetworking{Address: "x.example:443"}}
		x.Labels = map[string]string{"team": service}
		return x
	}
	look := func(when, service string, want ...string) {
		t.Helper()
		found := w.search(census.Search{Kind: mesh.ExternalServices, Meshes: []string{"a"}, Limit: 10, Accepts: func(t *census.Traits) bool {
			return t.Tags[0].Service() == service && t.Labels["team"] == service
		}})
		var got []string
		for _, key := range found.Page {
			got = append(got, key.Kind+" "+key.Name)
		}
		if d := cmp.Diff(want, got); d != "" || found.Total != len(want) {
			t.Errorf("%s, of %d (-want +got):\n%s", when, found.Total, d)
		}
	}
	for _, name := range []string{"x", "y"} {
		w.put(mesh.Dataplanes, "a", name, plain("web"))
		w.put(mesh.ExternalServices, "a", name, outside("web"))
	}
	look("at first", "web", "external_service x", "external_service y")
	w.put(mesh.ExternalServices, "a", "x", outside("api"))
	look("changed, by what it had", "web", "external_service y")
	look("changed, by what it has", "api", "external_service x")
	w.end()
	w.begin()
	look("in another process", "api", "external_service x")
	w.remove(mesh.ExternalServices, "a", "x")
	look("removed", "api")
	if n := len(w.directory("a")); n != 2 {
		t.Errorf("there are %d dataplanes", n)
	}
}

// TestNobodyWaitsForWhoReadsTheDirectory: dataplanes come and are counted while somebody reads.
func TestNobodyWaitsForWhoReadsTheDirectory(t *testing.T) {
	w := newWorld(t, 0)
	defer w.close()
	w.put(mesh.Meshes, "", "a", &mesh.Mesh{})
	w.put(mesh.Dataplanes, "a", "x", plain("web"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	asked := 0
	found, err := w.census.Find(ctx, census.Search{Kind: mesh.Dataplanes, Meshes: []string{"a"}, Limit: 10, Accepts: func(*census.Traits) bool {
		asked++
		w.put(mesh.Dataplanes, "a", "y", plain("api"))
		_, _, err := w.census.Now(ctx)
		w.must(err)
		return true
	}})
	w.must(err)
	if asked != 1 || len(found.Page) != 1 || found.Total != 1 {
		t.Errorf("asked %d times, found %+v", asked, found)
	}
	if now := w.directory("a"); len(now) != 2 {
		t.Errorf("there are %v", now)
	}
}

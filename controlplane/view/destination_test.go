package view_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

// site is a spec that says where services are.
type site struct {
	At []view.Endpoint `json:"at"`
}

// Locates implements view.Locating.
func (s *site) Locates() []view.Endpoint { return s.At }

var sites = &model.Kind{
	Name: "Site", Path: "sites", Scoping: model.Mesh, Class: model.Config, New: func() any { return new(site) },
	Document: &model.Document{Type: "Site", Singular: "site", Plural: "sites"},
}

func drawSite(t *rapid.T) *site {
	s := &site{}
	for range rapid.IntRange(0, 3).Draw(t, "endpoints") {
		s.At = append(s.At, view.Endpoint{
			Address: rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "site.example"}).Draw(t, "address"), Port: 443, Ready: true,
			Tags: mesh.Tags{mesh.TagService: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "service")},
		})
	}
	return s
}

// told is what a view says of services that sites locate.
func told(m *view.Mesh, names []string) string {
	var out []string
	for _, service := range []string{"", "a", "b"} {
		if l := m.Located(sites, service); l != nil {
			out = append(out, fmt.Sprint(service, len(l.Specs), l.Members(), l.ByName()))
		}
	}
	out = append(out, fmt.Sprint(slices.Sorted(m.Destinations())))
	for _, name := range names {
		out = append(out, fmt.Sprint(name, slices.Sorted(m.Locates(sites, name))))
	}
	return fmt.Sprint(out)
}

// TestLocatedServicesFollow: whatever the order of changes, a view says what one made from
// nothing says, and a service of which no resource changed stays the same pointer.
func TestLocatedServicesFollow(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		db := memstore.New()
		defer func() { _ = db.Close() }()
		views := view.New(db, []*model.Kind{sites}, slog.New(slog.DiscardHandler))
		defer views.Close()
		scope, err := views.Mesh(t.Context(), "m")
		if err != nil {
			rt.Fatal(err)
		}
		wake := make(chan struct{}, 1)
		changes := scope.Subscribe(wake)
		now := changes.Take().State
		names := []string{"x", "y", "z"}
		there := map[string]*site{}
		for range rapid.IntRange(1, 8).Draw(rt, "changes") {
			before, name, next := now, rapid.SampledFrom(names).Draw(rt, "name"), drawSite(rt)
			if there[name] != nil && rapid.Bool().Draw(rt, "gone") {
				next = nil
			}
			commit := writeSite(rt, db, name, there[name], next)
			for now = changes.Take().State; now.Revision() < commit; now = changes.Take().State {
				<-wake
			}
			concerned := map[string]bool{}
			for _, s := range []*site{there[name], next} {
				for s := range maps.Keys(servicesAt(s)) {
					concerned[s] = true
				}
			}
			for _, s := range []string{"a", "b"} {
				if !concerned[s] && before.Located(sites, s) != now.Located(sites, s) {
					rt.Fatalf("%s is another, although nothing of it changed", s)
				}
			}
			there[name] = next
			var fresh *view.Mesh
			if err := db.View(t.Context(), func(r store.Reader) (err error) { fresh, err = view.LoadMesh("m", []*model.Kind{sites}, r); return err }); err != nil {
				rt.Fatal(err)
			}
			if have, want := told(now, names), told(fresh, names); have != want {
				rt.Fatalf("the view says\n%s, from nothing it says\n%s", have, want)
			}
		}
	})
}

func servicesAt(s *site) map[string]bool {
	out := map[string]bool{}
	if s != nil {
		for _, e := range s.At {
			out[e.Tags.Service()] = true
		}
	}
	return out
}

func writeSite(t *rapid.T, db store.Store, name string, was, next *site) uint64 {
	commit, err := db.Update(t.Context(), model.Config, func(tx store.Tx) (err error) {
		r := &model.Resource{Kind: sites, Scope: "m", Name: name, Spec: next}
		switch {
		case next == nil:
			return tx.Delete(sites, "m", name, 0)
		case was == nil:
			_, err = tx.Create(r)
		default:
			_, err = tx.Update(r, 0)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return commit.Revision
}

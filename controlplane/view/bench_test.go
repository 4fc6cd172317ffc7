package view

import (
	"fmt"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// fleet is a mesh of 1,000 dataplanes that serve 50 services.
func fleet(b *testing.B) (store.Store, *Mesh) {
	b.Helper()
	s := memstore.New()
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	_, err := s.Update(b.Context(), model.Config, func(tx store.Tx) error {
		for i := range 1000 {
			if _, err := tx.Create(member(i, mesh.StateReady)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
	var m *Mesh
	err = s.View(b.Context(), func(r store.Reader) (err error) {
		m, err = LoadMesh(mesh.Default, nil, r)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return s, m
}

func member(i int, state string) *model.Resource {
	return &model.Resource{
		Kind: mesh.Dataplanes, Scope: mesh.Default, Name: fmt.Sprintf("dp-%d", i),
		Spec: &mesh.Dataplane{Networking: &mesh.Networking{
			Address: fmt.Sprintf("10.0.%d.%d", i/250, i%250),
			Inbound: []mesh.Inbound{{Port: 8080, State: state, Tags: mesh.Tags{mesh.TagService: fmt.Sprintf("service-%d", i%50), mesh.TagProtocol: mesh.ProtocolHTTP}}},
		}},
	}
}

// BenchmarkEndpointChange reads and applies the change of one endpoint that becomes unready.
func BenchmarkEndpointChange(b *testing.B) {
	s, m := fleet(b)
	if _, err := s.Update(b.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Update(member(7, mesh.StateNotReady), 0)
		return err
	}); err != nil {
		b.Fatal(err)
	}
	keys := []model.Key{{Kind: mesh.Dataplanes.Name, Scope: mesh.Default, Name: "dp-7"}}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.View(b.Context(), func(r store.Reader) error {
			next, _, err := m.apply(r, keys)
			ready := 0
			for _, e := range next.Service("service-7").Endpoints {
				if e.Ready {
					ready++
				}
			}
			if ready != 19 {
				b.Fatalf("%d endpoints are ready, want 19", ready)
			}
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkUnrelatedEvent measures a commit with a key that no mesh holds, from the feed to
// the next state.
func BenchmarkUnrelatedEvent(b *testing.B) {
	_, m := fleet(b)
	f := &feed{mine: meshSource(mesh.Default, mesh.DefaultZone, nil).mine, wake: make(chan struct{}, 1)}
	events := []store.Event{{Revision: 1, Key: model.Key{Kind: "secret", Scope: mesh.Default, Name: "s"}, Op: store.Updated}}
	b.ReportAllocs()
	for b.Loop() {
		events[0].Revision++
		f.receive(events, nil)
		reached, quiet, _ := f.status()
		if !quiet {
			b.Fatal("the event is kept")
		}
		m = m.at(reached)
	}
}

// BenchmarkLoadMesh loads the whole fleet.
func BenchmarkLoadMesh(b *testing.B) {
	s, _ := fleet(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := s.View(b.Context(), func(r store.Reader) error {
			_, err := LoadMesh(mesh.Default, nil, r)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
}

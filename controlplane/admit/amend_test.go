package admit_test

import (
	"errors"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
)

// TestAmendDocument: a change of what is stored is not judged, may be none, and is not made if its
// author does not want it over what is stored now.
func TestAmendDocument(t *testing.T) {
	no := errors.New("no")
	for name, tt := range map[string]struct {
		of      string
		change  any
		err     error
		code    fault.Code
		version uint64
		port    uint32
	}{
		"nothing":       {"d", nil, nil, "", 1, 1},
		"the same":      {"d", proxy(1), nil, "", 1, 1},
		"a refusal":     {"d", proxy(2), no, "", 1, 1},
		"what is wrong": {"d", proxy(70_000), nil, "", 2, 70_000},
		"what is gone":  {"gone", proxy(2), nil, fault.NotFound, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g, s := documents(t)
			put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{})
			put(t, g, mesh.Dataplanes, "m", "d", proxy(1))
			before := s.Revision()
			out, err := g.AmendDocument(t.Context(), mesh.Dataplanes, "m", tt.of, func(*model.Resource) (any, error) { return tt.change, tt.err })
			switch {
			case tt.err != nil && !errors.Is(err, tt.err), tt.code != "" && !fault.Is(err, tt.code), tt.err == nil && tt.code == "" && err != nil:
				t.Error(err)
			case err != nil:
			case out.Resource.Version != tt.version || out.Resource.Spec.(*mesh.Dataplane).Networking.Inbound[0].Port != tt.port:
				t.Errorf("%+v", out.Resource)
			}
			if wrote := s.Revision() != before; wrote != (tt.version == 2) {
				t.Error("written:", wrote)
			}
		})
	}
	g, _ := documents(t)
	g.Hook(mesh.Meshes, &hook{})
	if _, err := g.AmendDocument(t.Context(), mesh.Meshes, "", "m", func(*model.Resource) (any, error) { return nil, no }); !fault.Is(err, fault.Internal) {
		t.Errorf("a kind with hooks: %v", err)
	}
}

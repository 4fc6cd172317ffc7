package admit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

func documents(t *testing.T) (*admit.Gate, store.Store) {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return admit.New(s, &admittest.Revoker{}, mesh.Kinds(), time.Now).As(model.System("test")), s
}

func put(t *testing.T, g *admit.Gate, k *model.Kind, scope, name string, spec any) bool {
	t.Helper()
	_, created, err := g.PutDocument(t.Context(), k, scope, name, spec)
	if err != nil {
		t.Fatalf("put %s %s: %v", k.Name, name, err)
	}
	return created
}

func proxy(port uint32) *mesh.Dataplane {
	return &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{
		{Port: port, Tags: mesh.Tags{mesh.TagService: "web"}},
	}}}
}

func TestPutDocument(t *testing.T) {
	g, _ := documents(t)
	if !put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{}) || put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{}) {
		t.Error("the first of two writes creates")
	}
	put(t, g, mesh.Dataplanes, "m", "d", proxy(1))
	out, created, err := g.PutDocument(t.Context(), mesh.Dataplanes, "m", "d", proxy(2))
	if err != nil || created || out.Resource.Version != 2 || out.Commit.Revision == 0 {
		t.Errorf("update: %+v, %v, %v", out, created, err)
	}
	if in := out.Resource.Spec.(*mesh.Dataplane).Networking.Inbound[0]; in.Port != 2 {
		t.Errorf("stored %+v", in)
	}
}

// TestDocumentsOfAbsentMeshes: creation and deletion both say what is missing.
func TestDocumentsOfAbsentMeshes(t *testing.T) {
	g, _ := documents(t)
	_, _, putErr := g.PutDocument(t.Context(), mesh.Dataplanes, "m", "d", proxy(1))
	_, deleteErr := g.DeleteDocument(t.Context(), mesh.Dataplanes, "m", "d")
	put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{})
	_, absentErr := g.DeleteDocument(t.Context(), mesh.Dataplanes, "m", "d")
	for i, tc := range []struct {
		err  error
		want admit.Missing
	}{
		{putErr, admit.Missing{Kind: mesh.Meshes, Field: "name", Value: "m"}},
		{deleteErr, admit.Missing{Kind: mesh.Meshes, Field: "name", Value: "m"}},
		{absentErr, admit.Missing{Kind: mesh.Dataplanes, Field: "name", Value: "d"}},
	} {
		f, ok := errors.AsType[*fault.Error](tc.err)
		if !ok || f.Code != fault.NotFound || f.Subject != tc.want {
			t.Errorf("%d: %#v", i, tc.err)
		}
	}
}

func TestPutDocumentRefuses(t *testing.T) {
	g, s := documents(t)
	put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{})
	before := s.Revision()
	for name, tc := range map[string]struct {
		kind        *model.Kind
		scope, name string
		spec        any
		want        []string
	}{
		"every violation": {mesh.Dataplanes, "m", "d", &mesh.Dataplane{Networking: &mesh.Networking{}}, []string{"networking", "networking.address"}},
		"name":            {mesh.Secrets, "m", "A", &mesh.Secret{}, []string{"name"}},
		"cross":           {mesh.Meshes, "", "a.b", &mesh.Mesh{}, []string{"name"}},
		"labels":          {mesh.Secrets, "m", "s", &mesh.Secret{Labelled: model.Labelled{Labels: map[string]string{"mesh.io/mesh": "x"}}}, []string{`labels["mesh.io/mesh"]`}},
	} {
		out, created, err := g.PutDocument(t.Context(), tc.kind, tc.scope, tc.name, tc.spec)
		f, ok := errors.AsType[*fault.Error](err)
		if !ok || f.Code != fault.Invalid || created || out.Resource != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, v := range f.Violations {
			got = append(got, v.Path)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if s.Revision() != before {
		t.Error("something was stored")
	}
	if _, _, err := g.PutDocument(t.Context(), mesh.Trusts, "m", "m", &mesh.Trust{}); !fault.Is(err, fault.Internal) {
		t.Errorf("a kind without documents: %v", err)
	}
}

// hook records its calls and can fail at one of them.
type hook struct {
	calls []string
	fail  string
}

func (h *hook) call(name string) error {
	h.calls = append(h.calls, name)
	if h.fail == name {
		return fault.Violated([]fault.Violation{{Path: name, Message: "no"}})
	}
	return nil
}

// Prepare implements admit.Hook.
func (h *hook) Prepare(_ context.Context, _ store.Reader, name string, _ any) (any, error) {
	return "made for " + name, h.call("prepare")
}

// Stored implements admit.Hook.
func (h *hook) Stored(tx store.Tx, old, stored *model.Resource, prepared any) error {
	if prepared != "made for "+stored.Name {
		return errors.New("the prepared value is another's")
	}
	_, err := tx.Create(&model.Resource{Kind: mesh.Secrets, Scope: stored.Name, Name: "s", Spec: &mesh.Secret{}})
	if old != nil {
		return h.call("updated")
	}
	return errors.Join(err, h.call("created"))
}

// Deleting implements admit.Hook.
func (h *hook) Deleting(tx store.Tx, r *model.Resource) error {
	return errors.Join(h.call("deleting"), tx.Delete(mesh.Secrets, r.Name, "s", 0))
}

func TestHooks(t *testing.T) {
	g, s := documents(t)
	h := &hook{}
	g.Hook(mesh.Meshes, h)
	ctx := t.Context()
	for _, fail := range []string{"prepare", "created"} {
		h.fail = fail
		if _, _, err := g.PutDocument(ctx, mesh.Meshes, "", "m", &mesh.Mesh{}); !fault.Is(err, fault.Invalid) || s.Revision() != 0 {
			t.Errorf("%s: %v at revision %d", fail, err, s.Revision())
		}
	}
	h.calls, h.fail = nil, "deleting"
	put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{})
	put(t, g, mesh.Meshes, "", "m", &mesh.Mesh{})
	if _, err := g.DeleteDocument(ctx, mesh.Meshes, "", "m"); !fault.Is(err, fault.Invalid) {
		t.Errorf("delete: %v", err)
	}
	h.fail = ""
	c, err := g.DeleteDocument(ctx, mesh.Meshes, "", "m")
	if err != nil || len(c.Changes) != 2 {
		t.Errorf("delete: %v, %v", c, err)
	}
	if diff := cmp.Diff([]string{"prepare", "created", "prepare", "updated", "deleting", "deleting"}, h.calls); diff != "" {
		t.Error(diff)
	}
}

func TestEnsureDocument(t *testing.T) {
	g, s := documents(t)
	h := &hook{}
	g.Hook(mesh.Meshes, h)
	for i, want := range []bool{true, false} {
		created, err := g.EnsureDocument(t.Context(), mesh.Meshes, "", "m", &mesh.Mesh{})
		if err != nil || created != want {
			t.Errorf("%d: %v, %v", i, created, err)
		}
	}
	if s.Revision() != 1 || len(h.calls) != 2 {
		t.Errorf("revision %d, calls %v", s.Revision(), h.calls)
	}
}

package enrol

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// states returns the states of the inbounds in a proxy's stored Dataplane.
func (s *Server) states(t *testing.T, name string) (out []string) {
	t.Helper()
	d, err := s.dataplane(t.Context(), &Proxy{Mesh: "default", Name: name})
	if err != nil || d == nil {
		t.Fatalf("%v %v", d, err)
	}
	for _, in := range d.Spec.(*mesh.Dataplane).Networking.Inbound {
		out = append(out, in.State)
	}
	return out
}

// TestWithdraw: a proxy that is about to drain becomes not ready, and is answered when the
// others have confirmed it. It does not change other Dataplanes.
func TestWithdraw(t *testing.T) {
	s := newMeshServer(t)
	var waited []uint64
	s.Mesh.Confirmed = func(_ context.Context, revision uint64) error { waited = append(waited, revision); return nil }
	agent := map[string]any{
		"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "dataplaneResource": dataplaneYAML, "instance": "a",
		"relay": Relay{Socket: "/s", AdminSocket: "/a"},
	}
	if rec := send(s, http.MethodPost, "", encode(t, agent)); rec.Code != http.StatusOK {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	leaving := func(name, instance string) {
		t.Helper()
		rec := send(s, http.MethodPost, "", encode(t, map[string]any{"mesh": "default", "name": name, "dataplaneToken": "default/" + name + "/web", "instance": instance, "leaving": true}))
		if rec.Code != http.StatusNoContent {
			t.Errorf("%d %s", rec.Code, rec.Body)
		}
	}
	s.put(t, "web-2", "web", nil)
	leaving("web-2", "a")
	leaving("web-1", "b")
	leaving("web-3", "a") // does not exist
	if got := append(s.states(t, "web-1"), s.states(t, "web-2")...); got[0]+got[1] != "" || waited != nil {
		t.Errorf("others are changed: %q, waited for %d", got, waited)
	}
	leaving("web-1", "a")
	if got := s.states(t, "web-1"); got[0] != mesh.StateNotReady || len(waited) != 1 || waited[0] != s.Store.Revision() {
		t.Errorf("%q, waited for %d at %d", got, waited, s.Store.Revision())
	}
	if rec := send(s, http.MethodPost, "", encode(t, agent)); rec.Code != http.StatusOK || s.states(t, "web-1")[0] != "" {
		t.Errorf("it comes back as %q", s.states(t, "web-1"))
	}
}

// TestWithdrawFromStricterMesh: a proxy also withdraws from a mesh that would not take it today.
func TestWithdrawFromStricterMesh(t *testing.T) {
	s := newMeshServer(t)
	s.put(t, "web-1", "web", map[string]string{mesh.LabelOwner: mesh.OwnerAgent, mesh.LabelInstance: "a"})
	_, err := s.Store.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Update(&model.Resource{Kind: mesh.Meshes, Name: "default", Spec: &mesh.Mesh{Constraints: &mesh.Constraints{
			DataplaneProxy: &mesh.Membership{Requirements: []mesh.TagRule{{Tags: mesh.Tags{"team": "*"}}}},
		}}}, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rec := send(s, http.MethodPost, "", encode(t, map[string]any{"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "instance": "a", "leaving": true}))
	if got := s.states(t, "web-1"); rec.Code != http.StatusNoContent || got[0] != mesh.StateNotReady {
		t.Errorf("%d %s, %q", rec.Code, rec.Body, got)
	}
}

// TestWithdrawWaitsNoLonger: a withdrawal waits for others only for a bounded time.
func TestWithdrawWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newMeshServer(t)
		s.Mesh.Confirmed = func(ctx context.Context, _ uint64) error { <-ctx.Done(); return ctx.Err() }
		s.put(t, "web-1", "web", map[string]string{mesh.LabelOwner: mesh.OwnerAgent, mesh.LabelInstance: "a"})
		begun := time.Now()
		rec := send(s, http.MethodPost, "", encode(t, map[string]any{"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "instance": "a", "leaving": true}))
		if took := time.Since(begun); rec.Code != http.StatusNoContent || took != withdrawWait {
			t.Errorf("%d %s after %s", rec.Code, rec.Body, took)
		}
	})
}

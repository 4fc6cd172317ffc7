package enrol

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/store/seal"
	"github.com/meshgate/meshgate/controlplane/store/sqlstore"
)

// stores opens a store of each kind with a mesh in it.
func stores(t *testing.T) map[string]store.Store {
	t.Helper()
	keys, err := seal.Make(filepath.Join(t.TempDir(), "encryption.key"), "")
	if err != nil {
		t.Fatal(err)
	}
	file, err := sqlstore.Open(t.Context(), sqlstore.Options{
		Path: filepath.Join(t.TempDir(), "meshgate.db"), Kinds: mesh.Kinds(), Sealer: keys, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]store.Store{"memory": memstore.New(), "sqlite": file}
	for _, s := range out {
		t.Cleanup(func() { _ = s.Close() })
		if _, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
			_, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: "default", Spec: &mesh.Mesh{}})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// between runs a function before each write of an enrolment, after the old Dataplane was
// judged.
type between struct {
	Documents
	run func()
}

func (b between) PutDocumentIf(ctx context.Context, k *model.Kind, scope, name string, spec any, allowed admit.Allowed) (admit.Outcome, bool, error) {
	b.run()
	return b.Documents.PutDocumentIf(ctx, k, scope, name, spec, allowed)
}

func (b between) DeleteDocumentIf(ctx context.Context, k *model.Kind, scope, name string, allowed admit.Allowed) (store.Commit, error) {
	b.run()
	return b.Documents.DeleteDocumentIf(ctx, k, scope, name, allowed)
}

var registration = map[string]any{
	"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "dataplaneResource": dataplaneYAML,
	"relay": Relay{Socket: "/s", AdminSocket: "/a"},
}

// operates reports whether a Dataplane exists and belongs to an operator.
func (s *Server) operates(t *testing.T, name string) bool {
	t.Helper()
	stored, err := s.dataplane(t.Context(), &Proxy{Mesh: "default", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return stored != nil && stored.Spec.(*mesh.Dataplane).Labels[mesh.LabelOwner] == ""
}

// TestOperatorComesBetween: if an operator writes the Dataplane after an enrolment has read
// it, the operator's version stays.
func TestOperatorComesBetween(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			server := newMeshServer(t)
			gate := admit.New(s, &admittest.Revoker{}, mesh.Kinds(), time.Now)
			server.Store, server.Mesh.Documents = s, gate
			for test, prepare := range map[string]func(){
				"created": func() {}, "replaced": func() { send(server, http.MethodPost, "", encode(t, registration)) },
			} {
				for _, method := range []string{http.MethodPost, http.MethodDelete} {
					_, _ = gate.DeleteDocument(model.WithActor(t.Context(), model.User("operator")), mesh.Dataplanes, "default", "web-1") // if there is one
					server.Mesh.Documents = gate
					prepare()
					server.Mesh.Documents = between{gate, sync.OnceFunc(func() { server.put(t, "web-1", "web", nil) })}
					rec := send(server, method, "", encode(t, registration))
					if test == "created" && method == http.MethodDelete {
						continue // there is nothing to delete, so the function was not called
					}
					if !server.operates(t, "web-1") || rec.Code != http.StatusConflict {
						t.Errorf("%s, %s: %d, the operator's: %t", test, method, rec.Code, server.operates(t, "web-1"))
					}
				}
			}
		})
	}
}

// TestEnrolmentsAndOperator: both write at the same time. Once the operator was answered,
// the Dataplane is the operator's.
func TestEnrolmentsAndOperator(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			server := newMeshServer(t)
			gate := admit.New(s, &admittest.Revoker{}, mesh.Kinds(), time.Now)
			server.Store, server.Mesh.Documents = s, gate
			body := encode(t, registration)
			for range 25 {
				var work sync.WaitGroup
				for _, method := range []string{http.MethodPost, http.MethodPost, http.MethodDelete} {
					work.Go(func() { send(server, method, "", body) })
				}
				work.Go(func() { server.put(t, "web-1", "web", nil) })
				work.Wait()
				if !server.operates(t, "web-1") {
					t.Fatal("the operator's Dataplane was replaced or deleted")
				}
				if _, err := gate.DeleteDocument(model.WithActor(t.Context(), model.User("operator")), mesh.Dataplanes, "default", "web-1"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

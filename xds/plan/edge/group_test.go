package edge

import (
	"context"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/controlplane/view"
)

// TestGroupIsPlannedLikeOneControlPlane plans the same entities spread over two members,
// and in one control plane: a gateway is sent the same.
func TestGroupIsPlannedLikeOneControlPlane(t *testing.T) {
	apart, together := planOf(t, "a", "b"), planOf(t, "b", "b")
	if len(apart.Failures) != 0 || apart.Set == nil {
		t.Fatalf("the group is not planned: %+v", apart.Failures)
	}
	if !apart.Set.Equal(together.Set) {
		t.Error("a group is planned in another way than the same entities in one control plane")
	}
	if alone := planOf(t, "a", "other"); apart.Set.Equal(alone.Set) {
		t.Error("the entities of a member make no difference")
	}
}

// planOf plans the group of a and b, with what the two places hold.
func planOf(t *testing.T, first, second string) Result {
	t.Helper()
	s := memstore.New()
	defer func() { _ = s.Close() }()
	var g *view.Gateway
	if _, err := s.Update(context.Background(), model.Config, func(tx store.Tx) error {
		for n, scope := range []string{first, second} {
			route := routeSpec(id(1, n), "/"+id(2, n))
			for _, r := range []*model.Resource{
				{Kind: gateway.Services, Name: id(1, n), Spec: serviceSpec("/x")},
				{Kind: gateway.Routes, Name: id(2, n), Spec: route},
				{Kind: gateway.Plugins, Name: id(3, n), Spec: pluginSpec(t, id(2, n), "", nil)},
				{Kind: gateway.Consumers, Name: id(4, n), Spec: &gateway.Consumer{Username: id(4, n)}},
			} {
				r.Scope, r.Created = scope, time.Unix(int64(n+1), 0)
				if _, err := tx.Create(r); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.View(context.Background(), func(r store.Reader) (err error) {
		g, err = view.LoadSource("all", scopes.Union(r, "a", "b"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return NewPlanner(Params{Address: "127.0.0.1", HTTPPort: 8000}).Plan(g)
}

package admit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes/scopestest"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// TestOnlyWhatIsEmptyBecomesAGroup: the entities of a control plane are not hidden behind
// those of others. Once it is a group it gets none.
func TestOnlyWhatIsEmptyBecomesAGroup(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	g := admit.New(s, &admittest.Revoker{}, append(gateway.Kinds(), scopestest.Groups), time.Now).As(model.System("test"))
	g.Resolve(scopestest.Resolver{Own: []string{gateway.Plugins.Name}})
	form := func(members ...string) error {
		_, err := g.Write(t.Context(), model.Config, func(tx store.Tx) error { return scopestest.Set(tx, scope, members...) })
		return err
	}
	service := create(t, g, gateway.Services, map[string]any{"host": "a.test"}).Resource
	create(t, g, gateway.Services, map[string]any{"host": "b.test"})
	create(t, g, gateway.Consumers, map[string]any{"username": "bob"})
	create(t, g, gateway.Plugins, map[string]any{"name": "request-termination"}) // groups have their own here
	err := form("a", "b")
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), `"default"`) || !strings.Contains(err.Error(), "(1 consumer, 2 services)") {
		t.Fatalf("a control plane with entities becomes a group: %v", err)
	}
	for _, address := range []admit.Address{at(gateway.Services, service.Name), at(gateway.Consumers, "bob")} {
		if _, err := g.Delete(t.Context(), address); err != nil {
			t.Fatalf("what did not become a group is read-only: %v", err)
		}
	}
	if err := form("a"); err == nil || !strings.Contains(err.Error(), "(1 service)") {
		t.Errorf("one service is left: %v", err)
	}
	if _, err := g.Write(t.Context(), model.Config, func(tx store.Tx) error {
		list, err := tx.List(gateway.Services, store.Query{Scope: scope})
		if err != nil {
			return err
		}
		return tx.Delete(gateway.Services, scope, list[0].Name, 0)
	}); err != nil {
		t.Fatal(err)
	}
	if err := form("a", "b"); err != nil {
		t.Fatalf("an empty control plane does not become a group: %v", err)
	}
	if _, err := g.Create(t.Context(), at(gateway.Services, ""), admit.Input{Values: map[string]any{"host": "c.test"}}); !fault.Is(err, fault.Forbidden) {
		t.Errorf("a group gets a service: %v", err)
	}
	if err := form("b"); err != nil {
		t.Errorf("a member cannot leave: %v", err)
	}
}

// TestGroupAndEntityAtOnce: a transaction that makes a group and writes into it leaves
// neither, in whatever order it does so.
func TestGroupAndEntityAtOnce(t *testing.T) {
	s := memstore.New()
	defer s.Close()
	g := admit.New(s, &admittest.Revoker{}, append(gateway.Kinds(), scopestest.Groups), time.Now).As(model.System("test"))
	g.Resolve(scopestest.Resolver{})
	group := func(tx store.Tx) error { return scopestest.Set(tx, scope, "a") }
	entity := func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Consumers, Scope: scope, Name: "c", Spec: &gateway.Consumer{Username: "c"}})
		return err
	}
	for _, order := range [][2]func(store.Tx) error{{group, entity}, {entity, group}} {
		c, err := g.Write(t.Context(), model.Config, func(tx store.Tx) error {
			if err := order[0](tx); err != nil {
				return err
			}
			return order[1](tx)
		})
		if err == nil || len(c.Changes) != 0 {
			t.Errorf("it is committed: %+v", c)
		}
	}
}

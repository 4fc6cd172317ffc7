package admit_test

import (
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestKeysWithinAnOwner: targets are unique within their upstream, and only there can they be
// addressed by their address.
func TestKeysWithinAnOwner(t *testing.T) {
	g, s, _ := setup(t)
	for _, name := range []string{"one.test", "two.test"} {
		create(t, g, gateway.Upstreams, map[string]any{"name": name})
		create(t, g, gateway.Targets, map[string]any{"upstream": map[string]any{"name": name}, "target": "10.0.0.1"})
	}
	below := func(upstream, target string) admit.Address {
		a := at(gateway.Targets, target)
		a.Under = &admit.Relation{Ref: gateway.RefUpstream, Address: at(gateway.Upstreams, upstream)}
		return a
	}
	_, err := g.Create(t.Context(), below("one.test", ""), admit.Input{Values: map[string]any{"target": "10.0.0.1:8000"}})
	if !fault.Is(err, fault.Unique) {
		t.Errorf("a second spelling of a target: %v", err)
	}
	one, err := lookup(t, s, below("ONE.test", "10.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := lookup(t, s, below("two.test", "10.0.0.1:8000"))
	if err != nil || one.Name == two.Name {
		t.Errorf("both upstreams have target %s: %v", one.Name, err)
	}
	out, err := g.Replace(t.Context(), below("two.test", "10.0.0.1"), admit.Input{Values: map[string]any{"weight": 7}})
	if err != nil || out.Resource.Name != two.Name || out.Resource.Spec.(*gateway.UpstreamTarget).Weight != 7 {
		t.Errorf("replaced %+v: %v", out.Resource, err)
	}
	for _, a := range []admit.Address{at(gateway.Targets, "10.0.0.1:8000"), below("two.test", "10.0.0.2"), at(gateway.Certificates, "x")} {
		if _, err := lookup(t, s, a); !fault.Is(err, fault.NotFound) {
			t.Errorf("%s of %s: %v", a.Key, a.Kind.Name, err)
		}
	}
	if _, err := g.Delete(t.Context(), below("two.test", "10.0.0.1:8000")); err != nil {
		t.Error(err)
	}
}

// TestKindsWithoutKeyAreNotCreatedByOne: for kinds without a key, a name that is not an id
// identifies nothing.
func TestKindsWithoutKeyAreNotCreatedByOne(t *testing.T) {
	g, _, _ := setup(t)
	_, err := g.Replace(t.Context(), at(gateway.CACertificates, "x"), admit.Input{Values: map[string]any{"cert": admittest.Authority(t)}})
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("error %v", err)
	}
}

func lookup(t *testing.T, s store.Store, a admit.Address) (res *model.Resource, err error) {
	t.Helper()
	err = s.View(t.Context(), func(r store.Reader) error {
		res, err = admit.Lookup(r, a)
		return err
	})
	return res, err
}

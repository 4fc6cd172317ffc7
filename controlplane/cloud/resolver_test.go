package cloud_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/scopes"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

const a, b, group = "10000000-0000-4000-8000-00000000000a", "10000000-0000-4000-8000-00000000000b", "10000000-0000-4000-8000-00000000000c"

// populated has two control planes, and a group of the first of all and one of them.
func populated(t *testing.T) store.Store {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { s.Close() })
	gate := admit.New(s, &admittest.Revoker{}, cloud.Kinds(), time.Now).As(model.System("test"))
	if err := cloud.EnsureFirst(t.Context(), s, gate); err != nil {
		t.Fatal(err)
	}
	_, err := gate.Write(t.Context(), model.Config, func(tx store.Tx) error {
		for id, plane := range map[string]*cloud.ControlPlane{a: {Name: "aa"}, b: {Name: "bb"}, group: {Name: "group", ClusterType: cloud.TypeGroup}} {
			if _, err := tx.Create(&model.Resource{Kind: cloud.ControlPlanes, Name: id, Spec: plane}); err != nil {
				return err
			}
		}
		_, err := tx.Create(&model.Resource{Kind: cloud.Groups, Name: group, Spec: &cloud.Group{ControlPlane: group, Members: []string{cloud.DefaultID, a}}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestResolver: what each scope consists of, who is in which group, and what may be written.
func TestResolver(t *testing.T) {
	if err := populated(t).View(t.Context(), func(r store.Reader) error {
		var by cloud.Resolver
		for scope, want := range map[string][]string{
			group: {a, model.DefaultControlPlane}, a: {a}, b: {b}, model.DefaultControlPlane: {model.DefaultControlPlane},
		} {
			src, err := by.Resolve(r, scope)
			if err != nil || !slices.Equal(src.Scopes(), want) || src.IsUnion() != (scope == group) {
				t.Errorf("%s consists of %v, %v", scope, src.Scopes(), err)
			}
		}
		for member, want := range map[string][]string{a: {group}, model.DefaultControlPlane: {group}, b: nil, group: nil} {
			if got, err := by.Groups(r, member); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s is in %v, %v", member, got, err)
			}
		}
		for key, want := range map[model.Key]bool{
			{Kind: gateway.Services.Name, Scope: group}: true, {Kind: gateway.Tokens.Name, Scope: group}: true, {Kind: gateway.Instances.Name, Scope: group}: false,
			{Kind: gateway.Services.Name, Scope: a}: false, {Kind: gateway.Services.Name, Scope: model.DefaultControlPlane}: false,
		} {
			if got, err := by.ReadOnly(r, key); err != nil || got != want {
				t.Errorf("%v is read-only: %v, %v", key, got, err)
			}
		}
		for scope, want := range map[string]bool{a: true, group: true, model.DefaultControlPlane: true, "nowhere": false} {
			if got, err := by.Exists(r, scope); err != nil || got != want {
				t.Errorf("%s exists: %v, %v", scope, got, err)
			}
		}
		for named, want := range map[string]string{"default": cloud.DefaultID, cloud.DefaultID: cloud.DefaultID, "aa": a, a: a, "group": group} {
			if res, err := cloud.Named(r, named); err != nil || res.Name != want {
				t.Errorf("%s names %v, %v", named, res, err)
			}
		}
		if _, err := cloud.Named(r, "nowhere"); !fault.Is(err, fault.NotFound) {
			t.Errorf("nowhere: %v", err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestShapes: only its own row changes what a group consists of, and the first control plane lasts.
func TestShapes(t *testing.T) {
	var by cloud.Resolver
	row := model.Key{Kind: cloud.Groups.Name, Name: group}
	if !by.Shapes(group, row) || by.Shapes(a, row) || by.Shapes(group, model.Key{Kind: cloud.ControlPlanes.Name, Name: group}) {
		t.Error("the wrong rows shape a group")
	}
	res := &model.Resource{Kind: cloud.Groups, Name: group}
	if got := by.Shaped(store.Change{Op: store.Deleted, Old: res}); !slices.Equal(got, []string{group}) {
		t.Errorf("a deletion shapes %v", got)
	}
	if got := by.Shaped(store.Change{New: &model.Resource{Kind: cloud.ControlPlanes, Name: group}}); got != nil {
		t.Errorf("a change of a name shapes %v", got)
	}
	if !scopes.Lasts(by, model.DefaultControlPlane) || scopes.Lasts(by, a) {
		t.Error("the wrong scopes last")
	}
}

// TestFirstControlPlaneIsReadWithoutTheStore: a control plane alone costs what it did.
func TestFirstControlPlaneIsReadWithoutTheStore(t *testing.T) {
	var by cloud.Resolver
	src, err := by.Resolve(nil, model.DefaultControlPlane)
	if err != nil || src.IsUnion() {
		t.Errorf("%v, %v", src.Scopes(), err)
	}
	if refused, err := by.ReadOnly(nil, model.Key{Kind: gateway.Tokens.Name, Scope: model.DefaultControlPlane}); refused || err != nil {
		t.Errorf("it is read-only: %v, %v", refused, err)
	}
	if found, err := by.Exists(nil, model.DefaultControlPlane); !found || err != nil {
		t.Errorf("it exists: %v, %v", found, err)
	}
}

// TestFirstControlPlaneIsMadeOnce: a second start leaves it as it is, and so does another process
// that was first.
func TestFirstControlPlaneIsMadeOnce(t *testing.T) {
	s := populated(t)
	gate := admit.New(s, &admittest.Revoker{}, cloud.Kinds(), time.Now).As(model.System("test"))
	for _, of := range []store.Store{s, blind{s}} {
		if err := cloud.EnsureFirst(t.Context(), of, gate); err != nil {
			t.Error(err)
		}
	}
	if err := s.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(cloud.ControlPlanes, "", cloud.DefaultID)
		if err == nil && res.Version != 1 {
			t.Errorf("it was written %d times", res.Version)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// blind is a store in which the first control plane is not seen yet.
type blind struct{ store.Store }

// View implements [store.Store].
func (blind) View(context.Context, func(store.Reader) error) error {
	return fault.New(fault.NotFound, "not yet")
}

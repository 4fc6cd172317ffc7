package dryrun_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/policy/meshtokenauth"
	"github.com/meshgate/meshgate/xds/resource"
)

const plugin = "2c6ac1be-5e0e-4a5c-9f0b-0d7b0f6d7c11"

// instance returns a write of the plugin instance of a control plane.
func instance(controlPlane, header string) func(store.Tx) error {
	return func(tx store.Tx) error {
		r := &model.Resource{Kind: gateway.Plugins, Scope: controlPlane, Name: plugin, Spec: &gateway.Plugin{
			Name: gateway.PluginOAuth2, Enabled: true, Config: fmt.Appendf(nil, `{"auth_header_name":%q,"global_credentials":true}`, header),
		}}
		if _, err := tx.Get(r.Kind, r.Scope, r.Name); err == nil {
			_, err = tx.Update(r, 0)
			return err
		}
		_, err := tx.Create(r)
		return err
	}
}

// demand returns a write that has a service demand the tokens of the instance.
func demand(t *testing.T, controlPlane string) func(store.Tx) error {
	t.Helper()
	_, spec, err := model.DecodeDocument(meshtokenauth.Kind, fmt.Appendf(nil, `{"type":"MeshTokenAuth","mesh":"m","name":"x","spec":{
		"targetRef":{"kind":"MeshService","name":"s-0"},"from":[{"targetRef":{"kind":"Mesh"},"default":{"plugin":{"controlPlane":%q,"id":%q}}}]}}`, controlPlane, plugin))
	if err != nil {
		t.Fatal(err)
	}
	return put(meshtokenauth.Kind, "x", spec)
}

// changed lists the nodes of an answer.
func changed(a *dryrun.Answer) (out []string) {
	for _, c := range a.Changes {
		out = append(out, c.Nodes...)
	}
	slices.Sort(out)
	return out
}

// TestMeshesThatLookAtAControlPlane: a write to a control plane changes the proxies of meshes whose
// policies name something of it, and a policy may be the first that does so.
func TestMeshesThatLookAtAControlPlane(t *testing.T) {
	for _, name := range []string{model.DefaultControlPlane, "other"} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4, 2)
			w.must(w.write(w.ctx, instance(name, "authorization")))
			w.Settle(t)
			want := []string{"m.d-0000", "m.d-0002"}
			if a := w.try(instance(name, "x-token")); len(a.Changes) > 0 {
				t.Errorf("nobody looks at it: %+v", a.Changes)
			}
			for _, fn := range []func(store.Tx) error{demand(t, name), instance(name, "x-token"), func(tx store.Tx) error {
				return tx.Delete(gateway.Plugins, name, plugin, 0)
			}} {
				a := w.try(fn)
				if !slices.Equal(changed(a), want) {
					t.Fatalf("%+v", a)
				}
				before := w.sets()
				w.must(w.write(w.ctx, fn))
				w.Settle(t)
				for node, now := range w.sets() {
					if now.Equal(before[node]) == slices.Contains(want, node) {
						t.Errorf("%s has changed: %t", node, !now.Equal(before[node]))
					}
				}
				for _, c := range a.Changes {
					w.arrived(t, c)
				}
			}
		})
	}
}

// sets are those of all proxies.
func (w *world) sets() map[string]*resource.Set {
	out := map[string]*resource.Set{}
	for _, node := range w.Snapshots.Nodes() {
		out[node] = w.Snapshots.Get(node)
	}
	return out
}

// arrived checks that nodes have, or have not, the resources that were announced.
func (w *world) arrived(t *testing.T, c dryrun.Change) {
	t.Helper()
	for _, node := range c.Nodes {
		for _, r := range c.Resources {
			has := w.Snapshots.Get(node).Get(resource.TypeURL(r.Type), r.Name) != nil
			if has == (r.Change == "removed") && r.Type != string(resource.Secret) {
				t.Errorf("%s of %s was to be %s, and is there: %t", r.Name, node, r.Change, has)
			}
		}
	}
}

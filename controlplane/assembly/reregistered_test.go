package assembly

import (
	"context"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	xds "github.com/meshgate/meshgate/xds/server"
)

// TestRegisteredDuringItsRemoval: what a node registers after somebody has asked for its removal stays, and so
// does the node. It may be that another removal was quicker, or that nothing was stored, so that nobody has
// asked whether it may be deleted here. What others write into the same registration goes with it. Of one that
// has come back as it was, the operator is told that it was not removed.
func TestRegisteredDuringItsRemoval(t *testing.T) {
	r := startRunning(t, func(*running, *xds.Config) {})
	ctx := model.WithActor(t.Context(), model.User("ann"))
	writer := r.gate.As(model.System("test"))
	of := func(instance string) {
		t.Helper()
		d := &mesh.Dataplane{Networking: &mesh.Networking{
			Address: "127.0.0.1", Inbound: []mesh.Inbound{{Port: 8080, Tags: mesh.Tags{mesh.TagService: "web"}}},
		}}
		if instance != "" {
			d.SetLabels(map[string]string{mesh.LabelInstance: instance})
		}
		if _, _, err := writer.PutDocument(ctx, mesh.Dataplanes, mesh.Default, "web", d); err != nil {
			t.Fatal(err)
		}
	}
	enrol := func(port int) {
		t.Helper()
		if _, err := writer.Write(ctx, model.Credential, func(tx store.Tx) error {
			res := &model.Resource{Kind: gateway.Instances, Scope: model.DefaultControlPlane, Name: "gw", Spec: &gateway.Instance{
				Listen: "127.0.0.1", HTTPPort: port, HTTPSPort: 443, ControlPlane: "127.0.0.1:5678",
			}}
			if _, err := tx.Get(res.Kind, res.Scope, res.Name); err == nil {
				_, err = tx.Update(res, 0)
				return err
			}
			_, err := tx.Create(res)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	const sidecar, edge = "default.web", "cp/default/gw"
	other := func(node string) { // another removal, which is over
		t.Helper()
		n, _ := r.mesh.insights.Node(node)
		seen, err := r.storedNode(ctx, n)
		if err == nil {
			_, err = r.deleteNode(ctx, n, seen)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	comes := func(node string) { r.mesh.insights.Connected(xds.Event{Node: node, Stream: 1}) }
	gone := r.nodes.Gone
	for name, test := range map[string]struct {
		node              string
		before, meanwhile func()
		stays, conflict   bool
	}{
		"nothing happens":           {sidecar, func() { of("a") }, func() {}, false, false},
		"somebody writes into it":   {sidecar, func() { of("a") }, func() { of("a") }, false, false},
		"another agent":             {sidecar, func() { of("a") }, func() { of("b") }, true, false},
		"removed and made anew":     {sidecar, func() { of("a") }, func() { other(sidecar); of("a") }, true, false},
		"an operator's, made anew":  {sidecar, func() { of("") }, func() { other(sidecar); of("") }, true, false},
		"nothing was stored":        {sidecar, func() {}, func() { of("a") }, true, false},
		"removed twice":             {sidecar, func() { of("a") }, func() { other(sidecar) }, false, false},
		"a gateway":                 {edge, func() { enrol(80) }, func() {}, false, false},
		"enrols as something else":  {edge, func() { enrol(80) }, func() { enrol(81) }, true, false},
		"enrols anew":               {edge, func() { enrol(80) }, func() { other(edge); enrol(80) }, true, false},
		"comes as it was":           {edge, func() { enrol(80) }, func() { comes(edge) }, true, true},
		"a sidecar comes as before": {sidecar, func() { of("a") }, func() { comes(sidecar) }, true, true},
		"a gateway, removed twice":  {edge, func() { enrol(80) }, func() { other(edge) }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r.mesh.insights.Expect(test.node)
			test.before()
			r.nodes.Gone = func(node string) error {
				test.meanwhile()
				return gone(node)
			}
			if err := r.nodes.Remove(ctx, test.node, nil); fault.Is(err, fault.Conflict) != test.conflict || err != nil && !test.conflict {
				t.Fatal(err)
			}
			n, known := r.mesh.insights.Node(test.node)
			if known != test.stays {
				t.Errorf("the node is listed: %t", known)
			}
			if !known {
				n = insight.Node{ID: test.node, Type: insight.Sidecar, Scope: mesh.Default, Name: "web"}
				if test.node == edge {
					n.Type, n.Scope, n.Name = insight.Gateway, model.DefaultControlPlane, "gw"
				}
			}
			seen, err := r.storedNode(ctx, n)
			if err != nil || (seen != nil) != test.stays {
				t.Errorf("it is stored: %t, %v", seen != nil, err)
			}
			r.mesh.insights.Disconnected(xds.Event{Node: test.node, Stream: 1})
			if _, err := r.deleteNode(context.WithoutCancel(ctx), n, seen); err != nil { // for the next one
				t.Error(err)
			}
			r.mesh.insights.Remove(test.node)
		})
	}
}

package enrol

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// ingress is an ingress of an agent, into which others write.
type ingress struct {
	*removing
	services int
}

// write stores the ingress with another service than before.
func (w *ingress) write(instance string) {
	w.t.Helper()
	w.services++
	spec := &mesh.ZoneIngress{Zone: "west", Networking: &mesh.ZoneIngressNetworking{Address: "127.0.0.2", Port: 10001}}
	spec.AvailableServices = []mesh.AvailableService{{Mesh: "default", Instances: 1, Tags: mesh.Tags{mesh.TagService: fmt.Sprintf("s%d", w.services)}}}
	spec.SetLabels(map[string]string{mesh.LabelOwner: mesh.OwnerAgent, mesh.LabelInstance: instance})
	res := &model.Resource{Kind: mesh.ZoneIngresses, Name: "in", Spec: spec}
	_, err := w.store.Update(context.Background(), model.Config, func(tx store.Tx) error {
		_, err := tx.Update(res, 0)
		if fault.Is(err, fault.NotFound) {
			_, err = tx.Create(res)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// heard writes it, and the event of that arrives.
func (w *ingress) heard(instance string) {
	w.t.Helper()
	w.write(instance)
	w.Written(mesh.ZoneNodeScope(mesh.ProxyIngress), "in", instance)
}

// busy lets time pass in which services change.
func (w *ingress) busy(instance string, seconds int) {
	w.t.Helper()
	for range seconds {
		time.Sleep(time.Second)
		if w.there() {
			w.heard(instance)
		}
	}
}

// there reports whether it is stored.
func (w *ingress) there() bool {
	w.t.Helper()
	synctest.Wait()
	err := w.store.View(context.Background(), func(r store.Reader) error {
		_, err := r.Get(mesh.ZoneIngresses, "", "in")
		return err
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		w.t.Fatal(err)
	}
	return err == nil
}

// TestWritesOfOthersKeepNoProxy: while services change, the control plane writes into the ingress of
// an agent that is gone. It goes in time all the same, also after a restart of the control plane.
// Another agent with its name has the full time.
func TestWritesOfOthersKeepNoProxy(t *testing.T) {
	scope := mesh.ZoneNodeScope(mesh.ProxyIngress)
	for name, test := range map[string]struct {
		before func(w *ingress)
		whose  string // it is then
		stays  int    // seconds
	}{
		"it has left":              {func(w *ingress) { w.Connected(scope, "in"); w.busy("a", 40); w.Disconnected(scope, "in") }, "a", 29},
		"it never came":            {func(w *ingress) { w.busy("a", 9) }, "a", 20},
		"after a restart":          {func(w *ingress) { w.busy("a", 9); w.stop(); w.write("a"); w.start() }, "a", 29},
		"another has come":         {func(w *ingress) { w.busy("a", 9); w.heard("b"); w.busy("b", 20) }, "b", 9},
		"another has come unheard": {func(w *ingress) { w.busy("a", 20); w.write("b"); time.Sleep(15 * time.Second); w.heard("b") }, "b", 29},
	} {
		t.Run(name, func(t *testing.T) {
			removals(t, func(r *removing) {
				w := &ingress{removing: r}
				w.heard("a")
				test.before(w)
				w.busy(test.whose, test.stays)
				if !w.there() {
					t.Fatal("it went too early")
				}
				w.busy(test.whose, 2)
				if w.there() {
					t.Error("it stays")
				}
			})
		})
	}
}

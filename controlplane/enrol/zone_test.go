package enrol

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// ownZone knows one good token, and one of another zone.
type ownZone struct{}

func (ownZone) CheckToken(context.Context, string) error { return nil }
func (ownZone) Own() string                              { return "west" }

func (ownZone) CheckProxy(_ context.Context, proxyType, token string) error {
	switch {
	case token == "east":
		return fault.New(fault.Forbidden, "the proxy's zone west is not the token's east")
	case token != "west" && token != "out" || (token == "out") != (proxyType == mesh.ProxyEgress):
		return fault.New(fault.Denied, "the zone token is not valid")
	}
	return nil
}

const ingressYAML = "type: ZoneIngress\nname: in\nnetworking:\n  address: 127.0.0.2\n  port: 10001\navailableServices:\n- mesh: default\n  tags: {mesh.io/service: lies}\n"

// TestZoneIngress: an ingress registers itself with a token of its zone, replaces what its own agent
// or none has registered, and takes that away when it leaves.
func TestZoneIngress(t *testing.T) {
	s := newMeshServer(t)
	s.Mesh.Zone = ownZone{}
	ask := func(method string, change map[string]any) (int, string) {
		t.Helper()
		in := map[string]any{
			"proxyType": "ingress", "name": "in", "dataplaneToken": "west", "dataplaneResource": ingressYAML, "instance": "a",
			"relay": Relay{Socket: "/s", AdminSocket: "/a"},
		}
		for k, v := range change {
			in[k] = v
		}
		rec := send(s, method, "application/json", encode(t, in))
		return rec.Code, rec.Body.String()
	}
	stored := func() (z *mesh.ZoneIngress) {
		t.Helper()
		err := s.Store.View(t.Context(), func(r store.Reader) error {
			res, err := r.Get(mesh.ZoneIngresses, "", "in")
			if err == nil {
				z = res.Spec.(*mesh.ZoneIngress)
			}
			return err
		})
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		return z
	}
	write := func(z *mesh.ZoneIngress) {
		t.Helper()
		_, err := s.Store.Update(t.Context(), model.Config, func(tx store.Tx) error {
			old, err := tx.Get(mesh.ZoneIngresses, "", "in")
			if err != nil {
				_, err = tx.Create(&model.Resource{Kind: mesh.ZoneIngresses, Name: "in", Spec: z})
				return err
			}
			_, err = tx.Update(&model.Resource{Kind: mesh.ZoneIngresses, Name: "in", Spec: z}, old.Version)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		what   string
		change map[string]any
		status int
		want   string
	}{
		{"a token of another zone", map[string]any{"dataplaneToken": "east"}, 403, "east"},
		{"a token of a mesh", map[string]any{"dataplaneToken": "default/in/web"}, 401, "not valid"},
		{"a mesh", map[string]any{"mesh": "default"}, 422, `"field":"mesh"`},
		{"another name", map[string]any{"name": "other"}, 422, `"field":"name"`},
		{"another zone", map[string]any{"dataplaneResource": "zone: east\n" + ingressYAML}, 422, `"field":"zone"`},
		{"another kind", map[string]any{"dataplaneResource": dataplaneYAML}, 422, `"field":"type"`},
		{"nothing", map[string]any{"dataplaneResource": ""}, 404, "create it first"},
	} {
		if status, body := ask(http.MethodPost, c.change); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.what, status, body)
		}
		if stored() != nil {
			t.Fatalf("%s: it has registered", c.what)
		}
	}
	if status, body := ask(http.MethodPost, nil); status != 200 || !strings.Contains(body, `"node":"zone/ingress/in"`) {
		t.Fatalf("%d %s", status, body)
	}
	z := stored()
	if z == nil || len(z.AvailableServices) > 0 || z.Labels[mesh.LabelOwner] != mesh.OwnerAgent {
		t.Fatalf("registered as %+v", z)
	}
	// What the control plane has counted stays when the agent comes again.
	counted := *z
	counted.AvailableServices = []mesh.AvailableService{{Mesh: "default", Instances: 1, Tags: mesh.Tags{mesh.TagService: "web"}}}
	write(&counted)
	if status, body := ask(http.MethodPost, map[string]any{"instance": "b"}); status != 200 || len(stored().AvailableServices) != 1 {
		t.Errorf("%d %s, %+v", status, body, stored())
	}
	if status, _ := ask(http.MethodPost, map[string]any{"instance": "b", "leaving": true}); status != 204 || stored() == nil {
		t.Errorf("%d: other zones still call an ingress that is about to drain", status)
	}
	if status, _ := ask(http.MethodDelete, nil); status != 204 || stored() == nil {
		t.Errorf("%d: an agent that was replaced took the ingress away", status)
	}
	if status, _ := ask(http.MethodDelete, map[string]any{"instance": "b"}); status != 204 || stored() != nil {
		t.Errorf("%d: it is still there", status)
	}
	write(&mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Port: 1}})
	if status, _ := ask(http.MethodPost, nil); status != 409 {
		t.Errorf("%d: what an operator wrote is replaced", status)
	}
	if status, _ := ask(http.MethodPost, map[string]any{"dataplaneResource": ""}); status != 200 {
		t.Errorf("%d: what an operator wrote is not used", status)
	}
	write(&mesh.ZoneIngress{Zone: "east"})
	if status, _ := ask(http.MethodPost, map[string]any{"dataplaneResource": ""}); status != 403 {
		t.Errorf("%d: an ingress of another zone is served", status)
	}
}

// TestZoneEgress: an egress registers itself as an ingress does, with a token for egresses.
func TestZoneEgress(t *testing.T) {
	s := newMeshServer(t)
	s.Mesh.Zone = ownZone{}
	var waited []uint64
	s.Mesh.Confirmed = func(_ context.Context, revision uint64) error { waited = append(waited, revision); return nil }
	leaving, starting := false, false
	ask := func(method, token, instance string) (int, string) {
		t.Helper()
		rec := send(s, method, "application/json", encode(t, map[string]any{
			"proxyType": "egress", "name": "out", "dataplaneToken": token, "instance": instance, "relay": Relay{Socket: "/s", AdminSocket: "/a"}, "leaving": leaving, "starting": starting,
			"dataplaneResource": "type: ZoneEgress\nname: out\nnetworking: {address: 127.0.0.2, port: 10002}\n",
		}))
		return rec.Code, rec.Body.String()
	}
	registered := func() (yes bool) {
		t.Helper()
		err := s.Store.View(t.Context(), func(r store.Reader) error {
			res, err := r.Get(mesh.ZoneEgresses, "", "out")
			if err == nil {
				address, port := res.Spec.(*mesh.ZoneEgress).Listens()
				yes = address == "127.0.0.2" && port == 10002
			}
			return err
		})
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		return yes
	}
	if status, body := ask(http.MethodPost, "west", "a"); status != 401 || registered() {
		t.Errorf("with a token for ingresses: %d %s", status, body)
	}
	if status, body := ask(http.MethodPost, "out", "a"); status != 200 || !strings.Contains(body, `"node":"zone/egress/out"`) || !registered() {
		t.Fatalf("%d %s", status, body)
	}
	if status, _ := ask(http.MethodDelete, "out", "b"); status != 204 || !registered() {
		t.Errorf("%d: another agent took the egress away", status)
	}
	if status, _ := ask(http.MethodDelete, "out", "a"); status != 204 || registered() {
		t.Errorf("%d: it is still there", status)
	}
	// One that is about to drain is called no more: that is answered when its callers have confirmed it.
	ask(http.MethodPost, "out", "a")
	leaving = true
	if status, _ := ask(http.MethodPost, "out", "b"); status != 204 || !registered() || waited != nil {
		t.Errorf("%d: another agent took the egress away, waited for %d", status, waited)
	}
	if status, _ := ask(http.MethodPost, "west", "a"); status != 401 || !registered() {
		t.Errorf("%d: it is gone with a token for ingresses", status)
	}
	if status, _ := ask(http.MethodPost, "out", "a"); status != 204 || registered() || len(waited) != 1 || waited[0] != s.Store.Revision() {
		t.Errorf("%d: waited for %d at %d", status, waited, s.Store.Revision())
	}
	if status, _ := ask(http.MethodPost, "out", "a"); status != 204 || len(waited) != 1 {
		t.Errorf("%d: it leaves twice, and waits for %d", status, waited)
	}
	// One that starts is registered and not called. What its own agent said last counts, whichever request
	// comes last; another agent begins anew.
	labels := func() (l map[string]string) {
		t.Helper()
		if err := s.Store.View(t.Context(), func(r store.Reader) error {
			res, err := r.Get(mesh.ZoneEgresses, "", "out")
			if err == nil {
				l = model.LabelsOf(res.Spec)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return l
	}
	leaving = false
	for i, c := range []struct {
		instance     string
		starting, is bool
	}{{"c", true, true}, {"c", true, true}, {"c", false, false}, {"c", true, false}, {"d", true, true}, {"d", false, false}} {
		starting = c.starting
		if status, body := ask(http.MethodPost, "out", c.instance); status != 200 || mesh.IsStarting(labels()) != c.is {
			t.Errorf("%d: %d %s, %v", i, status, body, labels())
		}
	}
}

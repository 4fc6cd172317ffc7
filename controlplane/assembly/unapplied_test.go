package assembly

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/policy/faultinjection"
	"github.com/meshgate/meshgate/xds/policy/trafficpermission"
	"github.com/meshgate/meshgate/xds/resource"
	"github.com/meshgate/meshgate/xds/snapshot"
)

// between is a connection from one service to another.
func between(source, destination string) mesh.Connection {
	return mesh.Connection{
		Sources:      []mesh.Selector{{Match: mesh.Tags{mesh.TagService: source}}},
		Destinations: []mesh.Selector{{Match: mesh.Tags{mesh.TagService: destination}}},
	}
}

// aborts is what aborts every request of one service to another.
func aborts(source, destination string) *faultinjection.Spec {
	return &faultinjection.Spec{Connection: between(source, destination), Conf: &faultinjection.Conf{
		Abort: &faultinjection.Abort{Percentage: new(100.0), HTTPStatus: new(uint32(500))},
	}}
}

// ask returns what the mesh API of a fleet answers.
func (f *fleet) ask(t *testing.T, path string) (out map[string]any) {
	t.Helper()
	h := meshapi.Handler(meshapi.Options{
		Kinds: AllKinds(), Store: f.cp.store, Insights: reports{}, Problems: problems{f.cp}, Policies: f.cp.chosenPolicies(),
	})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/meshes/default/"+path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return out
}

// create stores resources of the mesh and waits until they are planned.
func (f *fleet) create(t *testing.T, all ...*model.Resource) {
	t.Helper()
	f.settle(t, f.write(t, func(tx store.Tx) error {
		for _, r := range all {
			r.Scope = mesh.Default
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}))
}

// speaksTCP makes the inbound of the first proxy speak TCP.
func (f *fleet) speaksTCP(t *testing.T) {
	t.Helper()
	f.settle(t, f.write(t, func(tx store.Tx) error {
		d := webAt(0)
		d.Networking.Inbound[0].Tags[mesh.TagProtocol] = mesh.ProtocolTCP
		_, err := tx.Update(&model.Resource{Kind: mesh.Dataplanes, Scope: mesh.Default, Name: name(0), Spec: d}, 0)
		return err
	}))
}

// TestWhatCannotTakeEffectIsSaid: the overview of a proxy says which chosen policies do nothing
// there, and why: at an inbound of another protocol, and by callers that nobody knows without
// mutual TLS. It says nothing about those that do something.
func TestWhatCannotTakeEffectIsSaid(t *testing.T) {
	f := startFleet(t, 2)
	f.speaksTCP(t)
	f.create(t,
		&model.Resource{Kind: faultinjection.Kind, Name: "all", Spec: aborts(mesh.AnyValue, "web")},
		&model.Resource{Kind: trafficpermission.Kind, Name: "anybody", Spec: &trafficpermission.Spec{Connection: between(mesh.AnyValue, mesh.AnyValue)}},
	)
	errors := func(i int) (out []string) {
		list, _ := f.ask(t, "dataplanes/"+name(i)+"/_overview")["errors"].([]any)
		for _, e := range list {
			out = append(out, e.(string))
		}
		slices.Sort(out)
		return out
	}
	const tcp = "FaultInjection all on @localhost:8080: not applied: the inbound speaks tcp"
	if d := cmp.Diff([][]string{{tcp}, nil}, [][]string{errors(0), errors(1)}); d != "" {
		t.Errorf("by the protocol (-want +got):\n%s", d)
	}
	f.create(t, &model.Resource{Kind: trafficpermission.Kind, Name: "api", Spec: &trafficpermission.Spec{Connection: between("api", "web")}})
	const plain = "TrafficPermission api on @localhost:8080: api is not applied: callers are known by their certificates, and the mesh has no mutual TLS"
	if d := cmp.Diff([][]string{{tcp, plain}, {plain}}, [][]string{errors(0), errors(1)}); d != "" {
		t.Errorf("without mutual TLS (-want +got):\n%s", d)
	}
	f.settle(t, f.write(t, func(tx store.Tx) error {
		m := &mesh.Mesh{MTLS: &mesh.MTLS{EnabledBackend: "ca", Backends: []mesh.Authority{{Name: "ca", Type: mesh.AuthorityBuiltin}}}}
		_, err := tx.Update(&model.Resource{Kind: mesh.Meshes, Name: mesh.Default, Spec: m}, 0)
		return err
	}))
	if got := strings.Join(errors(1), "\n"); strings.Contains(got, "not applied") {
		t.Errorf("with mutual TLS: %s", got)
	}
}

// TestWhatAProxyRefusesIsSaid: what the overview of a proxy says is said with the policies of the
// proxy, too, and with each of its policies what is about that one, or may be.
func TestWhatAProxyRefusesIsSaid(t *testing.T) {
	f := startFleet(t, 2)
	f.speaksTCP(t)
	f.create(t,
		&model.Resource{Kind: faultinjection.Kind, Name: "all", Spec: aborts(mesh.AnyValue, "web")},
		&model.Resource{Kind: trafficpermission.Kind, Name: "anybody", Spec: &trafficpermission.Spec{Connection: between(mesh.AnyValue, mesh.AnyValue)}},
	)
	f.proxy[0].Reject([]snapshot.Rejection{{Type: resource.Listener, Error: "no such filter", Revision: f.cp.store.Revision()}})
	const tcp = "FaultInjection all on @localhost:8080: not applied: the inbound speaks tcp"
	refused := "the proxy refused " + string(resource.Listener) + ": no such filter"
	for path, want := range map[string][]any{
		"dataplanes/" + name(0) + "/_overview": {tcp, refused},
		"dataplanes/" + name(0) + "/policies":  {tcp, refused},
		"dataplanes/" + name(0) + "/rules":     {tcp, refused},
		"dataplanes/" + name(1) + "/policies":  nil,
	} {
		got, _ := f.ask(t, path)["errors"].([]any)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	}
	for path, want := range map[string][]any{
		"fault-injections/all/dataplanes":        {tcp, refused},
		"traffic-permissions/anybody/dataplanes": {refused},
	} {
		items := f.ask(t, path)["items"].([]any)
		for i, want := range [][]any{want, nil} {
			got, _ := items[i].(map[string]any)["errors"].([]any)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s, dataplane %d (-want +got):\n%s", path, i, d)
			}
		}
	}
}

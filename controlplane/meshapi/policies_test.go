package meshapi

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/turns"
	"github.com/meshgate/meshgate/inspect"
)

// TestWhoAsksTooMuchIsToldWhen: if too many clients ask for chosen policies, the next one is
// told when to ask again. Resources that do not exist are reported without a turn.
func TestWhoAsksTooMuchIsToldWhen(t *testing.T) {
	queue := turns.Sized(1, 0)
	h := newAPI(t, func(o *Options) { o.Policies.(*inspect.Policies).Turns = queue }).handler
	for _, put := range [][2]string{
		{"/meshes/m", `{"type":"Mesh","name":"m"}`},
		{"/meshes/m/dataplanes/web-1", `{"type":"Dataplane","mesh":"m","name":"web-1","networking":{"address":"10.0.0.1","inbound":[{"port":80,"tags":{"mesh.io/service":"web"}}]}}`},
		{"/meshes/m/tickets/all", `{"type":"Ticket","mesh":"m","name":"all","sources":[{"match":{"mesh.io/service":"*"}}],"destinations":[{"match":{"mesh.io/service":"*"}}],"conf":{"price":1}}`},
	} {
		if rec := request(h, http.MethodPut, put[0], put[1], "Content-Type", mediaJSON); rec.Code != http.StatusCreated {
			t.Fatalf("%s: %d %s", put[0], rec.Code, rec.Body)
		}
	}
	if err := queue.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	asks := []string{"/meshes/m/dataplanes/web-1/policies", "/meshes/m/dataplanes/web-1/policies?explain=true", "/meshes/m/dataplanes/web-1/rules", "/meshes/m/tickets/all/dataplanes"}
	for _, path := range asks {
		rec := request(h, http.MethodGet, path, "")
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "1" || !strings.Contains(rec.Body.String(), "ask again") {
			t.Errorf("%s: %d, Retry-After %q, %s", path, rec.Code, rec.Header().Get("Retry-After"), rec.Body)
		}
	}
	for path, want := range map[string]int{"/meshes/m/tickets/gone/dataplanes": http.StatusOK, "/meshes/m/dataplanes/gone/policies": http.StatusNotFound} {
		if rec := request(h, http.MethodGet, path, ""); rec.Code != want {
			t.Errorf("%s, which does not exist: %d", path, rec.Code)
		}
	}
	queue.Leave()
	for _, path := range asks {
		if rec := request(h, http.MethodGet, path, ""); rec.Code != http.StatusOK || rec.Header().Get("Retry-After") != "" {
			t.Errorf("%s afterwards: %d, Retry-After %q", path, rec.Code, rec.Header().Get("Retry-After"))
		}
	}
}

// TestChosenByNobody: a policy that does not exist is chosen for no dataplane.
func TestChosenByNobody(t *testing.T) {
	rec := request(seeded(t).handler, http.MethodGet, "/meshes/m/tickets/gone/dataplanes", "")
	if want := "{\n \"total\": 0,\n \"items\": []\n}\n"; rec.Code != http.StatusOK || rec.Body.String() != want {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// TestGatewaysThatAreNotThere: a question about a gateway or its route has one title where it fails,
// whether its mesh or the resource is missing, and whether or not the kind is offered.
func TestGatewaysThatAreNotThere(t *testing.T) {
	without := func(o *Options) {
		o.Kinds = slices.DeleteFunc(slices.Clone(o.Kinds), func(k *model.Kind) bool { return k == mesh.MeshGateways || k == mesh.MeshGatewayRoutes })
	}
	for name, a := range map[string]*api{"offered": newAPI(t), "not offered": newAPI(t, without)} {
		a.put(t, "/meshes/m", `{"type":"Mesh","name":"m"}`)
		for _, meshName := range []string{"m", "none"} {
			for kind, title := range map[string]string{"meshgateways": "Could not find MeshGateway", "meshgatewayroutes": "Could not find MeshGatewayRoute"} {
				rec := request(a.handler, http.MethodGet, "/meshes/"+meshName+"/"+kind+"/none/dataplanes", "")
				if rec.Code != http.StatusNotFound || !strings.Contains(rec.Body.String(), `"title": "`+title+`"`) {
					t.Errorf("%s, %s of mesh %s: %d %s", name, kind, meshName, rec.Code, rec.Body)
				}
			}
		}
	}
}

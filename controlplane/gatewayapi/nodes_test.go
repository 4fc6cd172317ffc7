package gatewayapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
)

// TestRemovesOwnGatewaysOnly: proxies of meshes have Dataplanes, and gateways of other
// control planes do not belong to this one. Neither are removed.
func TestRemovesOwnGatewaysOnly(t *testing.T) {
	known := nodestest.New()
	known.Documents[0].State = insight.Away
	known.Documents = append(known.Documents, nodes.Node{Name: "cp/other/gw", Type: insight.Gateway, ControlPlane: "other", State: insight.Away})
	f := setupWith(t, func(o *gatewayapi.Options) { o.Nodes = known })
	before := len(known.Documents)
	for name, want := range map[string]string{
		"default.web":     `proxy of the mesh \"default\"`,
		"cp%2Fother%2Fgw": `gateway of the control plane \"other\"`,
	} {
		if w := f.do(http.MethodDelete, "/nodes/"+name, ""); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	if len(known.Documents) != before {
		t.Errorf("%d of %d are left", len(known.Documents), before)
	}
	if w := f.do(http.MethodDelete, "/nodes/cp%2Fdefault%2Fgw-1", ""); w.Code != http.StatusNoContent || len(known.Documents) != before-1 {
		t.Errorf("its own: %d %s", w.Code, w.Body)
	}
}

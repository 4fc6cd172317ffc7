package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/meshgate/meshgate/"

// layers says which packages of this module a package may import. A package
// without a row fails the test: whoever adds one decides where it belongs.
var layers = map[string]string{
	"filter/contract":      "",
	"filter/engine":        "filter/contract",
	"filter/tokencache":    "filter/contract filter/engine",
	"filter/filtertest":    "filter/contract filter/engine",
	"filter/dynamicmodule": "filter/contract filter/engine filter/tokencache",

	"xds/resource":     "",
	"xds/snapshot":     "xds/resource",
	"xds/server":       "xds/resource xds/snapshot",
	"xds/relay":        "xds/resource xds/snapshot xds/server",
	"xds/xdstest":      "xds/resource",
	"xds/bootstrap":    "",
	"xds/plan":         "controlplane/view controlplane/gateway xds/plan/gateway xds/resource filter/contract",
	"xds/plan/gateway": "controlplane/view controlplane/gateway xds/resource filter/contract",

	"controlplane/fault":               "",
	"controlplane/config":              "controlplane/fault",
	"controlplane/model":               "controlplane/fault",
	"controlplane/httpkit":             "controlplane/fault controlplane/model",
	"controlplane/gateway":             "controlplane/fault controlplane/model",
	"controlplane/store":               "controlplane/fault controlplane/model",
	"controlplane/store/internal/rows": "controlplane/fault controlplane/model controlplane/store",
	"controlplane/store/memstore":      "controlplane/fault controlplane/model controlplane/store controlplane/store/internal/rows",
	"controlplane/store/sqlstore":      "controlplane/fault controlplane/model controlplane/store controlplane/store/internal/rows controlplane/store/seal",
	"controlplane/store/seal":          "controlplane/fault",
	"controlplane/store/storetest":     "controlplane/fault controlplane/model controlplane/store controlplane/gateway",
	"controlplane/view":                "controlplane/fault controlplane/model controlplane/store controlplane/gateway",
	"controlplane/admit":               "controlplane/fault controlplane/model controlplane/store",
	"controlplane/revoke":              "controlplane/fault controlplane/model controlplane/store filter/contract",
	"controlplane/oauth":               "controlplane/fault controlplane/model controlplane/store controlplane/gateway controlplane/admit controlplane/revoke filter/contract",
	"controlplane/identity":            "controlplane/fault controlplane/model controlplane/store",
	"controlplane/loop":                "controlplane/fault controlplane/model controlplane/store controlplane/view controlplane/gateway controlplane/identity xds/plan xds/plan/gateway xds/snapshot xds/resource",
	"controlplane/adminapi":            "controlplane/fault controlplane/model controlplane/store controlplane/gateway controlplane/admit controlplane/httpkit controlplane/oauth controlplane/revoke",
	"controlplane/meshapi":             "controlplane/fault controlplane/model controlplane/store controlplane/admit controlplane/httpkit controlplane/identity",
	"controlplane/agent":               "controlplane/fault xds/bootstrap xds/resource xds/relay filter/contract",
	"controlplane/cmd/meshgate":        "*",
}

// TestLayers holds the imports of every package against its row. Test files are
// free to use the test packages of others.
func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "e2e/") || name == "e2e" {
			continue // drives processes
		}
		row, ok := layers[name]
		if !ok {
			t.Errorf("package %s has no row: decide what it may import", name)
			continue
		}
		seen[name] = true
		for _, imp := range p.Imports {
			dep, own := strings.CutPrefix(imp, module)
			if own && row != "*" && !slices.Contains(strings.Fields(row), dep) {
				t.Errorf("%s must not import %s", name, dep)
			}
		}
	}
	for name := range layers {
		if !seen[name] {
			t.Errorf("the row of %s has no package", name)
		}
	}
}

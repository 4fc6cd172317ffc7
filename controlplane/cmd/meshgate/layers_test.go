package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/meshgate/meshgate/"

// layers says which packages of this module a package may import: imports point
// down, so that a part can be read, tested and replaced without what is above
// it. A package without a row fails the test: whoever adds one decides where it
// belongs.
var layers = map[string]string{
	// What runs inside Envoy knows nothing of the control plane.
	"filter":                "",
	"filter/contract":       "",
	"filter/engine":         "filter/contract",
	"filter/redisconn":      "filter/contract",
	"filter/tokencache":     "filter/contract filter/engine filter/redisconn",
	"filter/filtertest":     "filter/contract filter/engine",
	"filter/host":           "filter/contract filter/engine filter/tokencache",
	"filter/host/hosttest":  "filter/contract filter/tokencache",
	"filter/dynamicmodule":  "filter/contract filter/engine filter/host filter/tokencache",
	"filter/extauthz":       "filter/contract filter/engine filter/host filter/tokencache",
	"filter/golang":         "filter/contract filter/engine filter/host",
	"filter/golang/library": "filter/contract filter/engine filter/golang filter/host",
	"filter/golang/plugin":  "filter/golang/library filter/host",
	// Nothing but tests, which run the library in a program in C.
	"filter/filtertest/golanghost": "",
	// Real servers for tests, on ports that no other test is given.
	"filter/redisconn/redistest": "e2e/ports",

	// Everything in xds but plan, chain, draft and policy could serve any resources.
	"xds/resource":     "",
	"xds/snapshot":     "xds/resource",
	"xds/alarm":        "",
	"xds/concealed":    "",
	"xds/rejudge":      "",
	"xds/places":       "",
	"xds/server":       "xds/alarm xds/bootstrap xds/concealed xds/places xds/rejudge xds/resource xds/snapshot xds/pemtext",
	"xds/reserved":     "filter/contract",
	"xds/machine":      "controlplane/hostname filter/contract xds/bootstrap xds/directing xds/logsink xds/reserved xds/scraping",
	"xds/directing":    "",
	"xds/naming":       "",
	"xds/logsink":      "",
	"xds/relay":        "xds/bootstrap xds/durable xds/logsink xds/machine xds/naming xds/probing xds/reserved xds/resource xds/scraping xds/server xds/snapshot",
	"xds/scraping":     "",
	"xds/probing":      "",
	"xds/xdstest":      "xds/resource",
	"xds/bootstrap":    "filter/contract xds/logsink xds/reserved xds/scraping",
	"xds/plan":         "xds/resource",
	"xds/chain":        "controlplane/gateway controlplane/view filter/contract xds/plan",
	"xds/accesslog":    "filter/contract xds/plan",
	"xds/collector":    "xds/plan",
	"xds/plan/edge":    "controlplane/gateway controlplane/view filter/contract xds/accesslog xds/chain xds/collector xds/plan xds/resource",
	"xds/plan/sidecar": "controlplane/mesh controlplane/model controlplane/view filter/contract xds/accesslog xds/collector xds/directing xds/draft xds/logsink xds/naming xds/plan xds/policy xds/probing xds/resource xds/scraping xds/selection",
	"xds/plan/passing": "controlplane/mesh controlplane/view xds/plan xds/plan/sidecar xds/resource",
	"xds/plan/ingress": "controlplane/mesh controlplane/view xds/plan/passing",
	// It makes a zone for tests.
	"xds/plan/passing/passingtest": "controlplane/mesh controlplane/model controlplane/store controlplane/store/memstore controlplane/store/storetest controlplane/view e2e/golden xds/plan xds/plan/plantest xds/resource",
	"xds/plan/egress":              "controlplane/mesh controlplane/view xds/plan xds/plan/passing xds/plan/sidecar xds/policy xds/resource",
	"xds/plan/plantest":            "filter/contract xds/machine xds/resource",
	"xds/draft":                    "controlplane/mesh xds/plan",

	// What is chosen is the same for whoever asks: planner, inspection, explanation.
	"xds/selection": "controlplane/mesh controlplane/model controlplane/view xds/draft xds/policy",

	// A policy sees drafts and its own kind of resources, never another policy.
	"xds/policy":                       "xds/reserved controlplane/fault controlplane/mesh controlplane/model controlplane/view xds/draft",
	"xds/policy/circuitbreaker":        policyRow,
	"xds/policy/callers":               policyRow,
	"xds/policy/faultinjection":        policyRow + " xds/policy/callers",
	"xds/policy/healthcheck":           policyRow,
	"xds/policy/proxytemplate":         policyRow + " controlplane/hostname controlplane/yamldoc filter/contract xds/reserved",
	"xds/policy/ratelimit":             policyRow + " xds/policy/callers",
	"xds/policy/retry":                 policyRow,
	"xds/policy/timeout":               policyRow,
	"xds/policy/trafficpermission":     policyRow + " xds/policy/callers xds/policy/permit",
	"xds/policy/trafficroute":          policyRow,
	"xds/policy/tracing":               policyRow + " xds/collector",
	"xds/policy/logging":               policyRow + " xds/collector xds/logsink",
	"xds/policy/trafficlog":            policyRow + " xds/policy/logging",
	"xds/policy/traffictrace":          policyRow + " xds/policy/tracing",
	"xds/policy/permit":                policyRow,
	"xds/policy/target":                policyRow,
	"xds/policy/meshtokenauth":         policyRow + " controlplane/gateway filter/contract xds/chain xds/policy/target",
	"xds/policy/meshaccesslog":         policyRow + " xds/logsink xds/policy/logging xds/policy/target",
	"xds/policy/meshtrace":             policyRow + " xds/collector xds/policy/target xds/policy/tracing",
	"xds/policy/meshtrafficpermission": policyRow + " xds/policy/callers xds/policy/permit xds/policy/target",
	"xds/policy/all": policyRow + " xds/policy/circuitbreaker xds/policy/faultinjection xds/policy/healthcheck xds/policy/meshaccesslog xds/policy/meshtokenauth xds/policy/meshtrace xds/policy/meshtrafficpermission xds/policy/proxytemplate xds/policy/ratelimit xds/policy/retry xds/policy/timeout " +
		"xds/policy/trafficlog xds/policy/trafficpermission xds/policy/trafficroute xds/policy/traffictrace",
	"xds/policy/policytest": policyRow + " e2e/golden xds/plan xds/resource",

	// Read-only answers.
	"inspect": "controlplane/mesh controlplane/fault controlplane/insight controlplane/model controlplane/nodes controlplane/turns controlplane/view xds/concealed xds/policy xds/resource xds/selection",
	// What Envoys do with a request is the same for meshes and gateways.
	"inspect/interpret": "filter/contract filter/engine xds/directing xds/resource",
	"inspect/explain":   "controlplane/fault controlplane/mesh controlplane/model controlplane/turns controlplane/view filter/contract filter/engine inspect inspect/interpret xds/draft xds/naming xds/policy xds/policy/faultinjection xds/policy/meshtokenauth xds/policy/ratelimit xds/policy/retry xds/resource xds/selection",

	// What everything stands on.
	"xds/durable":              "",
	"xds/pemtext":              "",
	"controlplane/fault":       "",
	"controlplane/yamldoc":     "controlplane/fault controlplane/turns",
	"controlplane/hostname":    "",
	"controlplane/config":      "controlplane/audit controlplane/audit/syslog controlplane/access/oidc controlplane/access controlplane/fault controlplane/yamldoc filter/contract",
	"controlplane/model":       "controlplane/fault",
	"controlplane/access/oidc": "controlplane/fault",
	// Who may do what, decided without asking anybody.
	"controlplane/access":              "controlplane/fault controlplane/model",
	"controlplane/httpkit":             "controlplane/access controlplane/fault controlplane/model",
	"controlplane/openapi":             "controlplane/httpkit",
	"controlplane/openapi/entity":      "controlplane/model controlplane/openapi",
	"controlplane/openapi/openapitest": "controlplane/httpkit",
	"controlplane/health":              "",
	"controlplane/steady":              "",
	"controlplane/turns":               "controlplane/fault",
	// A wall clock that tests set.
	"controlplane/steady/steadytest": "controlplane/steady",

	"controlplane/gateway": "controlplane/fault controlplane/hostname controlplane/model filter/contract xds/pemtext xds/reserved",
	"controlplane/mesh":    "controlplane/fault controlplane/hostname controlplane/model xds/pemtext xds/reserved",

	// Only the backends see inside the store.
	"controlplane/filelock":              "",
	"controlplane/store":                 "controlplane/fault controlplane/model",
	"controlplane/store/internal/engine": "controlplane/fault controlplane/model controlplane/store",
	"controlplane/store/internal/feed":   "controlplane/fault controlplane/model controlplane/store",
	"controlplane/store/memstore":        "controlplane/fault controlplane/model controlplane/store controlplane/store/internal/engine controlplane/store/internal/feed",
	"controlplane/store/sqlstore":        "controlplane/filelock xds/durable controlplane/fault controlplane/model controlplane/store controlplane/store/internal/engine controlplane/store/internal/feed",
	"controlplane/store/metered":         "controlplane/fault controlplane/model controlplane/store",
	"controlplane/store/recall":          "controlplane/fault controlplane/model controlplane/store",
	"controlplane/store/notice":          "controlplane/model controlplane/store",
	"controlplane/lease":                 "controlplane/fault controlplane/model controlplane/store",
	"controlplane/store/seal":            "xds/durable",
	"controlplane/backup":                "xds/durable controlplane/store/sqlstore xds/alarm",
	"controlplane/store/storetest":       "controlplane/fault controlplane/gateway controlplane/model controlplane/store e2e/few",

	// What reads and writes through the store.
	"controlplane/scopes":            "controlplane/fault controlplane/model controlplane/store",
	"controlplane/scopes/scopestest": "controlplane/fault controlplane/model controlplane/scopes controlplane/store",
	"controlplane/authorities":       "controlplane/fault controlplane/mesh controlplane/store",
	"controlplane/view":              "controlplane/authorities controlplane/fault controlplane/gateway controlplane/mesh controlplane/model controlplane/scopes controlplane/store",
	"controlplane/lifecycle":         "controlplane/admit controlplane/authorities controlplane/fault controlplane/mesh controlplane/model controlplane/store",
	"controlplane/insight":           "controlplane/health controlplane/mesh controlplane/model controlplane/store xds/resource xds/server",
	"controlplane/census":            "controlplane/fault controlplane/insight controlplane/mesh controlplane/model controlplane/store",
	"controlplane/changes":           "controlplane/fault controlplane/model controlplane/store",
	"controlplane/admit":             "controlplane/changes controlplane/fault controlplane/model controlplane/scopes controlplane/store",
	"controlplane/nodes":             "controlplane/fault controlplane/health controlplane/insight controlplane/mesh controlplane/model xds/resource xds/server xds/snapshot",
	"controlplane/nodes/nodestest":   "controlplane/fault controlplane/insight controlplane/model controlplane/nodes",
	"controlplane/admit/admittest":   "controlplane/store xds/pemtext",
	"controlplane/identity":          "controlplane/fault controlplane/mesh controlplane/model controlplane/store filter/contract xds/pemtext",
	// Tokens and the control plane's own authority know nothing of the authorities of meshes.
	"controlplane/meshca":                "controlplane/fault controlplane/identity controlplane/mesh controlplane/model controlplane/store xds/alarm xds/pemtext",
	"controlplane/identity/identitytest": "controlplane/fault controlplane/store controlplane/store/memstore",
	"controlplane/revoke":                "controlplane/fault controlplane/httpkit controlplane/model controlplane/scopes controlplane/store controlplane/store/recall filter/contract filter/redisconn xds/alarm xds/places xds/rejudge",
	"controlplane/revoke/embedded":       "",
	"controlplane/crossings":             "controlplane/fault controlplane/mesh controlplane/model controlplane/store controlplane/view xds/selection",
	"controlplane/addresses":             "controlplane/fault controlplane/mesh controlplane/model controlplane/store controlplane/view xds/selection",
	"controlplane/zones":                 "controlplane/admit controlplane/fault controlplane/mesh controlplane/model controlplane/store controlplane/view xds/alarm",
	"controlplane/publish":               "controlplane/fault controlplane/mesh controlplane/model controlplane/scopes controlplane/view xds/accesslog xds/plan xds/plan/edge xds/plan/egress xds/plan/ingress xds/plan/passing xds/plan/sidecar xds/policy xds/resource xds/snapshot xds/pemtext xds/alarm",

	// What writes would do: it stands above both that which writes and that which plans.
	"controlplane/dryrun":            "controlplane/access controlplane/addresses controlplane/admit controlplane/changes controlplane/fault controlplane/mesh controlplane/model controlplane/nodes controlplane/publish controlplane/store controlplane/turns controlplane/view inspect xds/resource",
	"controlplane/dryrun/dryruntest": "controlplane/dryrun controlplane/model controlplane/publish controlplane/store controlplane/turns controlplane/view xds/plan/edge xds/plan/sidecar xds/policy/all xds/snapshot",

	// What answers requests.
	"controlplane/oauth": "controlplane/admit controlplane/fault controlplane/gateway controlplane/model controlplane/revoke controlplane/scopes controlplane/store controlplane/store/recall controlplane/turns filter/contract",
	// A document of every kind, for tests of whatever takes documents.
	"controlplane/gatewayapi/tooltest": "controlplane/gatewayapi controlplane/model",
	"controlplane/meshapi/meshapitest": "controlplane/model xds/policy/policytest",
	// What both APIs are held against.
	"controlplane/changes/changestest": "controlplane/httpkit",
	// The cases are data; what they are held against is for their users to say.
	"controlplane/oauth/oauthtest": "",
	"controlplane/enrol":           "controlplane/admit controlplane/fault controlplane/gateway controlplane/httpkit controlplane/identity controlplane/mesh controlplane/model controlplane/store controlplane/turns filter/contract xds/bootstrap xds/alarm controlplane/yamldoc",
	"controlplane/adminlink":       "controlplane/fault controlplane/health controlplane/httpkit xds/alarm xds/places xds/rejudge",
	"controlplane/presence":        "controlplane/admit controlplane/fault controlplane/mesh controlplane/model controlplane/store filter/contract xds/probing",
	"controlplane/gatewayapi":      "controlplane/access controlplane/admit controlplane/changes controlplane/dryrun controlplane/fault controlplane/gateway controlplane/health controlplane/httpkit controlplane/insight controlplane/model controlplane/nodes controlplane/oauth controlplane/openapi controlplane/openapi/entity controlplane/revoke controlplane/store controlplane/turns inspect/explain",
	"controlplane/meshapi":         "controlplane/access controlplane/admit controlplane/census controlplane/changes controlplane/dryrun controlplane/fault controlplane/health controlplane/httpkit controlplane/identity controlplane/insight controlplane/mesh controlplane/model controlplane/nodes controlplane/openapi controlplane/store controlplane/turns controlplane/yamldoc inspect/explain",
	"controlplane/declarative":     "controlplane/admit controlplane/fault controlplane/gateway controlplane/model controlplane/store controlplane/yamldoc",

	// The authorization service is the filter in a process of meshgate.
	"controlplane/authz": "filter/contract filter/extauthz filter/host filter/tokencache",

	// The agent is a client of the control plane: of enrol and gateway it needs
	// the messages of an enrolment only.
	"controlplane/agent":      "xds/durable controlplane/adminlink controlplane/localsocket controlplane/accesslogs controlplane/enrol controlplane/health controlplane/hostname controlplane/httpkit controlplane/mesh controlplane/fault controlplane/gateway controlplane/prober controlplane/resolver controlplane/scrape filter/contract filter/redisconn xds/alarm xds/bootstrap xds/logsink xds/machine xds/naming xds/probing xds/relay xds/resource xds/scraping xds/pemtext",
	"controlplane/resolver":   "xds/naming",
	"controlplane/accesslogs": "controlplane/mesh xds/logsink",
	// Sockets that only their owner may use.
	"controlplane/localsocket": "",
	"controlplane/scrape":      "controlplane/httpkit controlplane/recent xds/scraping",
	"controlplane/prober":      "filter/contract xds/alarm xds/probing",
	"controlplane/recent":      "",

	// It implements what the parts that it measures declare.
	"controlplane/telemetry":               "controlplane/httpkit controlplane/recent controlplane/store/metered xds/resource xds/server",
	"controlplane/telemetry/telemetrytest": "",

	// It is on the other side of the APIs, and knows nothing of what is behind them.
	// The declarative tool is there, too. It knows what kinds are, and how files are read.
	"controlplane/declare": "controlplane/cli controlplane/client controlplane/declarative controlplane/dryrun controlplane/fault controlplane/gateway controlplane/httpkit controlplane/mesh controlplane/model controlplane/yamldoc",
	"controlplane/client":  "controlplane/localsocket",

	// The programs. Whatever makes a whole of the parts may name all of them.
	"controlplane/version":     "",
	"controlplane/transparent": "controlplane/cli controlplane/fault e2e/golden e2e/netns",
	"controlplane/cli":         "controlplane/config controlplane/fault controlplane/version",
	"controlplane/cli/clitest": "controlplane/cli controlplane/fault",
	"controlplane/operator":    "controlplane/identity controlplane/changes controlplane/cli controlplane/client controlplane/cloud controlplane/fault controlplane/health controlplane/httpkit controlplane/insight controlplane/mesh controlplane/meshapi controlplane/nodes controlplane/store inspect inspect/explain xds/machine xds/alarm",
	// The cloud API, and the audit log that leaves through it.
	"controlplane/outward":         "controlplane/hostname",
	"controlplane/audit":           "",
	"controlplane/audit/audittest": "",
	"controlplane/cloud/cloudtest": "controlplane/audit controlplane/cloud controlplane/store",
	"controlplane/cloud":           "controlplane/audit controlplane/fault controlplane/gateway controlplane/hostname controlplane/model controlplane/scopes controlplane/store xds/pemtext",
	"controlplane/audit/syslog":    "controlplane/audit",
	"controlplane/audit/delivery":  "controlplane/audit controlplane/audit/syslog controlplane/cloud controlplane/fault controlplane/lease controlplane/model controlplane/outward controlplane/steady controlplane/store controlplane/store/notice xds/alarm",
	"controlplane/audit/trail":     "controlplane/audit controlplane/audit/delivery controlplane/changes controlplane/cloud controlplane/fault controlplane/httpkit controlplane/model controlplane/store xds/alarm",
	"controlplane/portal":          "controlplane/audit controlplane/audit/delivery controlplane/cloud controlplane/fault controlplane/model controlplane/store",
	"controlplane/cloudapi":        "controlplane/access controlplane/admit controlplane/audit controlplane/audit/delivery controlplane/cloud controlplane/fault controlplane/gateway controlplane/httpkit controlplane/insight controlplane/model controlplane/nodes controlplane/openapi controlplane/openapi/entity controlplane/outward controlplane/portal controlplane/scopes controlplane/store controlplane/turns",

	"controlplane/assembly":     "*",
	"controlplane/demo":         "controlplane/agent controlplane/assembly controlplane/config controlplane/fault controlplane/identity controlplane/mesh",
	"controlplane/cmd/meshgate": "*",

	// Examples know nothing of the module: whoever reads them can take them along.
	"docs/examples/login": "",
	"docs/examples/grpc":  "",

	// Processes are driven from outside.
	"e2e/ports":       "",
	"e2e/few":         "",
	"e2e/golden":      "",
	"e2e/framework":   "e2e/ports",
	"e2e/accesslog":   "e2e/framework",
	"e2e/cloud":       "e2e/framework",
	"e2e/gateway":     "e2e/framework controlplane/telemetry/telemetrytest",
	"e2e/groups":      "e2e/framework",
	"e2e/oidc":        "e2e/framework",
	"e2e/oidc/issuer": "",
	"e2e/guides":      "e2e/framework",
	"e2e/walk":        "e2e/framework",
	"e2e/oauth":       "e2e/framework controlplane/oauth/oauthtest",
	"e2e/admin":       "e2e/framework",
	"e2e/faults":      "e2e/framework filter/contract",
	"e2e/chaos":       "e2e/framework",
	"e2e/redises":     "e2e/framework",
	"e2e/keys":        "e2e/framework",
	"e2e/edge":        "e2e/framework",
	"e2e/traffic":     "e2e/framework",
	"e2e/mesh":        "e2e/framework",
	"e2e/transparent": "e2e/framework e2e/netns",
	"e2e/netns":       "",
	"e2e/bench/fleet": "e2e/framework",
	"e2e/bench/authz": "",
	// The attacker compares her doors with every setting of a port, and comes to the local socket.
	"e2e/attacker":      "e2e/framework controlplane/cloud controlplane/config controlplane/localsocket",
	"e2e/ci":            "",
	"e2e/examples":      "e2e/framework",
	"e2e/bench/gateway": "e2e/framework",
	// Both halves of the freshness protocol, and nothing of their processes.
	"e2e/freshness": "controlplane/admit controlplane/fault controlplane/gateway controlplane/model controlplane/oauth controlplane/revoke controlplane/scopes/scopestest controlplane/steady/steadytest " +
		"controlplane/store controlplane/store/memstore filter/contract filter/engine filter/redisconn filter/redisconn/redistest filter/tokencache",
	// The module's suite plays the control plane, in the filter's own messages.
	"e2e/module": "e2e/framework e2e/ports filter/contract filter/engine filter/extauthz filter/filtertest",
}

// policyRow is what every policy may import.
const policyRow = "controlplane/fault controlplane/mesh controlplane/model controlplane/view xds/draft xds/policy"

// TestLayers holds the imports of every package against its row. Test files are
// free to use the test packages of others, but in e2e there is nothing else.
func TestLayers(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for d := json.NewDecoder(strings.NewReader(string(out))); d.More(); {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		row, ok := layers[name]
		if !ok {
			t.Errorf("package %s has no row: decide what it may import", name)
			continue
		}
		seen[name] = true
		if strings.HasPrefix(name, "e2e/") {
			p.Imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		}
		for _, imp := range p.Imports {
			dep, own := strings.CutPrefix(imp, module)
			if own && row != "*" && dep != name && !slices.Contains(strings.Fields(row), dep) {
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

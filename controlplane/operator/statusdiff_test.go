package operator

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
)

// serveCompared serves the comparison of one node, and the list of nodes with it.
func serveCompared(t *testing.T, doc string) (address string) {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes/{node}/config", func(w http.ResponseWriter, r *http.Request) {
		text := doc
		if r.PathValue("node") != "cp/default/gw-1" || r.URL.Query().Get("include") != "diff" {
			w.WriteHeader(http.StatusNotFound)
			text = `{"message":"there is no such node"}`
		}
		_, _ = fmt.Fprint(w, text)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

const comparedNode = `{"node":"cp/default/gw-1","state":"connected","acknowledged":false,"resources":[
 {"type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":"a","desired":"aaaaaaaaaaaaaaaa","sent":"aaaaaaaaaaaaaaaa","acknowledged":"aaaaaaaaaaaaaaaa","state":"acknowledged"},
 {"type":"type.googleapis.com/envoy.config.cluster.v3.Cluster","name":"b","desired":"2","sent":"2","acknowledged":"1","state":"sent","diff":[{"op":"replace","path":"/connectTimeout","value":"3s"},{"op":"remove","path":"/x"}]},
 {"type":"type.googleapis.com/envoy.config.listener.v3.Listener","name":"l\u001b[2J","desired":"2","sent":"1","acknowledged":"","state":"due","error":"no"}]}`

const comparedTable = `TYPE      NAME   DESIRED       SENT          ACKNOWLEDGED  STATE         ERROR
Cluster   a      aaaaaaaaaaaa  aaaaaaaaaaaa  aaaaaaaaaaaa  acknowledged  -
Cluster   b      2             2             1             sent          -
Listener  l?[2J  2             1             -             due           no

type.googleapis.com/envoy.config.cluster.v3.Cluster b
  replace /connectTimeout "3s"
  remove /x
cp/default/gw-1, connected: 3 resources: 1 acknowledged, 1 sent and not answered, 0 rejected, 1 due
`

// TestStatusDiff: the three versions stand side by side, and the difference follows.
func TestStatusDiff(t *testing.T) {
	address := serveCompared(t, comparedNode)
	got, err := clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "--diff", "--address", address)
	if diff := cmp.Diff(comparedTable, got); diff != "" || clitest.Code(err) != ExitUneven {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "--diff", "-o", "json", "--address", address)
	if !strings.HasPrefix(got, `{"node":"cp/default/gw-1"`) || !strings.Contains(got, `"value":"3s"`) || strings.Count(got, "\n") != 1 || clitest.Code(err) != ExitUneven {
		t.Errorf("%v %s", err, got)
	}
	even := serveCompared(t, `{"node":"cp/default/gw-1","state":"connected","acknowledged":true,"resources":[]}`)
	if got, err := clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "--diff", "--address", even); clitest.Code(err) != 0 {
		t.Errorf("everything is acknowledged: %v %s", err, got)
	}
	blind := serveCompared(t, `{"node":"cp/default/gw-1","state":"away","acknowledged":false,"problem":"no plan","resources":[]}`)
	if got, err := clitest.Execute(t, StatusCommand(), "cp/default/gw-1", "--diff", "--address", blind); clitest.Code(err) != ExitUneven || !strings.Contains(got, "it cannot be said what is desired: no plan\n") {
		t.Errorf("nobody can tell: %v %s", err, got)
	}
	for _, args := range [][]string{{"--diff"}, {"cp/default/gw-1", "--diff", "--watch"}, {"none", "--diff"}} {
		if _, err := clitest.Execute(t, StatusCommand(), append(args, "--address", address)...); err == nil || clitest.Code(err) != 1 {
			t.Errorf("%v: %v", args, err)
		}
	}
}

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cli"
	"github.com/meshgate/meshgate/controlplane/cli/clitest"
)

// TestStatusByShortName: the last part of a name is enough if it is unique. For an unknown
// name, the error suggests the most similar one.
func TestStatusByShortName(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, `{"items":[{"name":"cp/default/gateway-1"},{"name":"cp/a/twice"},{"name":"default.twice"},{"name":"default.web.v1"}],"next":null}`)
	})
	mux.HandleFunc("GET /nodes/{node}/xds", func(w http.ResponseWriter, r *http.Request) {
		if name := r.PathValue("node"); name != "cp/default/gateway-1" && name != "default.web.v1" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprintf(w, `{"message":"there is no node %s"}`, name)
			return
		}
		text := `{"configs":[]}`
		if r.URL.Query().Get("source") == "control-plane" {
			text = `{"source":"control plane: this is what the proxy was sent","configs":[]}`
		}
		_, _ = fmt.Fprint(w, text)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	for name, want := range map[string]string{
		"cp/default/gateway-1": "cp/default/gateway-1: 0 resources", "gateway-1": "cp/default/gateway-1: 0 resources", "web.v1": "default.web.v1: 0 resources",
		"twice":    "2 nodes have a name that ends with twice: say which one of cp/a/twice, default.twice",
		"gatway-1": "there is no node gatway-1; did you mean \"gateway-1\"? (`meshgate status` lists all)",
		"zzzzzzzz": "there is no node zzzzzzzz (`meshgate status` lists all)",
	} {
		out, err := clitest.Execute(t, rootCommand(), "status", name, "--address", s.URL)
		if coded, ok := errors.AsType[cli.CodedError](err); ok && coded.Text != "" {
			out += coded.Text
		}
		if !strings.Contains(out, want) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

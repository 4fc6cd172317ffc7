package declare

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cli/clitest"
)

// TestFileValidate: files are judged by themselves, with every mistake in its line, and nothing is called.
func TestFileValidate(t *testing.T) {
	for _, v := range []string{"MESHGATE_GATEWAY_ADDR", "MESHGATE_CLOUD_ADDR"} {
		t.Setenv(v, "http://127.0.0.1:1")
	}
	const tagged = "_info: {select_tags: [team-a]}\nplugins:\n- name: key-auth\n  service: of-others\n"
	for _, test := range []struct {
		text, want string
		args       []string
	}{
		{whole, "", nil},
		{"_workspace: default\n" + whole, "", nil},
		{tagged, "", nil},
		{"services:\n- name: a\n", "host", nil},
		{"services:\n- name: a\n  host: h\n  prot: 1\n", `did you mean "port"?`, nil},
		{"services:\n- {name: a, host: h}\n- {name: a, host: h}\n", "inserting service a: entity already exists", nil},
		{"plugins:\n- {name: key-auth, service: nope}\n", "entity not found", nil},
		{"plugins:\n- {name: app-registration}\n", "app-registration", nil},
		{"_workspace: other\n", "workspace 'other' does not exist", nil},
		{"_cloud: {control_plane_name: team-a}\n" + whole, "", []string{"--cloud-compatibility"}},
		{"_workspace: default\n_cloud: {control_plane_name: team-a}\n" + whole, "Workspaces are not supported by control planes in the cloud", []string{"--cloud-compatibility"}},
	} {
		out, err := clitest.Execute(t, GatewayCommand(), append([]string{"file", "validate", file(t, test.text)}, test.args...)...)
		if err != nil {
			out += err.Error()
		}
		if test.want == "" && (err != nil || out != "") || test.want != "" && (clitest.Code(err) != 1 || !strings.Contains(out, test.want)) {
			t.Errorf("%s %v: %v %s, want %q", test.text, test.args, err, out, test.want)
		}
	}
	out, err := clitest.Execute(t, GatewayCommand(), "file", "validate", file(t, whole), "--cloud-compatibility")
	if err != nil || !strings.Contains(out, "they go to the one called default") {
		t.Errorf("%v %s", err, out)
	}
}

// TestPingOfTheCloud: without a control plane that is named, the tool asks whose API answers, and nothing
// else: there may be no control plane that it may see.
func TestPingOfTheCloud(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.String())
		_, _ = w.Write([]byte(`{"id":"o","name":"Acme"}`))
	}))
	defer server.Close()
	out, err := clitest.Execute(t, GatewayCommand(), "ping", "--cloud-addr", server.URL, "--cloud-token", "pat")
	if err != nil || !strings.Contains(out, "Successfully connected to the Acme organization at "+server.URL) {
		t.Errorf("%v %s", err, out)
	}
	if strings.Join(asked, ", ") != "GET /v2/organizations/me" {
		t.Errorf("asked was %v", asked)
	}
}

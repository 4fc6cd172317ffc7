package assembly

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
)

// TestOneRoleOnly: a process with one part of the cloud API says at its start what it lacks, names its
// region, and has tokens and destinations for itself: administrators on its machine make them.
func TestOneRoleOnly(t *testing.T) {
	dir := t.TempDir()
	var said bytes.Buffer
	cp, err := OpenControlPlane(t.Context(), &config.Config{
		StateDir: dir, Store: config.Store{Type: "memory", Encryption: config.Encryption{KeyFile: filepath.Join(dir, "key")}}, DataPlane: config.DataPlane{Listen: "127.0.0.1"},
		Diagnostics: config.Diagnostics{Listen: "127.0.0.1"}, Mesh: config.MeshPorts{Listen: "127.0.0.1"}, Admin: config.AdminPorts{Listen: "127.0.0.1"},
		Cloud: config.Cloud{Roles: config.CloudRegional, Region: "eu"},
	}, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cp.close(context.Background()) })
	if !strings.Contains(said.String(), "cloud.roles has no global") {
		t.Errorf("it says %s", said.String())
	}
	token, err := cp.NewAccessToken(t.Context(), "t")
	if err != nil {
		t.Fatal(err)
	}
	remote, local := cp.cloudAPI(cp.identifyCloud).Handler(), cp.localCloudAPI().Handler()
	for _, test := range []struct {
		h                  http.Handler
		method, path, body string
		status             int
		want               string
	}{
		{remote, "GET", "/v2/organizations/me", "", 200, `"region":"eu"`},
		{remote, "GET", "/v2/audit-log-destinations", "", 404, ""},
		{local, "POST", "/v2/audit-log-destinations", `{"name":"siem","endpoint":"https://siem.example/","authorization":"x","log_format":"cef"}`, 200, "siem"},
		{local, "POST", "/v2/personal-access-tokens", `{"name":"ci","role":"viewer"}`, 201, "mgpat_"},
	} {
		r := httptest.NewRequest(test.method, test.path, strings.NewReader(test.body))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		test.h.ServeHTTP(w, r)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.want) {
			t.Errorf("%s %s: %d %s", test.method, test.path, w.Code, w.Body)
		}
	}
}

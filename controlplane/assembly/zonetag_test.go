package assembly

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/enrol"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/store"
)

// openInZone opens a control plane over the database of a directory, whose zone may have a name.
func openInZone(t *testing.T, dir, zone, mode string) *ControlPlane {
	t.Helper()
	const local = "127.0.0.1"
	cp, err := OpenControlPlane(t.Context(), &config.Config{
		StateDir: dir, Mode: mode, Zone: config.Zone{Name: zone},
		Store:     config.Store{SQLite: config.SQLite{Path: filepath.Join(dir, "meshgate.db")}, Encryption: config.Encryption{KeyFile: filepath.Join(dir, "key")}},
		DataPlane: config.DataPlane{Listen: local}, Diagnostics: config.Diagnostics{Listen: local}, Mesh: config.MeshPorts{Listen: local}, Admin: config.AdminPorts{Listen: local},
		Access: config.Access{LocalhostIsAdmin: true},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// zoneTags returns the zones in the tag sets of a stored dataplane.
func (cp *ControlPlane) zoneTags(t *testing.T, name string) string {
	t.Helper()
	var zones []string
	err := cp.store.View(t.Context(), func(r store.Reader) error {
		res, err := r.Get(mesh.Dataplanes, mesh.Default, name)
		if err != nil {
			return err
		}
		for _, tags := range res.Spec.(*mesh.Dataplane).TagSets() {
			zones = append(zones, tags[mesh.TagZone])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(zones, ",")
}

// TestZoneTag: with a name for the zone, every Dataplane has it in its tags, whoever writes it and whatever
// it says; what is read can be written again; and what was stored under another name is not trusted after
// a start. Without a name, tags are what their authors say.
func TestZoneTag(t *testing.T) {
	dir := t.TempDir()
	cp := openInZone(t, dir, "", "")
	ask := func(method, path, body string) string {
		t.Helper()
		r := httptest.NewRequest(method, "http://localhost:5681"+path, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		cp.meshAPI(http.NotFound).ServeHTTP(w, r)
		if w.Code > 299 {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w.Body.String()
	}
	put := func(name, networking string) {
		t.Helper()
		ask("PUT", "/meshes/default/dataplanes/"+name, `{"type":"Dataplane","mesh":"default","name":"`+name+`","networking":{"address":"10.0.0.1",`+networking+`}}`)
	}
	same := func(when, name, want string) {
		t.Helper()
		if got := cp.zoneTags(t, name); got != want {
			t.Errorf("%s: %s is in %q, want %q", when, name, got, want)
		}
	}
	const two = `"inbound":[{"port":1,"tags":{"mesh.io/service":"a"}},{"port":2,"tags":{"mesh.io/service":"b","mesh.io/zone":"west"}}]`
	put("stale", two)
	same("without a name", "stale", ",west")
	cp.close(t.Context())

	cp = openInZone(t, dir, "east", "")
	same("after the zone got its name", "stale", "east,east")
	put("d", two)
	same("through the API", "d", "east,east")
	put("g", `"gateway":{"type":"BUILTIN","tags":{"mesh.io/service":"g","mesh.io/zone":"west"}}`)
	same("through the API", "g", "east")
	shown := ask("GET", "/meshes/default/dataplanes/d", "")
	ask("PUT", "/meshes/default/dataplanes/d", shown)
	if again := ask("GET", "/meshes/default/dataplanes/d", ""); times(again) != times(shown) {
		t.Errorf("what is read is not what is written: %s, then %s", shown, again)
	}
	cp.registersInZone(t)
	cp.close(t.Context())

	cp = openInZone(t, dir, "north", "")
	same("after it got another name", "d", "north,north")
	cp.close(t.Context())
	cp = openInZone(t, dir, "above", config.ModeGlobal)
	same("above zones", "d", "north,north")
	cp.close(t.Context())
	cp = openInZone(t, dir, "", "")
	defer func() { cp.close(t.Context()) }()
	same("without a name again", "d", "north,north")
}

// times takes the times out of a document.
func times(doc string) string {
	var members map[string]any
	_ = json.Unmarshal([]byte(doc), &members) // nothing is equal to nothing only
	delete(members, "modificationTime")
	return fmt.Sprint(members)
}

// registersInZone registers proxies with tokens that demand a zone.
func (cp *ControlPlane) registersInZone(t *testing.T) {
	t.Helper()
	for zone, want := range map[string]string{
		"east": "200", "west": `403 {"message":"the dataplane's tag \"mesh.io/zone\" has value \"east\", which the token does not allow"}`,
	} {
		for _, given := range []string{"", ",mesh.io/zone: " + zone, ",mesh.io/zone: west"} {
			name := "of-" + zone
			token, err := cp.mesh.tokens.Issue(t.Context(), identity.DataplaneTokenRequest{Mesh: mesh.Default, Name: name, Tags: map[string][]string{mesh.TagZone: {zone}}, ValidFor: "1h"})
			if err != nil {
				t.Fatal(err)
			}
			body, err := json.Marshal(map[string]any{"mesh": mesh.Default, "name": name, "proxyType": "dataplane", "dataplaneToken": token,
				"dataplaneResource": "type: Dataplane\nmesh: default\nname: " + name + "\nnetworking: {address: 127.0.0.2, inbound: [{port: 80, tags: {mesh.io/service: web" + given + "}}]}\n"})
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			cp.dataPlane().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "https://localhost:5678"+enrol.Path, bytes.NewReader(body)))
			got := fmt.Sprint(w.Code)
			if w.Code != http.StatusOK {
				text, _ := io.ReadAll(w.Body) // it is in memory
				got += " " + strings.TrimSpace(string(text))
			}
			if got != want {
				t.Errorf("a token for zone %s, tags %q: %s, want %s", zone, given, got, want)
			}
		}
	}
	if got := cp.zoneTags(t, "of-east"); got != "east" {
		t.Errorf("a registered proxy is in zone %q", got)
	}
}

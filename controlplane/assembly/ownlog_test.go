package assembly

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/audit"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/cloud/cloudtest"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// logged are the events of the control plane's own log.
func (w *plantedWorld) logged() []audit.Event {
	w.t.Helper()
	return cloudtest.Events(w.t, w.store, cloud.ControlPlaneLog)
}

// until waits for a condition that a commit makes true.
func (cp *ControlPlane) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	committed := make(chan struct{}, 1)
	defer cp.commits.Listen(func(store.Commit) {
		select {
		case committed <- struct{}{}:
		default: // one look is enough for both
		}
	})()
	deadline := time.After(conditionPatience)
	for !is() {
		select {
		case <-committed:
		case <-deadline:
			t.Fatalf("in vain for %s", what)
		}
	}
}

// plantLog switches the control plane's own log on, so that everything that is planted is in it. Nobody
// takes it.
func (w *plantedWorld) plantLog() {
	w.t.Helper()
	at := port(w.ports.cloudTLS)
	var made struct{ ID string }
	answer, _, _ := bytes.Cut(w.must(at, "POST", "/v2/audit-log-destinations", `{"name":"log","endpoint":"https://127.0.0.1:1/","authorization":"Bearer `+w.secret()+`","log_format":"json"}`), []byte("\n"))
	if err := json.Unmarshal(answer, &made); err != nil || made.ID == "" {
		w.t.Fatalf("%s %v", answer, err)
	}
	w.must(at, "PATCH", "/v2/audit-log-webhook", `{"enabled":true,"audit_log_destination_id":"`+made.ID+`"}`)
}

// logsAll looks at the log of a world in which something of every kind was planted: no secret is in it,
// and what is written over any of the APIs, or refused by them, is in it once.
func (w *plantedWorld) logsAll() {
	t := w.t
	t.Helper()
	mesh, gateway, clouds := w.MeshTLSPort(), port(w.ports.adminTLS), port(w.ports.cloudTLS)
	from := len(w.logged())
	w.must(mesh, "PUT", "/meshes/planted/secrets/logged", `{"type":"Secret","mesh":"planted","name":"logged","data":"`+inBase64(w.secret())+`"}`)
	w.must(gateway, "POST", "/services", `{"name":"logged","host":"logged.example"}`)
	w.must(clouds, "PATCH", "/v2/audit-log-webhook", `{}`) // changes nothing
	w.must(clouds, "POST", "/v2/audit-log-destinations", `{"name":"logged","endpoint":"https://siem.example/","authorization":"`+w.secret()+`","log_format":"cef"}`)
	w.must(gateway, "PATCH", "/services/logged?dryRun=true", `{"host":"other.example"}`)
	var changed []string
	for _, e := range w.logged()[from:] {
		if a := e.Administration; a.Class == audit.Change {
			changed = append(changed, fmt.Sprintf("%s %s %s %s %s %v %s", a.API, a.Action, a.Kind, a.Scope, a.Actor, e.Source.IsLoopback(), e.Request))
		}
	}
	want := []string{
		"mesh created mesh_secret planted user:root true PUT /meshes/{mesh}/secrets/{name}", "gateway created service default user:root true POST /services",
		"cloud created audit_log_destination  user:root true POST /v2/audit-log-destinations",
	}
	if !slices.Equal(changed, want) {
		t.Errorf("the changes are\n%s\nwant\n%s", strings.Join(changed, "\n"), strings.Join(want, "\n"))
	}
	for _, call := range []struct {
		port         int
		method, path string
	}{{mesh, "PUT", "/meshes/planted/secrets/logged"}, {gateway, "PUT", "/services/logged"}, {clouds, "GET", "/v2/audit-log-destinations"}} {
		for user, status := range map[string]int{"nobody": 401, "gateway viewer": 403} {
			if got, answer := w.ask(call.port, user, call.method, call.path, ""); got != status {
				t.Errorf("%s as %s: %d %s", call.path, user, got, answer)
			}
		}
	}
	refused := func() (list []string) {
		for _, e := range w.logged()[from:] {
			if a := e.Administration; a.Class == audit.Refusal {
				list = append(list, fmt.Sprint(a.API, " ", a.Status))
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	all := []string{"cloud 401", "cloud 403", "gateway 401", "gateway 403", "mesh 401", "mesh 403"}
	w.until(t, "the events of refused calls", func() bool { return slices.Equal(refused(), all) })
	kinds := map[string]bool{}
	for _, e := range w.logged() {
		raw, _ := json.Marshal(e)
		kinds[e.Administration.Kind] = true
		for _, s := range w.secrets {
			if found := s.in(raw); found != "" {
				t.Errorf("the log shows %s", found)
			}
		}
	}
	for _, name := range []string{"mesh", "mesh_secret", "global_secret", "external_service", "mesh_gateway_route", "plugin", "certificate", "keyauth_credential", "oauth2_credential", "oauth2_token", "personal_access_token", "audit_log_destination"} {
		if !kinds[name] {
			t.Errorf("no change of a %s is in the log", name)
		}
	}
}

// TestControlPlaneLog: see logsAll. Who has no role is refused also where nobody else has one.
func TestControlPlaneLog(t *testing.T) {
	w := openPlanted(t)
	w.logsAll()
	if w.logged()[0].Administration.Actor != model.User("root").ID() {
		t.Errorf("%+v", w.logged()[0])
	}
}

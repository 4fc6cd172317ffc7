package assembly

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/dryrun"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/revoke"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/resource"
)

// tried is a control plane with a proxy and a gateway that are connected, and something of most
// kinds.
type tried struct {
	*ControlPlane
	t     *testing.T
	path  string
	admin http.Handler
	mesh  http.Handler
	// bodies are bodies of valid writes, by the last collection in the path.
	bodies map[string]string
}

func openTried(t *testing.T) *tried {
	t.Helper()
	dir := t.TempDir()
	r := &tried{t: t, path: filepath.Join(dir, "meshgate.db")}
	cp, err := OpenControlPlane(t.Context(), &config.Config{
		StateDir: dir, Store: config.Store{Type: "sqlite", SQLite: config.SQLite{Path: r.path}, Encryption: config.Encryption{KeyFile: filepath.Join(dir, "key")}}, DataPlane: config.DataPlane{Listen: "127.0.0.1"},
		Diagnostics: config.Diagnostics{Listen: "127.0.0.1"}, Mesh: config.MeshPorts{Listen: "127.0.0.1"}, Access: config.Access{LocalhostIsAdmin: true, Anonymous: true}, Admin: config.AdminPorts{Listen: "127.0.0.1"},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r.ControlPlane = cp
	ctx, cancel := context.WithCancel(context.Background())
	looped := make(chan error, 1)
	go func() { looped <- cp.loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-looped
		cp.close(context.Background())
	})
	admin := cp.adminAPI()
	r.admin, r.mesh = admin.Handler(), cp.meshAPI(admin.Revisions)
	r.fill()
	cp.until(t, "what a control plane stores by itself at its start", r.noted)
	return r
}

// noted reports whether it is stored that Redis is in order, and the time, which the owner of revocations
// does when it comes to it.
func (r *tried) noted() (all bool) {
	r.t.Helper()
	if err := r.store.View(r.t.Context(), func(tx store.Reader) error {
		for _, k := range revoke.Kinds() {
			if k.Name != epochKind().Name && k.Name != "revocation_time" {
				continue
			}
			list, err := tx.List(k, store.Query{})
			if err != nil {
				return err
			}
			if len(list) == 0 {
				return nil
			}
			if e, is := list[0].Spec.(*revoke.Epoch); is && (!e.Told || e.Forgotten) {
				return nil
			}
		}
		all = true
		return nil
	}); err != nil {
		r.t.Fatal(err)
	}
	return all
}

func (r *tried) fill() {
	r.t.Helper()
	cert, key := admittest.Certificate(r.t)
	pem := func(text string) string { return strings.ReplaceAll(text, "\n", `\n`) }
	r.bodies = map[string]string{
		"services": `{"name":"s","host":"127.0.0.1"}`, "routes": `{"name":"r","paths":["/a"]}`,
		"plugins":   `{"name":"request-termination","config":{"status_code":403}}`,
		"consumers": `{"username":"bob"}`, "oauth2": `{"name":"app","client_id":"app","client_secret":"hidden secret","hash_secret":true,"redirect_uris":["https://a.example/"]}`,
		"key-auths": `{"key":"hidden secret"}`, "upstreams": `{"name":"u"}`, "targets": `{"target":"127.0.0.1:80"}`,
		"certificates":    `{"cert":"` + pem(cert) + `","key":"` + pem(key) + `"}`,
		"ca_certificates": `{"cert":"` + pem(admittest.Authority(r.t)) + `"}`, "snis": `{"name":"a.example"}`,
		"oauth2_tokens": `{"access_token":"hidden secret","expires_in":60}`,
	}
	must := func(h http.Handler, method, path, body string) {
		r.t.Helper()
		if w := r.ask(h, method, path, body); w.Code >= 300 {
			r.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
	}
	must(r.mesh, "PUT", "/meshes/default/dataplanes/web", `{"type":"Dataplane","mesh":"default","name":"web","networking":{"address":"127.0.0.1",
		"inbound":[{"port":8080,"tags":{"mesh.io/service":"web"}}],"outbound":[{"port":9090,"tags":{"mesh.io/service":"web"}}]}}`)
	must(r.mesh, "PUT", "/meshes/default/secrets/s", `{"type":"Secret","mesh":"default","name":"s","data":"aGlkZGVuIHNlY3JldA=="}`)
	must(r.mesh, "PUT", "/global-secrets/s", `{"type":"GlobalSecret","name":"s","data":"aGlkZGVuIHNlY3JldA=="}`)
	for _, c := range []string{"services/s", "consumers/bob", "upstreams/u"} {
		collection, _, _ := strings.Cut(c, "/")
		must(r.admin, "POST", "/"+collection, r.bodies[collection])
	}
	must(r.admin, "POST", "/services/s/routes", r.bodies["routes"])
	must(r.admin, "POST", "/services/s/plugins", r.bodies["plugins"])
	must(r.admin, "POST", "/consumers/bob/oauth2", r.bodies["oauth2"])
	if _, err := r.store.Update(r.t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: gateway.Instances, Scope: model.DefaultControlPlane, Name: "a", Spec: &gateway.Instance{
			Listen: "127.0.0.1", HTTPPort: 8000, HTTPSPort: 8443, ControlPlane: "127.0.0.1:5678",
		}})
		return err
	}); err != nil {
		r.t.Fatal(err)
	}
	for _, node := range []string{"default.web", "cp/default/a"} {
		release, err := r.loop.Connect(r.t.Context(), node, false)
		if err != nil {
			r.t.Fatal(err)
		}
		r.t.Cleanup(release)
	}
	if err := r.loop.Settled(r.t.Context(), r.store.Revision()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *tried) ask(h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, "http://127.0.0.1"+path, strings.NewReader(body))
	q.RemoteAddr = "127.0.0.1:1"
	q.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w
}

// dump is everything in the database.
func (r *tried) dump() string {
	r.t.Helper()
	db, err := sql.Open("sqlite", r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var out strings.Builder
	for _, table := range column(r.t, db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name") {
		names := column(r.t, db, fmt.Sprintf("SELECT name FROM pragma_table_info('%s')", table))
		for i, name := range names {
			names[i] = `quote("` + name + `")`
		}
		fmt.Fprintln(&out, table)
		for _, row := range column(r.t, db, fmt.Sprintf(`SELECT %s AS row FROM "%s" ORDER BY row`, strings.Join(names, "||','||"), table)) {
			fmt.Fprintln(&out, row)
		}
	}
	return out.String()
}

func column(t *testing.T, db *sql.DB, query string) (out []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		out = append(out, text.String)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// state is everything that a dry run must leave as it is.
type state struct {
	revision uint64
	dump     string
	sets     [2]*resource.Set
}

func (r *tried) state() state {
	return state{r.store.Revision(), r.dump(), [2]*resource.Set{r.snapshots.Get("default.web"), r.snapshots.Get("cp/default/a")}}
}

// at returns a path for a pattern, and a body for it. existing chooses resources that exist.
func (r *tried) at(e *httpkit.Endpoint, existing bool) (path, body string) {
	names := map[string]string{"mesh": "default", "node": "default.web", "kind": "dataplane-tokens", "revision": "1"}
	known := map[string]string{
		"meshes": "default", "dataplanes": "web", "secrets": "s", "global-secrets": "s", "services": "s", "routes": "r", "consumers": "bob", "upstreams": "u", "oauth2": "app",
	}
	parts := strings.Split(e.Pattern, "/")
	collection := ""
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") {
			collection = part
			continue
		}
		name := strings.Trim(part, "{}")
		parts[i] = names[name]
		if known[collection] != "" && parts[i] == "" && (existing || i < len(parts)-1) {
			parts[i] = known[collection]
		}
		if parts[i] == "" {
			parts[i] = "20000000-0000-4000-8000-000000000000"
		}
	}
	path = strings.Join(parts, "/")
	body = r.bodies[collection]
	if body == "" {
		body = r.ask(r.mesh, http.MethodGet, path, "").Body.String()
	}
	if e.Method == http.MethodPatch {
		body = `{"tags":["a"]}`
	}
	if e.Contract.Body == "" {
		body = ""
	}
	return path, body
}

// TestEveryWriteIsTriedOrRefused calls every endpoint of both APIs that could change something with
// ?dryRun=true. Each either says what it would do, with the errors of the real write, or refuses.
// None changes anything: neither the store, down to the last byte, nor what nodes have, nor what
// watchers are told.
func TestEveryWriteIsTriedOrRefused(t *testing.T) {
	r := openTried(t)
	begun := r.state()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := make(chan store.Event, 100)
	go func() {
		for list, err := range r.store.Watch(ctx, begun.revision) {
			if err != nil {
				close(events)
				return
			}
			for _, e := range list {
				events <- e
			}
		}
	}()
	admin := r.adminAPI()
	api := &meshapi.API{Options: r.meshOptions(admin.Revisions)}
	answers := map[string]int{}
	for _, side := range []struct {
		h    http.Handler
		list []httpkit.Endpoint
	}{{r.admin, admin.Endpoints()}, {r.mesh, api.Endpoints()}} {
		for i := range side.list {
			e := &side.list[i]
			if e.Method == http.MethodGet {
				continue
			}
			offers := slices.ContainsFunc(e.Contract.Query, func(p httpkit.Parameter) bool { return p.Name == httpkit.ArgDryRun })
			for _, existing := range []bool{true, false} {
				path, body := r.at(e, existing)
				w := r.ask(side.h, e.Method, path+"?dryRun=true", body)
				text := w.Body.String()
				refused := w.Code == http.StatusBadRequest && strings.Contains(text, "cannot be tried here")
				var doc struct{ DryRun bool }
				_ = json.Unmarshal(w.Body.Bytes(), &doc)
				switch {
				case offers == refused:
					t.Errorf("%s %s offers dry runs: %t, and answers %d %.300s", e.Method, path, offers, w.Code, text)
				case w.Code < 300 && (w.Code != http.StatusOK || !doc.DryRun):
					t.Errorf("%s %s: %d %.300s", e.Method, path, w.Code, text)
				case w.Code >= 500:
					t.Errorf("%s %s: %d %.300s", e.Method, path, w.Code, text)
				}
				if strings.Contains(text, "hidden secret") || strings.Contains(text, "aGlkZGVuIHNlY3JldA") || strings.Contains(text, "PRIVATE KEY") {
					t.Errorf("%s %s shows a secret: %s", e.Method, path, text)
				}
				answers[fmt.Sprintf("%d offered %t", w.Code, offers)]++
				if now := r.state(); now != begun {
					t.Fatalf("%s %s has changed something", e.Method, path)
				}
			}
		}
	}
	// Most of what is asked here would succeed, so most of it was written and undone.
	if answers["200 offered true"] < 70 || answers["400 offered false"] < 40 {
		t.Errorf("the answers were %v", answers)
	}
	last := r.ask(r.admin, "POST", "/consumers", `{"username":"last"}`)
	if last.Code != http.StatusCreated {
		t.Fatalf("%d %s", last.Code, last.Body)
	}
	select {
	case e, ok := <-events:
		if !ok || e.Revision != begun.revision+1 || e.Key.Kind != gateway.Consumers.Name {
			t.Errorf("watchers were told %+v", e)
		}
	case <-time.After(time.Minute):
		t.Error("watchers are told nothing")
	}
}

// TestDryRunsShowNoSecrets tries to write a resource of every kind with all its secret members.
func TestDryRunsShowNoSecrets(t *testing.T) {
	r := openTried(t)
	var hidden secrets
	ctx := model.WithActor(t.Context(), model.Administrator())
	for _, c := range withSecrets {
		a, err := r.dryRuns().Run(ctx, func(ctx context.Context) error {
			_, err := r.gate.Write(ctx, model.Config, func(tx store.Tx) error {
				for _, first := range withSecrets { // which the others refer to
					res := &model.Resource{Kind: first.kind, Scope: model.DefaultControlPlane, Name: idOfAll, Spec: first.kind.New()}
					if err := json.Unmarshal([]byte(hidden.fill(first.spec)), res.Spec); err != nil {
						return err
					}
					if first.kind.Scoping == model.Global {
						res.Scope = ""
					}
					if _, err := tx.Create(res); err != nil {
						return err
					}
					if first.kind == c.kind {
						return nil
					}
				}
				return nil
			})
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", c.kind.Name, err)
		}
		text, err := json.Marshal(a)
		if err != nil || len(a.Writes) == 0 {
			t.Fatalf("%s: %s %v", c.kind.Name, text, err)
		}
		for _, form := range hidden.forms {
			if strings.Contains(string(text), string(form)) {
				t.Errorf("%s shows %s: %s", c.kind.Name, form, text)
			}
		}
	}
}

// TestDryRunsConceal: what nodes would get has secrets in it, and the answer has something else in
// their place.
func TestDryRunsConceal(t *testing.T) {
	r := openTried(t)
	for _, c := range []struct{ path, body string }{
		{"/upstreams", `{"name":"checked","healthchecks":{"active":{"healthy":{"interval":5},"headers":{"Authorization":["hidden secret"]}}}}`},
		{"/upstreams/checked/targets", r.bodies["targets"]},
	} {
		if w := r.ask(r.admin, http.MethodPost, c.path, c.body); w.Code != http.StatusCreated {
			t.Fatalf("%s: %d %s", c.path, w.Code, w.Body)
		}
	}
	for _, c := range []struct{ method, path, body, shows string }{
		{http.MethodPatch, "/services/s", `{"host":"checked"}`, "[redacted]"},
		{http.MethodPost, "/services/s/plugins", `{"name":"oauth2","config":{"provision_key":"hidden secret","enable_client_credentials":true,"scopes":["shown"]}}`, "gateway:routes"},
	} {
		w := r.ask(r.admin, c.method, c.path+"?dryRun=true", c.body)
		var a dryrun.Answer
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK || a.Nodes.Changed != 1 || len(a.Problems) != 0 {
			t.Fatalf("%s: %d %v %s", c.path, w.Code, err, w.Body)
		}
		diffs, err := json.Marshal(a.Changes)
		if err != nil || !strings.Contains(string(diffs), c.shows) || strings.Contains(w.Body.String(), "hidden secret") {
			t.Errorf("%s has to show %s and no secret: %s", c.path, c.shows, w.Body)
		}
	}
}

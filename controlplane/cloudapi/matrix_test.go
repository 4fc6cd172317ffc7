package cloudapi

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/e2e/golden"
)

// TestWhoMayManagePortals: what callers of each role are answered by every endpoint of portals, of
// destinations, of personal access tokens and of the control plane's own log. A request that may be made
// finds no portal, or no body.
func TestWhoMayManagePortals(t *testing.T) {
	f := setup(t)
	own, free := f.created("own"), f.created("free")
	dev := f.developer(f.portal("pets"), "ada@example.com")
	users := map[string]model.Actor{"admin": model.Administrator(), "editor": model.User("editor"), "viewer": model.User("viewer"), "stranger": model.User("stranger"), "nobody": model.Anonymous()}
	f.api.Rules = access.New(access.Options{Identified: true, Roles: []access.Role{
		{Role: "editor", All: true, Users: []string{"editor"}}, {Role: "viewer", All: true, Users: []string{"viewer"}},
		{Role: "admin", ControlPlanes: []string{"default"}, Users: []string{"stranger"}},
	}})
	f.api.Identify = func(r *http.Request) (model.Actor, error) {
		token, ok := httpkit.TokenOf(r)
		if !ok {
			token = "nobody"
		}
		return users[token], nil
	}
	f.handler = f.api.Handler()
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "%-8s%-70s%-8s%-8s%-8s%-10s%s\n", anys(cells)...) }
	columns := []string{"admin", "editor", "viewer", "stranger", "nobody"}
	row(append([]string{"method", "path"}, columns...)...)
	const nobody = "10000000-0000-4000-8000-000000000000"
	send := func(e httpkit.Endpoint, target, body, of string) {
		cells := []string{e.Method, e.Pattern + of}
		for _, who := range columns {
			r := httptest.NewRequest(e.Method, target, strings.NewReader(body))
			if body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			if who != "nobody" {
				r.Header.Set("Authorization", "Bearer "+who)
			}
			w := httptest.NewRecorder()
			f.handler.ServeHTTP(w, r)
			cells = append(cells, fmt.Sprint(w.Code))
		}
		row(cells...)
	}
	ask := func(e httpkit.Endpoint, id, of string) {
		send(e, strings.NewReplacer("{"+pathPortal+"}", id, "{"+pathID+"}", id, "{"+pathDeveloper+"}", "20000000-0000-4000-8000-000000000000").Replace(e.Pattern), "", of)
	}
	for _, e := range append(append(f.api.portalEndpoints(), f.api.keyEndpoint()), f.api.ownEndpoints()...) {
		ask(e, nobody, "")
		if e.Method == http.MethodPost && strings.HasSuffix(e.Pattern, "/developers") {
			send(e, path.Dir(dev), `{"email":"bob@example.com","full_name":"Bob","password":"correct horse"}`, " with a password")
		}
		if e.Method == http.MethodPatch && strings.HasSuffix(e.Pattern, "{"+pathDeveloper+"}") {
			send(e, dev, `{"status":"approved"}`, " a status")
			send(e, dev, `{"password":"correct horse"}`, " a password")
		}
	}
	if status, doc := f.as("admin", http.MethodPatch, ownHook, `{"audit_log_destination_id":"`+own+`"}`); status != http.StatusOK {
		t.Fatal(status, doc)
	}
	for _, e := range f.api.endpoints(auditDestinations) {
		ask(e, nobody, "")
		if strings.HasSuffix(e.Pattern, "}") {
			ask(e, own, " of the own log")
			if e.Method != http.MethodDelete {
				ask(e, free, " of no log")
			}
		}
	}
	_, doc := f.as("admin", http.MethodPost, "/v2/personal-access-tokens", `{"name":"ci","role":"viewer"}`)
	token, _ := doc["id"].(string)
	for _, e := range f.api.endpoints(accessTokens) {
		ask(e, nobody, "")
		switch {
		case strings.HasSuffix(e.Pattern, "}"):
			ask(e, token, " of a token")
		case e.Method == http.MethodPost:
			send(e, e.Pattern, `{"name":"more","role":"viewer"}`, " with a body")
			send(e, e.Pattern, `{"name":"program","role":"admin","system":true}`, " of a program")
		}
	}
	golden.Compare(t, filepath.Join("testdata", "portal-roles.txt"), []byte(b.String()))
}

// placeholder is a part of a pattern that stands for an id.
var placeholder = regexp.MustCompile(`\{[^}]+\}`)

// TestWhoMayManageControlPlanes: what callers with a role everywhere, in the control plane that is asked
// for, and in another one are answered by every endpoint of control planes, of the members of groups, and
// of some entities. A request that may be made finds no body; the control plane has connected nodes.
func TestWhoMayManageControlPlanes(t *testing.T) {
	f := setupPlanes(t)
	own, group := f.plane("own", cloud.TypeHybrid), f.plane("group", cloud.TypeGroup)
	f.fleet.connects(own)
	f.fleet.connects(group)
	columns := []string{"admin@", "editor@", "viewer@", "admin@own", "editor@own", "viewer@own", "admin@default", ""}
	var b strings.Builder
	row := func(cells ...string) {
		fmt.Fprintf(&b, "%-8s%-76s%-8s%-9s%-9s%-11s%-12s%-12s%-15s%s\n", anys(cells)...)
	}
	row(append([]string{"method", "path"}, slices.Concat(columns[:len(columns)-1], []string{"nobody"})...)...)
	ask := func(e httpkit.Endpoint, id, of string) {
		path := placeholder.ReplaceAllString(strings.Replace(e.Pattern, "{"+pathID+"}", id, 1), "10000000-0000-4000-8000-000000000000")
		cells := []string{e.Method, e.Pattern + of}
		for _, token := range columns {
			status, _ := f.raw(strings.Replace(token, "@own", "@"+id, 1), e.Method, path, "")
			cells = append(cells, fmt.Sprint(status))
		}
		row(cells...)
	}
	entity := regexp.MustCompile(`/core-entities/(services|oauth2_tokens|schemas/services)(/|$)`)
	for _, e := range f.api.planeEndpoints() {
		older := strings.Contains(e.Pattern, olderPath+"/") // they are those of core-entities
		if !older && (!strings.Contains(e.Pattern, "/core-entities/") || entity.MatchString(e.Pattern)) {
			ask(e, own, "")
		}
		if strings.Contains(e.Pattern, "/group-") || strings.HasSuffix(e.Pattern, "/core-entities/services") {
			ask(e, group, " of a group")
		}
	}
	golden.Compare(t, filepath.Join("testdata", "plane-roles.txt"), []byte(b.String()))
}

func anys(list []string) (out []any) {
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// TestContracts: each endpoint of portals says what it takes and answers.
func TestContracts(t *testing.T) {
	f := setup(t)
	for _, e := range slices.Concat(f.api.portalEndpoints(), f.api.SiteEndpoints(), f.api.ownEndpoints()) {
		c := e.Contract
		reads := e.Method == http.MethodGet || e.Method == http.MethodDelete || slices.ContainsFunc([]string{"/test", "/verification-token", "/refresh", "/logout"}, func(s string) bool { return strings.HasSuffix(e.Pattern, s) })
		if len(c.Answers) == 0 || (c.Body == "") != reads || e.Summary == "" {
			t.Errorf("%s %s: %+v", e.Method, e.Pattern, c)
		}
		for status, schema := range c.Answers {
			if status >= 400 && schema != schemaProblem {
				t.Errorf("%s %s: %d has the schema %q", e.Method, e.Pattern, status, schema)
			}
		}
	}
}

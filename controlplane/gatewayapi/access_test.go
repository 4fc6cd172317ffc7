package gatewayapi_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/insight"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/nodes"
	"github.com/meshgate/meshgate/controlplane/nodes/nodestest"
	"github.com/meshgate/meshgate/e2e/golden"
)

// matrixCallers are those of the matrix, in the order of its columns. The names of roles say
// where they are: c is the control plane of the API, o another one, m the mesh "default".
var matrixCallers = []string{"anonymous", "bob", "viewer-c", "editor-c", "admin-c", "admin-o", "admin-m", "viewer-all", "editor-all", "admin-all", ""}

var matrixRoles = []access.Role{
	{Role: "viewer", ControlPlanes: []string{"default"}, Users: []string{"viewer-c"}},
	{Role: "editor", ControlPlanes: []string{"default"}, Users: []string{"editor-c"}},
	{Role: "admin", ControlPlanes: []string{"default"}, Users: []string{"admin-c"}},
	{Role: "admin", ControlPlanes: []string{"other"}, Users: []string{"admin-o"}},
	{Role: "admin", Meshes: []string{"default"}, Users: []string{"admin-m"}},
	{Role: "viewer", All: true, Users: []string{"viewer-all"}},
	{Role: "editor", All: true, Users: []string{"editor-all"}},
	{Role: "admin", All: true, Users: []string{"admin-all"}},
}

// everywhere lists the patterns of what belongs to no control plane alone.
var everywhere = []string{"/conditions"}

// reached says whether a caller must get through to an endpoint. It is written from the
// documentation and does not ask the rules.
func reached(ruled bool, e httpkit.Endpoint, path, caller string) bool {
	if caller == "" {
		return true
	}
	role, of, _ := strings.Cut(caller, "-")
	able := map[access.Right][]string{access.Read: {"viewer", "editor", "admin"}, access.Write: {"editor", "admin"}}[e.Auth]
	if able == nil {
		able = []string{"admin"}
	}
	whole := slices.Contains(everywhere, e.Pattern) || strings.Contains(e.Pattern, "{node}") && !strings.Contains(path, "cp%2Fdefault%2F")
	return ruled && slices.Contains(able, role) && (of == "all" || of == "c" && !whole)
}

// withStrangers are the nodes of [nodestest] and a gateway of another control plane.
func withStrangers() *nodestest.Nodes {
	known := nodestest.New()
	known.Documents = slices.Insert(known.Documents, 1, nodes.Node{Name: "cp/other/gw", Type: insight.Gateway, ControlPlane: "other", State: insight.Away, Rejected: []insight.Rejected{}})
	return known
}

// ruledOptions are those of an API with every endpoint, whose callers are named by X-User.
func ruledOptions(o *gatewayapi.Options) {
	o.Nodes, o.Dumps, o.Conditions, o.Explain, o.Revocations = withStrangers(), nodestest.Dumps{}, conditions, noGateways(), &revocations{}
	o.Rules = access.New(access.Options{Roles: matrixRoles})
	o.Identify = func(r *http.Request) (model.Actor, error) {
		switch name := r.Header.Get("X-User"); name {
		case "":
			return model.Administrator(), nil
		case "anonymous":
			return model.Anonymous(), nil
		default:
			return model.User(name), nil
		}
	}
}

// TestAccess calls every endpoint as every kind of caller, without roles and with them. A new
// endpoint appears here: it has no row in the golden file, and one that acts beyond its control
// plane fails unless it needs an administrator of everything.
func TestAccess(t *testing.T) {
	names := slices.Clone(matrixCallers)
	names[len(names)-1] = "administrator"
	lines := []string{"# endpoint, what it needs: status for " + strings.Join(names, ", ") + "; without roles / with roles"}
	list := setupWith(t, ruledOptions).api.Endpoints()
	for _, e := range list {
		paths := []string{strings.NewReplacer("{node}", "cp%2Fdefault%2Fgw-1", "{revision}", "1", "{", "", "}", "").Replace(e.Pattern)}
		if strings.Contains(e.Pattern, "{node}") {
			for _, node := range []string{"cp%2Fother%2Fgw", "default.api"} {
				paths = append(paths, strings.ReplaceAll(e.Pattern, "{node}", node))
			}
		}
		for _, path := range paths {
			var answers []string
			for _, ruled := range []bool{false, true} {
				f := setupWith(t, func(o *gatewayapi.Options) {
					if ruledOptions(o); !ruled {
						o.Rules = nil
					}
				})
				line := ""
				for _, caller := range matrixCallers {
					r := httptest.NewRequest(e.Method, path, strings.NewReader(`{}`))
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("X-User", caller)
					w := httptest.NewRecorder()
					f.handler.ServeHTTP(w, r)
					line += " " + strconv.Itoa(w.Code)
					through := w.Code != http.StatusUnauthorized && w.Code != http.StatusForbidden
					foreign := e.Method == http.MethodDelete && e.Pattern == "/nodes/{node}" && path != paths[0] // nobody removes it here
					if want := reached(ruled, e, path, caller) && !foreign; through != want {
						t.Errorf("%s %s needs %s; with roles %t it answers %q with %d", e.Method, path, e.Auth, ruled, caller, w.Code)
					}
				}
				answers = append(answers, line)
			}
			lines = append(lines, e.Method+" "+path+" "+string(e.Auth)+":"+strings.Join(answers, " /"))
		}
	}
	golden.Compare(t, "testdata/access.golden", []byte(strings.Join(lines, "\n")+"\n"))
}

// TestNodesOfTheControlPlane: whoever administrates one control plane sees its gateways only.
func TestNodesOfTheControlPlane(t *testing.T) {
	f := setupWith(t, ruledOptions)
	for caller, want := range map[string][]string{
		"admin-c": {"cp/default/gw-1"}, "admin-all": {"cp/default/gw-1", "cp/other/gw", "default.api", "default.never", "default.web"},
	} {
		r := httptest.NewRequest("GET", "/nodes", nil)
		r.Header.Set("X-User", caller)
		w := f.serve(r)
		var got []string
		for _, n := range withStrangers().Documents {
			if strings.Contains(w.Body.String(), strconv.Quote(n.Name)) {
				got = append(got, n.Name)
			}
		}
		if w.Code != http.StatusOK || !slices.Equal(got, want) || !strings.Contains(w.Body.String(), `"total":`+strconv.Itoa(len(want))) {
			t.Errorf("%s: %d %s", caller, w.Code, w.Body)
		}
	}
}

// asked is a progress that remembers what its caller may see.
type asked struct {
	sees func(mesh, controlPlane string) bool
}

func (a *asked) Wait(_ context.Context, _ uint64, sees func(mesh, controlPlane string) bool) (any, error) {
	a.sees = sees
	return map[string]any{}, fault.Violated(nil)
}

// TestRevisionsOfTheControlPlane: whoever may not read everything is shown names of one control
// plane only.
func TestRevisionsOfTheControlPlane(t *testing.T) {
	p := &asked{}
	f := setupWith(t, func(o *gatewayapi.Options) { ruledOptions(o); o.Progress = p })
	for caller, all := range map[string]bool{"viewer-c": false, "admin-c": false, "viewer-all": true, "": true} {
		r := httptest.NewRequest("GET", "/revisions/1", nil)
		r.Header.Set("X-User", caller)
		if w := f.serve(r); w.Code != http.StatusOK {
			t.Fatalf("%q: %d %s", caller, w.Code, w.Body)
		}
		if !p.sees("", "default") || p.sees("", "other") != all || p.sees("default", "") != all || p.sees("", "") != all {
			t.Errorf("%q sees the wrong names", caller)
		}
	}
}

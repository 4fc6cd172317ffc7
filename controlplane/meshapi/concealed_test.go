package meshapi

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/meshgate/meshgate/controlplane/access"
	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
)

// referring is an API over all kinds of the mesh with mesh m, whose callers have roles.
func referring(t *testing.T, rules *access.Rules) http.Handler {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	h := Handler(Options{
		Kinds: mesh.Kinds(), Store: s, Identify: identify, Rules: rules,
		Writer: admit.New(s, &admittest.Revoker{}, mesh.Kinds(), func() time.Time { return start }),
	})
	accept(t, h, "/meshes/m", `{"type":"Mesh","name":"m"}`)
	return h
}

// accept has an administrator put a document.
func accept(t *testing.T, h http.Handler, path, doc string) {
	t.Helper()
	if rec := request(h, "PUT", path, doc, "Content-Type", mediaJSON); rec.Code/100 != 2 {
		t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
	}
}

// The documents of the tests; %s is a data source.
const (
	docService = `{"type":"ExternalService","mesh":"m","name":"x","tags":{"mesh.io/service":"x"},"networking":{"address":"x.example:443","tls":{"enabled":true,"clientCert":{"secret":"s"},"clientKey":%s}}}`
	docMesh    = `{"type":"Mesh","name":"m","mtls":{"backends":[{"name":"ca","type":"provided","conf":{"cert":%s,"key":%s}}]}}`
	docGateway = `{"type":"MeshGateway","mesh":"m","name":"g","selectors":[{"match":{"mesh.io/service":"g"}}],
		"conf":{"listeners":[{"port":443,"protocol":"HTTPS","hostname":"a.example","tls":{"mode":"TERMINATE","certificates":[%s]}}]}}`
)

func with(doc, source string) string { return strings.ReplaceAll(doc, "%s", source) }

// TestReferencesNeedTheirRight: a document that refers to secrets is for those who may read them,
// and one that names a file of the control plane is for administrators of everything.
func TestReferencesNeedTheirRight(t *testing.T) {
	h := referring(t, access.New(access.Options{Roles: append(roles, access.Role{Role: "admin", Meshes: []string{"m"}, Groups: []string{"owners"}})}))
	const secret, file = `{"secret":"s"}`, `{"file":"/nowhere/ca.pem"}`
	for _, c := range []struct {
		path, doc, user string
		want            int
		text            string
	}{
		{"/meshes/m/meshgateways/g", with(docGateway, secret), "editor-m", 403, "cannot refer to secrets"},
		{"/meshes/m/meshgateways/g", with(docGateway, secret), "admin-m", 201, ""},
		{"/meshes/m/meshgateways/g", with(docGateway, secret), "admin-all", 200, ""},
		{"/meshes/m/external-services/x", with(docService, secret), "editor-m", 403, "cannot refer to secrets"},
		{"/meshes/m", with(docMesh, secret), "admin-m", 200, ""},
		{"/meshes/m", with(docMesh, file), "admin-m", 403, "file of the control plane"},
		{"/meshes/m", with(docMesh, file), "editor-all", 403, ""},
		{"/meshes/m", with(docMesh, file), "admin-all", 200, ""},
	} {
		rec := request(h, "PUT", c.path, c.doc, "Content-Type", mediaJSON, "X-User", c.user)
		if rec.Code != c.want || !strings.Contains(rec.Body.String(), c.text) {
			t.Errorf("%s as %s: %d %s, want %d", c.doc, c.user, rec.Code, rec.Body, c.want)
		}
	}
}

// TestNamesForAllMeshesNeedTheirRight: whoever may not write in all meshes brings no name to them. He
// may change what has one already, and have listeners without a name.
func TestNamesForAllMeshesNeedTheirRight(t *testing.T) {
	h := referring(t, access.New(access.Options{Roles: roles}))
	put := func(user, name, hosts string, want int) {
		t.Helper()
		var ls []string
		for i, host := range strings.Split(hosts, " ") {
			ls = append(ls, fmt.Sprintf(`{"port":%d,"protocol":"HTTP","hostname":%q,"crossMesh":true}`, 80+i, host))
		}
		rec := request(h, "PUT", "/meshes/m/meshgateways/"+name, `{"type":"MeshGateway","mesh":"m","name":"`+name+`","selectors":[{"match":{"mesh.io/service":"g"}}],"conf":{"listeners":[`+strings.Join(ls, ",")+`]}}`, "Content-Type", mediaJSON, "X-User", user)
		if rec.Code != want || want == http.StatusForbidden && !strings.Contains(rec.Body.String(), "to all meshes (crossMesh)") {
			t.Errorf("%q puts %q: %d %s", user, hosts, rec.Code, rec.Body)
		}
	}
	put("editor-m", "g", "api.example", 403)
	put("admin-m", "g", "api.example", 403)
	put("editor-m", "g", " *.example", 201)
	put("editor-m", "g", "api.example", 403)
	put("editor-all", "g", "api.example", 200)
	put("editor-m", "g", "api.example *.example", 200)
	put("editor-m", "g", "api.example b.example", 403)
	put("editor-m", "other", "api.example", 403)
	put("editor-m", "g", "", 200)
	put("editor-m", "g", "api.example", 403)
	h = referring(t, nil)
	put("bob", "g", "api.example", 201)
}

// TestMeshesReferToSecretsWithoutRoles: everybody may write a mesh there, but only administrators
// say which secret or file is its authority.
func TestMeshesReferToSecretsWithoutRoles(t *testing.T) {
	h := referring(t, nil)
	for source, want := range map[string]int{`{"secret":"s"}`: 403, `{"file":"/etc/hostname"}`: 403, `{"inlineString":"x"}`: 200} {
		if rec := request(h, "PUT", "/meshes/m", with(docMesh, source), "Content-Type", mediaJSON, "X-User", "bob"); rec.Code != want {
			t.Errorf("%s: %d %s", source, rec.Code, rec.Body)
		}
	}
}

// canary is a secret that is shown to nobody who may not read secrets.
const canary = "canary-6d1f"

// TestSecretsAreConcealed: what stands inline and is a secret is shown to those who may read
// secrets, and to nobody else, in no form of a resource.
func TestSecretsAreConcealed(t *testing.T) {
	h := referring(t, access.New(access.Options{Roles: roles}))
	encoded := base64.StdEncoding.EncodeToString([]byte(canary))
	accept(t, h, "/meshes/m", `{"type":"Mesh","name":"m","mtls":{"backends":[{"name":"ca","type":"provided","conf":{"cert":{"inline":"`+encoded+`"},"key":{"inlineString":"`+canary+`"}}}]},
		"tracing":{"backends":[{"name":"z","type":"zipkin","conf":{"url":"http://z.example:9411/`+canary+`"}}]}}`)
	accept(t, h, "/meshes/m/external-services/x", with(docService, `{"inlineString":"`+canary+`"}`))
	for _, path := range []string{"/meshes", "/meshes/m", "/meshes/m?format=k8s", "/external-services", "/meshes/m/external-services", "/meshes/m/external-services/x", "/meshes/m/external-services/x?format=kubernetes"} {
		for user, want := range map[string]bool{"viewer-m": false, "editor-m": false, "viewer-all": false, "editor-all": false, "admin-m": true, "admin-all": true, "": true} {
			rec := request(h, "GET", path, "", "X-User", user)
			shown := strings.Contains(rec.Body.String(), canary) || strings.Contains(rec.Body.String(), encoded)
			if rec.Code != http.StatusOK || shown != want || strings.Contains(rec.Body.String(), model.Concealed) == want {
				t.Errorf("%s as %q: %d, shows it: %t\n%s", path, user, rec.Code, shown, rec.Body)
			}
		}
	}
}

// TestConcealedIsNotStored: a document as it was shown to somebody who may not read secrets is
// refused, and what is stored stays.
func TestConcealedIsNotStored(t *testing.T) {
	h := referring(t, access.New(access.Options{Roles: roles}))
	accept(t, h, "/meshes/m/external-services/x", with(docService, `{"inlineString":"`+canary+`"}`))
	accept(t, h, "/meshes/m", `{"type":"Mesh","name":"m","tracing":{"backends":[{"name":"z","type":"zipkin","conf":{"url":"http://z.example:9411/`+canary+`"}}]},
		"mtls":{"backends":[{"name":"ca","type":"provided","conf":{"key":{"inline":"`+base64.StdEncoding.EncodeToString([]byte(canary))+`"}}}]}}`)
	for path, wrong := range map[string][]string{
		"/meshes/m/external-services/x": {"networking.tls.clientKey.inlineString"},
		"/meshes/m":                     {"mtls.backends[0].conf.key.inline", "tracing.backends[0].conf.url"},
	} {
		shown := request(h, "GET", path, "", "X-User", "editor-m").Body.String()
		for _, user := range []string{"editor-m", "admin-m", ""} {
			rec := request(h, "PUT", path, shown, "Content-Type", mediaJSON, "X-User", user)
			var d errorBody
			if user == "editor-m" && path == "/meshes/m" {
				continue // who writes no mesh at all
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &d); err != nil || rec.Code != http.StatusBadRequest || len(d.Parameters) != len(wrong) {
				t.Fatalf("%s as %q: %d %s", path, user, rec.Code, rec.Body)
			}
			for i, p := range d.Parameters {
				if p.Field != wrong[i] || !strings.Contains(p.Reason, "concealed") {
					t.Errorf("%s as %q: %+v", path, user, p)
				}
			}
		}
		if kept := request(h, "GET", path, "").Body.String(); strings.Contains(kept, model.Concealed) || !strings.Contains(kept, canary) {
			t.Errorf("%s is now %s", path, kept)
		}
	}
}

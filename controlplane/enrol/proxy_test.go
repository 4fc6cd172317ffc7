package enrol

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/fault"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/memstore"
	"github.com/meshgate/meshgate/e2e/golden"
	"github.com/meshgate/meshgate/xds/bootstrap"
)

// proxyTokens knows tokens of the form mesh/name/service.
type proxyTokens struct{}

func (proxyTokens) Authenticate(context.Context, string, string) (time.Time, error) {
	return time.Time{}, nil
}

func (proxyTokens) CheckToken(_ context.Context, token string) error {
	if strings.Count(token, "/") != 2 {
		return fault.New(fault.Denied, "the dataplane token is not valid")
	}
	return nil
}

func (proxyTokens) CheckProxy(_ context.Context, token, m, name string, d *mesh.Dataplane) error {
	p := strings.Split(token, "/")
	if len(p) != 3 {
		return fault.New(fault.Denied, "the dataplane token is not valid")
	}
	if p[0] != m || p[1] != name {
		return fault.New(fault.Forbidden, "the dataplane token is for another proxy")
	}
	if d != nil {
		for _, tags := range d.TagSets() {
			if tags.Service() != p[2] {
				return fault.New(fault.Forbidden, "the dataplane token is for another service")
			}
		}
	}
	return nil
}

func (proxyTokens) Exchange(_ context.Context, token string) (string, error) {
	if strings.Count(token, "/") != 2 {
		return "", fault.New(fault.Denied, "the dataplane token is not valid")
	}
	return token + " exchanged", nil
}

func newMeshServer(t *testing.T) *Server {
	t.Helper()
	s := memstore.New()
	t.Cleanup(func() { _ = s.Close() })
	_, err := s.Update(t.Context(), model.Config, func(tx store.Tx) error {
		_, err := tx.Create(&model.Resource{Kind: mesh.Meshes, Name: "default", Spec: &mesh.Mesh{}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	w.Store = s
	w.Mesh = &Mesh{
		Tokens: proxyTokens{}, Documents: admit.New(s, &admittest.Revoker{}, mesh.Kinds(), time.Now),
		CA: func() []byte { return []byte("the CA") }, Names: func() []string { return []string{"localhost", "127.0.0.1", "::1"} },
	}
	return w.Server
}

const dataplaneYAML = "type: Dataplane\nmesh: default\nname: web-1\nnetworking:\n  address: 127.0.0.2\n  inbound:\n  - port: 8080\n    servicePort: 9080\n    tags: {mesh.io/service: web}\n"

func encode(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func send(s *Server, method, accept, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "https://localhost:5678"+Path, strings.NewReader(body))
	r.Header.Set("Accept", accept)
	rec := httptest.NewRecorder()
	s.ServeHTTP(rec, r)
	return rec
}

func (s *Server) put(t *testing.T, name, service string, labels map[string]string) {
	t.Helper()
	d := &mesh.Dataplane{Networking: &mesh.Networking{Address: "127.0.0.2", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: service}}}}}
	d.SetLabels(labels)
	gate := admit.New(s.Store, &admittest.Revoker{}, mesh.Kinds(), time.Now)
	if _, _, err := gate.PutDocument(model.WithActor(t.Context(), model.User("operator")), mesh.Dataplanes, "default", name, d); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) labels(t *testing.T, name string) map[string]string {
	t.Helper()
	d, err := s.dataplane(t.Context(), &Proxy{Mesh: "default", Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if d == nil {
		return nil
	}
	return d.Spec.(*mesh.Dataplane).LabelsOf()
}

// TestProxyBootstrap compares both forms of a bootstrap with golden files.
func TestProxyBootstrap(t *testing.T) {
	for name, test := range map[string]struct {
		accept string
		relay  *Relay
	}{
		"direct.yaml": {"", nil},
		"relay.json":  {"text/html, application/json;q=0.9", &Relay{Socket: "/run/ads.sock", AdminSocket: "/run/admin.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newMeshServer(t)
			body := encode(t, map[string]any{
				"mesh": "default", "name": "web-1", "proxyType": "dataplane", "dataplaneToken": "default/web-1/web",
				"dataplaneResource": dataplaneYAML, "workdir": "/tmp/w", "features": []string{"a"}, "dynamicMetadata": map[string]string{"k": "v"},
				"version": map[string]any{"meshDp": map[string]string{"version": "1.0.0"}}, "relay": test.relay, "dnsPort": 53,
			})
			rec := send(s, http.MethodPost, test.accept, body)
			if rec.Code != http.StatusOK {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			got := rec.Body.Bytes()
			if test.accept != "" {
				var a Answer
				if err := json.Unmarshal(got, &a); err != nil {
					t.Fatal(err)
				}
				if a.Node != "default.web-1" || strings.Contains(string(got), "redis") {
					t.Errorf("%+v", a)
				}
				got = a.Bootstrap
			} else if ct := rec.Header().Get("Content-Type"); ct != "text/x-yaml" {
				t.Errorf("content type %q", ct)
			}
			path := filepath.Join("testdata", strings.TrimSuffix(name, filepath.Ext(name))+".yaml")
			golden.Compare(t, path, got)
			owner := mesh.OwnerProxy
			if test.relay != nil {
				owner = mesh.OwnerAgent
			}
			if diff := cmp.Diff(map[string]string{mesh.LabelOwner: owner}, s.labels(t, "web-1")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBareProxies: an Envoy without an agent has no filter unless its operator says that it
// finds the library. An agent always has it.
func TestBareProxies(t *testing.T) {
	for name, test := range map[string]struct {
		features []string
		relay    *Relay
		bare     bool
	}{
		"nothing said":    {nil, nil, true},
		"another feature": {[]string{"a"}, nil, true},
		"the filter":      {[]string{"a", "filter"}, nil, false},
		"an agent":        {nil, &Relay{Socket: "/run/ads.sock", AdminSocket: "/run/admin.sock"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			rec := send(newMeshServer(t), http.MethodPost, "", encode(t, map[string]any{
				"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "dataplaneResource": dataplaneYAML,
				"features": test.features, "relay": test.relay,
			}))
			if got := strings.Contains(rec.Body.String(), bootstrap.MetadataFilter+": "+bootstrap.FilterNone); rec.Code != http.StatusOK || got != test.bare {
				t.Errorf("%d, bare %t:\n%s", rec.Code, got, rec.Body)
			}
		})
	}
}

func TestProxyRefusals(t *testing.T) {
	token := "default/web-1/web"
	post := func(change map[string]any) map[string]any {
		m := map[string]any{"mesh": "default", "name": "web-1", "dataplaneToken": token, "relay": Relay{Socket: "/s", AdminSocket: "/a"}}
		for k, v := range change {
			m[k] = v
		}
		return m
	}
	for _, test := range []struct {
		name   string
		change map[string]any
		status int
		want   string
	}{
		{"no token", map[string]any{"dataplaneToken": ""}, 401, "a dataplane token is required"},
		{"bad token", map[string]any{"dataplaneToken": "x"}, 401, "is not valid"},
		{"another proxy", map[string]any{"name": "web-2"}, 403, "another proxy"},
		{"unknown mesh", map[string]any{"mesh": "nope", "dataplaneToken": "nope/web-1/web"}, 404, `create it first`},
		{"unknown dataplane", nil, 404, "create it first"},
		{"every violation", map[string]any{"mesh": "", "name": "a/b", "proxyType": "other", "relay": Relay{}}, 422, `[{"field":"mesh","message":"cannot be empty"},{"field":"name","message":"must be a name"},{"field":"proxyType","message":"must be dataplane, ingress or egress"},{"field":"relay.adminSocket","message":"cannot be empty without adminPort"},{"field":"relay.socket","message":"cannot be empty"}]`},
		{"a mesh with a dot", map[string]any{"mesh": "a.b"}, 422, `"field":"mesh"`},
		{"long socket", map[string]any{"relay": Relay{Socket: strings.Repeat("x", 108), AdminSocket: "/a"}}, 422, "relay.socket"},
		{"not YAML", map[string]any{"dataplaneResource": "a: b: c"}, 422, "no YAML"},
		{"aliases", map[string]any{"dataplaneResource": dataplaneYAML + "x: &x " + strings.Repeat("x", 1<<10) + "\ny: [" + strings.Repeat("*x,", 1<<10) + "]\n"}, 422, "anchors and aliases"},
		{"twice", map[string]any{"dataplaneResource": dataplaneYAML + "name: web-1\n"}, 422, "already set"},
		{"another dataplane", map[string]any{"dataplaneResource": strings.Replace(dataplaneYAML, "web-1", "web-2", 1)}, 422, `"field":"name"`},
		{"invalid dataplane", map[string]any{"dataplaneResource": strings.Replace(dataplaneYAML, "127.0.0.2", "0.0.0.0", 1)}, 422, "networking.address"},
		{"two inbounds on one port", map[string]any{"dataplaneResource": dataplaneYAML + "  - {port: 8080, tags: {mesh.io/service: web}}\n"}, 422,
			`"field":"networking.inbound[1].port","message":"networking.inbound[0] listens on port 8080 of the same address"`},
		{"two dataplanes", map[string]any{"dataplaneResource": dataplaneYAML + "---\n" + dataplaneYAML}, 422, "more than one YAML document"},
		{"unknown members of the dataplane", map[string]any{"dataplaneResource": dataplaneYAML + "metrix: {}\n" + "nmae: x\n"}, 422,
			`[{"field":"metrix","message":"unknown field; did you mean \"metrics\"?"},{"field":"nmae","message":"unknown field; did you mean \"name\"?"}]`},
		{"unknown members", map[string]any{"dataplaneResuorce": dataplaneYAML, "mesh": "", "relay": map[string]any{"socket": "/s", "adminSoket": "/a", "adminPort": 1}}, 422,
			`[{"field":"dataplaneResuorce","message":"unknown field; did you mean \"dataplaneResource\"?"},{"field":"mesh","message":"cannot be empty"},{"field":"relay.adminSoket","message":"unknown field; did you mean \"adminSocket\"?"}]`},
		{"another service", map[string]any{"dataplaneResource": strings.Replace(dataplaneYAML, "service: web", "service: bank", 1)}, 403, "another service"},
		{"no such host", map[string]any{"relay": nil, "dataplaneResource": dataplaneYAML}, 422, "certificate is not for"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newMeshServer(t)
			if test.name == "no such host" {
				s.Mesh.Names = func() []string { return []string{"other"} }
			}
			rec := send(s, http.MethodPost, "application/json", encode(t, post(test.change)))
			if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.want) {
				t.Errorf("%d %s, want %d %s", rec.Code, rec.Body, test.status, test.want)
			}
			if l := s.labels(t, "web-1"); l != nil {
				t.Error("a refused proxy has registered")
			}
		})
	}
}

// TestProxyIsReadLoosely: a request may ask to be read loosely, with or without warnings.
func TestProxyIsReadLoosely(t *testing.T) {
	s := newMeshServer(t)
	body := encode(t, map[string]any{
		"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "dataplaneResource": dataplaneYAML, "dnsPort": 53, "wrokdir": "/tmp",
	})
	for how, want := range map[string]string{"warn": `["wrokdir: unknown field; did you mean \"workdir\"?"]`, "ignore": ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://localhost:5678"+Path+"?fieldValidation="+how, strings.NewReader(body))
		r.Header.Set("Accept", "application/json")
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, r)
		if rec.Code != http.StatusOK || strings.Contains(rec.Body.String(), "warnings") != (want != "") || !strings.Contains(rec.Body.String(), want) || (rec.Header().Get("Warning") != "") != (want != "") {
			t.Errorf("%s: %d %v %s", how, rec.Code, rec.Header(), rec.Body)
		}
	}
	if rec := send(s, http.MethodPost, "", body); rec.Code != http.StatusUnprocessableEntity {
		t.Errorf("without a word: %d %s", rec.Code, rec.Body)
	}
}

// TestOldObject: a token cannot take over a Dataplane that it does not permit.
func TestOldObject(t *testing.T) {
	s := newMeshServer(t)
	s.put(t, "web-1", "bank", nil)
	rec := send(s, http.MethodPost, "", encode(t, map[string]any{"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "dataplaneResource": dataplaneYAML}))
	if rec.Code != http.StatusForbidden {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// TestOperatorsObject: a proxy cannot replace what an operator has written.
func TestOperatorsObject(t *testing.T) {
	s := newMeshServer(t)
	register := encode(t, map[string]any{"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "dataplaneResource": dataplaneYAML})
	s.put(t, "web-1", "web", nil)
	if rec := send(s, http.MethodPost, "", register); rec.Code != http.StatusConflict || s.labels(t, "web-1")[mesh.LabelOwner] != "" {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	s.put(t, "web-1", "web", map[string]string{mesh.LabelOwner: mesh.OwnerProxy})
	if rec := send(s, http.MethodPost, "", register); rec.Code != http.StatusOK {
		t.Errorf("its own: %d %s", rec.Code, rec.Body)
	}
}

// TestRoomOfAMesh: a client that invents proxies cannot fill a mesh without limit. Existing
// proxies can register again, and operators are not limited.
func TestRoomOfAMesh(t *testing.T) {
	s := newMeshServer(t)
	s.Mesh.Most = 2
	register := func(name string) int {
		t.Helper()
		return send(s, http.MethodPost, "", encode(t, map[string]any{
			"mesh": "default", "name": name, "dataplaneToken": "default/" + name + "/web",
			"dataplaneResource": strings.ReplaceAll(dataplaneYAML, "web-1", name),
		})).Code
	}
	for name, want := range map[string]int{"web-1": 200, "web-2": 200} {
		if got := register(name); got != want {
			t.Fatalf("%s: %d", name, got)
		}
	}
	if got := register("web-3"); got != http.StatusServiceUnavailable || s.labels(t, "web-3") != nil {
		t.Errorf("one too many: %d", got)
	}
	if got := register("web-2"); got != http.StatusOK {
		t.Errorf("one that is there: %d", got)
	}
	s.put(t, "web-4", "web", nil)
}

// TestLeave: a proxy deletes the Dataplane that it owns, and no other.
func TestLeave(t *testing.T) {
	s := newMeshServer(t)
	s.put(t, "web-1", "web", map[string]string{mesh.LabelOwner: mesh.OwnerProxy})
	s.put(t, "web-2", "web", nil)
	for _, test := range []struct {
		name, token string
		status      int
	}{
		{"web-1", "x", 401}, {"web-1", "default/web-2/web", 403}, {"web-1", "default/web-1/bank", 403},
		{"web-1", "default/web-1/web", 204}, {"web-1", "default/web-1/web", 204}, {"web-2", "default/web-2/web", 409},
	} {
		rec := send(s, http.MethodDelete, "", encode(t, map[string]any{"mesh": "default", "name": test.name, "dataplaneToken": test.token}))
		if rec.Code != test.status {
			t.Errorf("%+v: %d %s", test, rec.Code, rec.Body)
		}
	}
}

// TestLeaveOfAPredecessor: an agent that leaves late removes its own registration, never
// that of its successor.
func TestLeaveOfAPredecessor(t *testing.T) {
	s := newMeshServer(t)
	ask := func(method, instance string) int {
		t.Helper()
		body := map[string]any{
			"mesh": "default", "name": "web-1", "dataplaneToken": "default/web-1/web", "dataplaneResource": dataplaneYAML,
			"relay": &Relay{Socket: "/run/ads.sock", AdminSocket: "/run/admin.sock"},
		}
		if instance != "" {
			body["instance"] = instance
		}
		return send(s, method, "application/json", encode(t, body)).Code
	}
	for _, step := range []struct {
		method, instance string
		status           int
		// owner is the instance of the registered Dataplane afterwards; it is empty without
		// one.
		owner string
		there bool
	}{
		{http.MethodPost, "one", 200, "one", true},
		{http.MethodPost, "two", 200, "two", true},
		{http.MethodDelete, "one", 204, "two", true},
		{http.MethodDelete, "", 409, "two", true},
		{http.MethodDelete, "two", 204, "", false},
		{http.MethodDelete, "two", 204, "", false},
		{http.MethodPost, "one", 200, "one", true},
		{http.MethodPost, "", 200, "", true}, // an older agent
		{http.MethodDelete, "one", 204, "", true},
		{http.MethodDelete, "", 204, "", false},
		{http.MethodPost, strings.Repeat("x", 65), 422, "", false},
		{http.MethodPost, "a b", 422, "", false},
	} {
		status := ask(step.method, step.instance)
		labels := s.labels(t, "web-1")
		if status != step.status || (labels != nil) != step.there || labels[mesh.LabelInstance] != step.owner {
			t.Errorf("%s by %q: %d, registered %v", step.method, step.instance, status, labels)
		}
	}
}

// TestGatewayForm: gateways can still enrol if proxies of meshes are supported.
func TestGatewayForm(t *testing.T) {
	w := newWorld(t)
	w.Mesh = newMeshServer(t).Mesh
	r := httptest.NewRequest(http.MethodPost, Path, bytes.NewBufferString(good))
	r.Header.Set("Authorization", "Bearer "+w.token)
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"cp/default/gw"`) {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

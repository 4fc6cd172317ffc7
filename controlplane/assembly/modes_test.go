package assembly

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/config"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/e2e/golden"
)

// modes are the control planes that refuse different writes.
var modes = []struct {
	name string
	set  func(*config.Config)
}{
	{"standalone", func(*config.Config) {}},
	{"global", func(c *config.Config) { c.Mode = config.ModeGlobal }},
	{"zone", func(c *config.Config) { c.Mode = config.ModeZone }},
	{"readOnly", func(c *config.Config) { c.Mesh.ReadOnly = true }},
	{"kubernetes", func(c *config.Config) { c.Environment = config.EnvironmentKubernetes }},
}

// moded is the mesh API of a control plane in one of the modes.
type moded struct {
	*ControlPlane
	api     *meshapi.API
	handler http.Handler
}

// openModed starts a control plane that stores a dataplane, an ingress, an egress and a gateway, of which
// none is connected.
func openModed(t *testing.T, set func(*config.Config)) *moded {
	t.Helper()
	c := config.Config{Access: config.Access{LocalhostIsAdmin: true}, Tokens: config.Tokens{Issuing: true}}
	set(&c)
	m := &moded{ControlPlane: startServing(t, c, slog.New(slog.DiscardHandler))}
	gate := m.gate.As(model.System("test"))
	for _, d := range []struct {
		kind  *model.Kind
		scope string
		spec  any
	}{
		{mesh.Dataplanes, mesh.Default, &mesh.Dataplane{Networking: &mesh.Networking{Address: "10.0.0.1", Inbound: []mesh.Inbound{{Port: 80, Tags: mesh.Tags{mesh.TagService: "x"}}}}}},
		{mesh.ZoneIngresses, "", &mesh.ZoneIngress{Networking: &mesh.ZoneIngressNetworking{Address: "10.0.0.1", Port: 10001}}},
		{mesh.ZoneEgresses, "", &mesh.ZoneEgress{Networking: &mesh.ZoneEgressNetworking{Address: "10.0.0.1", Port: 10002}}},
	} {
		if _, _, err := gate.PutDocument(t.Context(), d.kind, d.scope, "x", d.spec); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range m.nodesOf() {
		m.mesh.insights.Expect(node)
	}
	o := m.meshOptions(func(http.ResponseWriter, *http.Request) {})
	m.api, m.handler = &meshapi.API{Options: o}, meshapi.Handler(o)
	return m
}

// nodesOf are the nodes of the control plane, with the gateway first.
func (m *moded) nodesOf() []string {
	return []string{
		identity.GatewayNode(model.DefaultControlPlane, "x"), mesh.NodeID(mesh.Default, "x"),
		mesh.ZoneNodeID(mesh.ProxyIngress, "x"), mesh.ZoneNodeID(mesh.ProxyEgress, "x"),
	}
}

func (m *moded) ask(method, path, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://localhost:5681"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return w
}

// calls are the requests that change something: one for each endpoint that does not only show, several
// where what is changed is not the path's to say.
func (m *moded) calls(t *testing.T) (out [][3]string) {
	t.Helper()
	for _, e := range m.api.Endpoints() {
		if e.Method == http.MethodGet || e.Method == http.MethodHead {
			continue
		}
		var paths []string
		switch {
		case strings.Contains(e.Pattern, "{kind}"):
			for _, kind := range append(meshapi.Rotatable, "invented") {
				paths = append(paths, strings.NewReplacer("{kind}", kind, "{name}", "1").Replace(e.Pattern))
			}
		case strings.Contains(e.Pattern, "{node}"):
			for _, node := range m.nodesOf() {
				paths = append(paths, strings.ReplaceAll(e.Pattern, "{node}", strings.ReplaceAll(node, "/", "%2F")))
			}
		default:
			paths = []string{strings.NewReplacer("{mesh}", mesh.Default, "{name}", "x").Replace(e.Pattern)}
		}
		for _, path := range paths {
			if strings.Contains(path, "{") {
				t.Fatalf("%s %s: say here what it is called with", e.Method, path)
			}
			out = append(out, [3]string{e.Method, path, "{}"})
			if strings.HasSuffix(path, "/rotate") {
				out = append(out, [3]string{e.Method, path, `{"compromised":true}`})
			}
			if slices.ContainsFunc(e.Contract.Query, func(p httpkit.Parameter) bool { return p.Name == httpkit.ParamDryRun.Name }) {
				out = append(out, [3]string{e.Method, path + "?" + httpkit.ParamDryRun.Name + "=true", "{}"})
			}
		}
	}
	// What belongs to others goes last: a mesh takes everything in it along.
	slices.SortStableFunc(out, func(a, b [3]string) int { return strings.Count(b[1], "/") - strings.Count(a[1], "/") })
	return out
}

// rows returns all resources of the mesh API, by what they are called.
func (m *moded) rows(t *testing.T) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := m.store.View(t.Context(), func(r store.Reader) error {
		for _, k := range m.api.Kinds {
			scope := ""
			if k.Scoping == model.Mesh {
				scope = mesh.Default
			}
			list, _, err := store.ListReadable(r, k, scope)
			if err != nil {
				return err
			}
			for _, res := range list {
				out[k.Name+" "+res.Name] = res.Spec
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestModesOfEveryRoute: each request that changes something says in which modes it is refused, and what
// is refused has changed nothing. A new endpoint fails here until somebody has said what it is. "405" is
// refused, "open" is not.
func TestModesOfEveryRoute(t *testing.T) {
	var order []string
	answers := map[string]string{}
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			m := openModed(t, mode.set)
			for _, c := range m.calls(t) {
				before := m.rows(t)
				rec := m.ask(c[0], c[1], c[2])
				what := "open"
				if rec.Code == http.StatusMethodNotAllowed {
					what = "405"
					if after := m.rows(t); !reflect.DeepEqual(before, after) {
						t.Errorf("%s %s is refused and has changed something", c[0], c[1])
					}
					if !strings.Contains(rec.Body.String(), "Method not allowed") {
						t.Errorf("%s %s: %s", c[0], c[1], rec.Body)
					}
				}
				call := c[0] + " " + c[1]
				if c[2] != "{}" {
					call += " " + c[2]
				}
				if _, known := answers[call]; !known {
					order = append(order, call)
				}
				answers[call] += fmt.Sprintf(" %10s", what)
			}
		})
	}
	slices.Sort(order)
	text := fmt.Sprintf("%-90s", "")
	for _, mode := range modes {
		text += fmt.Sprintf(" %10s", mode.name)
	}
	for _, call := range order {
		text += fmt.Sprintf("\n%-90s%s", call, answers[call])
	}
	golden.Compare(t, "testdata/modes.golden", []byte(text+"\n"))
}

// TestModesOfNodes: the removal of a node deletes its Dataplane, so it is refused where that may not be
// deleted. Gateways have no document, and are removed everywhere.
func TestModesOfNodes(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			m := openModed(t, mode.set)
			for i, node := range m.nodesOf() {
				want := http.StatusOK
				if i > 0 && mode.name != "standalone" && mode.name != "zone" {
					want = http.StatusMethodNotAllowed
				}
				path := "/nodes/" + strings.ReplaceAll(node, "/", "%2F")
				rows := len(m.rows(t))
				if rec := m.ask(http.MethodDelete, path+"?former=true", ""); rec.Code != http.StatusOK {
					t.Errorf("former processes of %s: %d %s", node, rec.Code, rec.Body)
				}
				if rec := m.ask(http.MethodDelete, path, ""); rec.Code != want {
					t.Errorf("%s: %d %s", node, rec.Code, rec.Body)
				}
				if kept := len(m.rows(t)) == rows; kept != (want != http.StatusOK || i == 0) {
					t.Errorf("what is stored of %s is kept: %t", node, kept)
				}
				if rec := m.ask(http.MethodGet, path, ""); (rec.Code == http.StatusOK) != (want != http.StatusOK) {
					t.Errorf("%s afterwards: %d", node, rec.Code)
				}
			}
		})
	}
}

// TestModesOfKeys: a rotation writes secrets, so it is refused where these may not be written. Keys that
// are no secrets are this control plane's own. Stolen keys are withdrawn and tokens revoked everywhere,
// because tokens are issued everywhere.
func TestModesOfKeys(t *testing.T) {
	for _, mode := range modes {
		t.Run(mode.name, func(t *testing.T) {
			m := openModed(t, mode.set)
			closed := http.StatusMethodNotAllowed
			if mode.name == "standalone" || mode.name == "global" {
				closed = http.StatusOK
			}
			for kind, want := range map[string]int{
				meshapi.KeysNodeTokens: http.StatusOK, meshapi.KeysAuthority: http.StatusOK, meshapi.KeysAudit: http.StatusOK,
				meshapi.KeysDataplaneTokens: closed, meshapi.KeysUserTokens: closed, meshapi.KeysZoneTokens: closed, meshapi.KeysZoneIngressTokens: closed,
			} {
				body := "{}"
				if kind == meshapi.KeysDataplaneTokens {
					body = `{"mesh":"default"}`
				}
				rows := len(m.rows(t))
				if rec := m.ask(http.MethodPost, "/keys/"+kind+"/rotate", body); rec.Code != want {
					t.Errorf("%s: %d %s", kind, rec.Code, rec.Body)
				}
				if made := len(m.rows(t)) - rows; want == closed && closed != http.StatusOK && made != 0 {
					t.Errorf("%s: %d secrets were made", kind, made)
				}
				if !slices.Contains(meshapi.Withdrawable, kind) {
					continue
				}
				compromised := strings.TrimSuffix(body, "}") + `,"compromised":true}`
				if rec := m.ask(http.MethodPost, "/keys/"+kind+"/rotate", strings.Replace(compromised, "{,", "{", 1)); rec.Code != http.StatusOK {
					t.Errorf("%s, compromised: %d %s", kind, rec.Code, rec.Body)
				}
			}
			for of, body := range map[string]string{"dataplane": `{"mesh":"default","ids":["a"]}`, "user": `{"ids":["a"]}`, "gateway": `{"ids":["a"]}`} {
				if rec := m.ask(http.MethodPost, "/tokens/"+of+"/revocations", body); rec.Code != http.StatusOK {
					t.Errorf("revoking a token of a %s: %d %s", of, rec.Code, rec.Body)
				}
			}
			if rec := m.ask(http.MethodPost, "/tokens/dataplane", `{"mesh":"default","validFor":"1h"}`); rec.Code != http.StatusOK {
				t.Errorf("issuing: %d %s", rec.Code, rec.Body)
			}
		})
	}
}

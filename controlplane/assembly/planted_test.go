package assembly

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/meshapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/xds/policy/healthcheck"
	"github.com/meshgate/meshgate/xds/policy/trafficroute"
)

// segmentsOf are further names of collections in paths.
var segmentsOf = map[string]string{
	"runtime_groups": "control-planes", "key-auth": "key-auths", "dataplanes+insights": "dataplanes", "dataplane-insights": "dataplanes", "zones+insights": "zones", "zone-insights": "zones",
	"zoneingresses": "zone-ingresses", "zoneingresses+insights": "zone-ingresses", "zone-ingress-insights": "zone-ingresses",
	"zone-egresses": "zoneegresses", "zoneegressoverviews": "zoneegresses", "zoneegressinsights": "zoneegresses", "mesh-insights": "meshes",
}

// readers are those who may read the secrets of a kind where its resources are read.
func readers(kind string) []string {
	switch kind {
	case mesh.Meshes.Name, mesh.Secrets.Name, mesh.ExternalServices.Name, mesh.MeshGatewayRoutes.Name, healthcheck.Kind.Name, trafficroute.Kind.Name:
		return []string{"admin", "mesh admin"}
	case mesh.GlobalSecrets.Name:
		return []string{"admin"}
	}
	if slices.ContainsFunc(gateway.Kinds(), func(k *model.Kind) bool { return k.Name == kind && k.Schema != nil }) {
		return []string{"admin", "gateway editor"}
	}
	return nil
}

// listens reports whether a path shows configuration of a proxy, and a member where that proxy serves
// its metrics. Who may read the one sees the other, because it is no secret for whoever asks the proxy.
func listens(path string, s plantedSecret) bool {
	return s.path == "/metrics/backends/0/conf/path" && (strings.Contains(path, "/xds") || strings.Contains(path, "/_config") || strings.Contains(path, "/config"))
}

// belowPlane begins the paths of the entities of a control plane.
var belowPlane = regexp.MustCompile(`^(/v2/control-planes/[^/]+/core-entities|.*/runtime_groups/[^/]+)`)

// shows reports whether a path is one of those at which the resources of a kind are read.
func shows(path, kind string) bool {
	path, _, _ = strings.Cut(path, "?")
	path = belowPlane.ReplaceAllString(path, "")
	i := slices.IndexFunc(AllKinds(), func(k *model.Kind) bool { return k.Name == kind })
	if i < 0 {
		return false
	}
	k := AllKinds()[i]
	parts := strings.Split(path, "/")
	for j, part := range parts {
		parts[j] = segmentsOfOr(part)
	}
	last := slices.Index(parts, k.Path)
	if k.Name == mesh.Meshes.Name { // what is below a mesh is something else
		return last == 1 && len(parts) <= 3
	}
	return last >= 0 || referred(parts, k)
}

// referred reports whether a path ends with the reference of something to a resource of the kind.
func referred(parts []string, k *model.Kind) bool {
	for _, from := range AllKinds() {
		for _, ref := range from.Refs {
			if ref.To == k.Name && len(parts) == 4 && parts[1] == from.Path && parts[3] == ref.Name {
				return true
			}
		}
	}
	return false
}

func segmentsOfOr(part string) string {
	if of := segmentsOf[part]; of != "" {
		return of
	}
	return part
}

// names are what paths of the world may name, by collection.
func (w *plantedWorld) names() map[string][]string {
	names := map[string][]string{
		"nodes": {"planted.web", "cp/default/a"}, "service-insights": {"web", "x"}, "revisions": {"1", fmt.Sprint(w.store.Revision())}, "tags": {"a"}, "workspaces": {"default"}, "keys": {meshapi.KeysNodeTokens, meshapi.KeysDataplaneTokens, meshapi.KeysAudit}, "{kind}": {"1"}, "json": {"service", "plugin"},
	}
	names["schemas/plugins"] = append(names["schemas/plugins"], gateway.PluginNames()...)
	if err := w.store.View(w.t.Context(), func(r store.Reader) error {
		for _, k := range AllKinds() {
			for _, scope := range []string{"", model.DefaultControlPlane, plantedMesh} {
				list, err := r.List(k, store.Query{Scope: scope})
				if err != nil {
					return err
				}
				for _, res := range list {
					names[k.Path] = append(names[k.Path], res.Name)
				}
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return names
}

// paths are those of a pattern, with everything that there is.
func (w *plantedWorld) paths(names map[string][]string, pattern string) []string {
	paths := []string{""}
	var before string
	for _, part := range strings.Split(pattern, "/")[1:] {
		put := []string{part}
		switch {
		case part == "{mesh}":
			put = []string{plantedMesh}
		case part == "{page}":
			put = []string{"index.html"}
		case part == "{operation}":
			put = []string{"xds", "stats", "clusters", "policies"}
		case strings.HasPrefix(part, "{"):
			if put = names[segmentsOfOr(before)]; strings.HasPrefix(belowPlane.ReplaceAllString(pattern, ""), "/schemas/plugins/") && part == "{name}" {
				put = names["schemas/plugins"]
			}
			if len(put) == 0 && !empty(before) {
				w.t.Errorf("the test knows nothing for %s after %q in %s", part, before, pattern)
			}
		}
		var longer []string
		for _, path := range paths {
			for _, one := range put {
				longer = append(longer, path+"/"+strings.ReplaceAll(one, "/", "%2F"))
			}
		}
		paths, before = longer, part
	}
	return paths
}

// empty are collections of which the world has nothing, and which can hold nothing secret.
func empty(collection string) bool {
	return slices.ContainsFunc(AllKinds(), func(k *model.Kind) bool { return k.Path == collection && !k.Sealed && len(k.Secrets) == 0 })
}

// queries are those with which a path shows more or something else.
func queries(path string) []string {
	switch {
	case strings.HasSuffix(path, "/gateway-explain"):
		return []string{"?path=/a&host=a.example"}
	case strings.HasSuffix(path, "/explain"):
		return []string{"?source=web&destination=web", "?source=web&destination=x"}
	case strings.HasSuffix(path, "/xds"):
		return []string{"", "?from=control-plane", "?source=control-plane"}
	case strings.HasSuffix(path, "_config"), strings.HasSuffix(path, "/config"):
		return []string{"", "?shadow=true", "?shadow=true&include=diff", "?include=diff"}
	case strings.HasSuffix(path, "/policies"), strings.HasSuffix(path, "/rules"):
		return []string{"", "?explain=true"}
	case strings.HasPrefix(path, "/meshes"):
		return []string{"", "?format=kubernetes"}
	}
	return []string{"", "?size=1000"}
}

// TestPlantedSecrets plants a secret wherever one can be: in settings, in every member of every kind
// that declares it, in tokens. It then asks every endpoint of both APIs about everything, as
// everybody, tries every write, and looks for the secrets in all answers, in the log and in the
// metrics. Only who may read a resource with its secrets sees them, and only there. What is new in
// the settings, kinds or endpoints is in the test by itself, or fails it.
func TestPlantedSecrets(t *testing.T) {
	w := openPlanted(t)
	names := w.names()
	admin := w.adminAPI()
	api := &meshapi.API{Options: w.meshOptions(admin.Revisions)}
	seen, answers := map[string]bool{}, map[string]int{}
	look := func(user, method, path string, status int, answer []byte) {
		t.Helper()
		answers[fmt.Sprint(user, " ", status)]++
		for _, s := range w.secrets {
			found := s.in(answer)
			switch {
			case found == "":
			case method == http.MethodGet && shows(path, s.kind) && slices.Contains(readers(s.kind), user):
				seen[s.kind] = true
			case listens(path, s):
			default:
				t.Errorf("%s %s as %s: %d shows %s", method, path, user, status, found)
			}
		}
	}
	for _, side := range []struct {
		port int
		list []httpkit.Endpoint
	}{{port(w.ports.adminTLS), admin.Endpoints()}, {w.MeshTLSPort(), api.Endpoints()}, {port(w.ports.cloudTLS), w.cloudAPI(w.identifyCloud).Endpoints()}} {
		for i := range side.list {
			e := &side.list[i]
			if e.Method != http.MethodGet {
				w.try(side.port, e, names, look)
				continue
			}
			for _, path := range w.paths(names, e.Pattern) {
				for _, query := range queries(path) {
					for user := range w.tokens {
						status, answer := w.ask(side.port, user, e.Method, path+query, "")
						look(user, e.Method, path+query, status, answer)
					}
				}
			}
		}
	}
	for _, path := range []string{"/metrics", "/ready", "/debug/pprof/goroutine?debug=2"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port(w.ports.diagnostics), path), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+w.AdminToken)
		rec, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		_, _ = text.ReadFrom(rec.Body)
		_ = rec.Body.Close()
		look("diagnostics", http.MethodGet, path, rec.StatusCode, text.Bytes())
	}
	for _, line := range bytes.Split(w.log.bytes(), []byte("\n")) {
		look("log", "line", "", 0, line)
	}
	for _, s := range w.secrets { // what nobody can see in its place would not be found elsewhere either
		if len(readers(s.kind)) > 0 && !seen[s.kind] {
			t.Errorf("nobody sees the secrets of %s in their place", s.kind)
		}
	}
	zoneConfig(t, w)
	t.Logf("%d secrets, answers %v", len(w.secrets), answers)
	if answers["admin 200"] < 300 || answers["viewer 200"] < 150 || answers["log 0"] < 100 {
		t.Errorf("few answers: %v", answers)
	}
}

// zoneConfig looks at the configuration of the zone as clients do who want to know its store, and
// for what else it says.
func zoneConfig(t *testing.T, w *plantedWorld) {
	t.Helper()
	_, answer := w.ask(w.MeshTLSPort(), "viewer", http.MethodGet, "/zones+insights/default", "")
	var doc struct {
		ZoneInsight struct{ Subscriptions []struct{ Config string } }
	}
	var settings map[string]any
	if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&doc); err != nil || len(doc.ZoneInsight.Subscriptions) != 1 {
		t.Fatalf("%s: %v", answer, err)
	}
	if err := json.Unmarshal([]byte(doc.ZoneInsight.Subscriptions[0].Config), &settings); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	if of, _ := settings["store"].(map[string]any); of["type"] != "sqlite" || settings["mode"] == nil || settings["environment"] == nil || settings["access"] != nil || settings["meshgate"] != nil {
		t.Errorf("the configuration of the zone is %v", settings)
	}
	if api, _ := settings["apiServer"].(map[string]any); api["port"] == nil || api["readOnly"] == nil {
		t.Errorf("the configuration of the zone says of its API %v", api)
	}
	for _, hidden := range []string{"authn", "localhostIsAdmin", "workDir", "path", "File", "null", "/"} {
		if strings.Contains(doc.ZoneInsight.Subscriptions[0].Config, hidden) {
			t.Errorf("the configuration of the zone has %q: %v", hidden, settings)
		}
	}
}

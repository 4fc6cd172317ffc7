package meshapi

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/lifecycle"
	"github.com/meshgate/meshgate/controlplane/mesh"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/xds/policy/all"
	"github.com/meshgate/meshgate/xds/policy/ratelimit"
)

// living is an API whose meshes, secrets and zones have their lifecycles. Zone west is connected.
func living(t *testing.T) *api {
	return newAPI(t, func(o *Options) {
		o.Kinds, o.Policies = offered(), nil
		gate := admit.New(o.Store, &admittest.Revoker{}, o.Kinds, (&clock{now: start}).read).As(model.System("test"))
		lifecycle.Hook(gate, lives())
		o.Writer = gate
	})
}

// lives has all that is known of lives. Keys and authorities are texts, because real ones take time; what
// is demanded of them is read as by those who make them.
func lives() lifecycle.Whole {
	w := lifecycle.Whole{Limits: ratelimit.Kind, Online: func(zone string) bool { return zone == "west" }}
	w.Kinds = slices.DeleteFunc(offered(), func(k *model.Kind) bool { return k.Scoping != model.Mesh })
	w.GenerateCA = func(m, b string, conf *mesh.AuthorityConf) ([]byte, []byte, error) {
		if conf != nil && conf.CACert != nil && conf.CACert.Expiration != "" {
			if _, err := mesh.Lifetime(conf.CACert.Expiration); err != nil {
				return nil, nil, err
			}
		}
		return []byte(m + b), []byte("key"), nil
	}
	w.GenerateSigningKey = func() ([]byte, error) { return []byte("signing key"), nil }
	for _, d := range all.Defaults() {
		w.Policies = append(w.Policies, lifecycle.DefaultPolicy{Kind: d.Kind, Prefix: d.Prefix, Spec: d.Spec()})
	}
	return w
}

// step is a request, and what must come of it.
type step struct {
	does    string // method, path and body
	status  int
	refusal string // title, detail, field and reason, if it is refused
	there   string // what exists of mesh a then, if that is looked at
}

const (
	meshA      = `PUT /meshes/a {"type":"Mesh","name":"a"`
	noPolicies = `,"skipCreatingInitialPolicies":["*"]`
	inUse      = `Could not delete a resource|Resource is not valid|name|The secret "%" that you are trying to remove is currently in use in Mesh "a" in mTLS backend "ca-1". ` +
		`Please remove the reference from the "ca-1" backend before removing the secret.`
	signingKey = "Secret dataplane-token-signing-key-a-1"
	defaults   = "CircuitBreaker circuit-breaker-all-a, Retry retry-all-a, " + signingKey + ", Timeout timeout-all-a, TrafficPermission allow-all-a, TrafficRoute route-all-a"
	authority  = signingKey + ", Secret a.ca-builtin-cert-ca-1, Secret a.ca-builtin-key-ca-1"
)

func mtls(enabled string, backends ...string) string {
	var list []string
	for _, name := range backends {
		list = append(list, `{"name":"`+name+`","type":"builtin"}`)
	}
	return `,"mtls":{"enabledBackend":"` + enabled + `","backends":[` + strings.Join(list, ",") + `]}`
}

// lifeStories are what operators know of the lives of meshes, secrets and zones.
var lifeStories = map[string][]step{
	"default resources":          {{meshA + `}`, 201, "", defaults}, {meshA + `}`, 200, "", defaults}},
	"some of them":               {{meshA + `,"skipCreatingInitialPolicies":["Timeout","TrafficRoute","Retry","CircuitBreaker"]}`, 201, "", signingKey + ", TrafficPermission allow-all-a"}},
	"none, but a key":            {{meshA + noPolicies + `}`, 201, "", signingKey}},
	"deleted ones stay away":     {{meshA + `}`, 201, "", defaults}, {"DELETE /meshes/a/retries/retry-all-a", 200, "", ""}, {meshA + `}`, 200, "", strings.Replace(defaults, "Retry retry-all-a, ", "", 1)}},
	"authority that is not used": {{meshA + noPolicies + mtls("", "ca-1") + `}`, 201, "", authority}},
	"authority of an update": {
		{meshA + noPolicies + `}`, 201, "", signingKey},
		{meshA + mtls("ca-1", "ca-1") + `}`, 200, "", authority},
		{meshA + `}`, 200, "", authority}, // it is left where it is
	},
	"another authority": {
		{meshA + noPolicies + mtls("ca-1", "ca-1") + `}`, 201, "", authority},
		{meshA + mtls("ca-2", "ca-2") + `}`, 400, "Could not update a resource|Resource is not valid|mtls.enabledBackend|Changing CA when mTLS is enabled is forbidden. Disable mTLS first and then change the CA", authority},
		{meshA + mtls("", "ca-1") + `}`, 200, "", authority},
		{meshA + mtls("ca-2", "ca-2") + `}`, 200, "", signingKey + ", Secret a.ca-builtin-cert-ca-1, Secret a.ca-builtin-cert-ca-2, Secret a.ca-builtin-key-ca-1, Secret a.ca-builtin-key-ca-2"},
	},
	"two authorities":           {{meshA + mtls("", "ca-1", "ca-2") + `}`, 400, "Could not process a resource|Resource is not valid|mtls.backends|cannot have more than 1 backends", ""}},
	"no such authority":         {{meshA + mtls("ca-3", "ca-1") + `}`, 400, "Could not process a resource|Resource is not valid|mtls.enabledBackend|has to be set to one of the backends in the mesh", ""}},
	"authority of no type":      {{meshA + `,"mtls":{"backends":[{"name":"v","type":"vault"}]}}`, 400, "Could not create a resource|Resource is not valid|mtls.backends[0].type|could not find installed plugin for this type", ""}},
	"authority with a bad name": {{meshA + mtls("", "A_") + `}`, 400, `Could not create a resource|Resource is not valid|mtls.backends[0].conf.mtls.backends.name|"A_" name must be valid dns name`, ""}},
	"authority without its secret": {{meshA + `,"mtls":{"backends":[{"name":"p","type":"provided","conf":{"cert":{"inline":"YQ=="},"key":{"secret":"k"}}}]}}`, 400,
		`Could not create a resource|Resource is not valid|mtls.backends[0].conf.key|could not load data: Resource not found: type="Secret" name="k" mesh="a"`, ""}},
	"egress without mTLS": {{meshA + `,"routing":{"zoneEgress":true}}`, 400, "Could not process a resource|Resource is not valid|mtls|has to be set when zoneEgress enabled", ""}},
	"long name": {{"PUT /meshes/" + strings.Repeat("m", 64) + ` {"type":"Mesh","name":"` + strings.Repeat("m", 64) + `"}`, 400,
		"Could not create a resource|Resource is not valid|name|cannot be longer than 63 characters", ""}},
	"secrets in use": {
		{meshA + noPolicies + mtls("", "ca-1") + `}`, 201, "", ""},
		{"DELETE /meshes/a/secrets/a.ca-builtin-cert-ca-1", 400, strings.Replace(inUse, "%", "a.ca-builtin-cert-ca-1", 1), authority},
		{"DELETE /meshes/a/secrets/a.ca-builtin-key-ca-1", 400, strings.Replace(inUse, "%", "a.ca-builtin-key-ca-1", 1), authority},
		{meshA + `}`, 200, "", ""},
		{"DELETE /meshes/a/secrets/a.ca-builtin-cert-ca-1", 200, "", ""},
		{"DELETE /meshes/a/secrets/a.ca-builtin-key-ca-1", 200, "", signingKey},
		{"DELETE /meshes/a/secrets/dataplane-token-signing-key-a-1?force=true", 200, "", ""},
		{"GET /meshes/a/secrets/dataplane-token-signing-key-a-1", 404, "Could not retrieve a resource|Not found", ""},
	},
	"provided secrets in use": {
		{meshA + noPolicies + `}`, 201, "", ""},
		{`PUT /meshes/a/secrets/c {"type":"Secret","mesh":"a","name":"c"}`, 201, "", ""},
		{meshA + `,"mtls":{"skipValidation":true,"backends":[{"name":"ca-1","type":"provided","conf":{"cert":{"secret":"c"},"key":{"secret":"k"}}}]}}`, 200, "", ""},
		{"DELETE /meshes/a/secrets/c", 400, strings.Replace(inUse, "%", "c", 1), ""},
	},
	"deletion": {
		{meshA + mtls("ca-1", "ca-1") + `}`, 201, "", ""},
		{`PUT /meshes/b {"type":"Mesh","name":"b"` + noPolicies + `}`, 201, "", ""},
		{`PUT /meshes/a/secrets/mine {"type":"Secret","mesh":"a","name":"mine"}`, 201, "", ""},
		{`PUT /meshes/a/external-services/mail {"type":"ExternalService","mesh":"a","name":"mail","networking":{"address":"mail.example:25"},"tags":{"mesh.io/service":"mail"}}`, 201, "", ""},
		{"PUT /meshes/a/dataplanes/web-1 " + dataplane("a", "web-1", "web"), 201, "", ""},
		{"DELETE /meshes/a", 400, "Could not delete a resource|Resource is not valid|mesh|unable to delete mesh, there are still some dataplanes attached", ""},
		{"GET /meshes/a/dataplanes/web-1", 200, "", ""},
		{"DELETE /meshes/a/dataplanes/web-1", 200, "", ""},
		{"DELETE /meshes/a", 200, "", "nothing"},
		{"DELETE /meshes/a", 404, "Could not delete a resource|Not found", ""},
		{"GET /meshes/a/secrets/mine", 404, "Failed to retrieve Mesh|Not found", ""},
		{"PUT /meshes/a/dataplanes/web-1 " + dataplane("a", "web-1", "web"), 404, "Failed to retrieve Mesh|Not found", ""},
		{"GET /meshes/b/secrets/dataplane-token-signing-key-b-1", 200, "", ""},
		{meshA + `}`, 201, "", defaults}, // nothing of the earlier one
	},
	"the default mesh is no exception": {{`PUT /meshes/default {"type":"Mesh","name":"default"}`, 201, "", ""}, {"DELETE /meshes/default", 200, "", ""}, {"GET /meshes/default", 404, "Could not retrieve a resource|Not found", ""}},
	"zones": {
		{`PUT /zones/west {"type":"Zone","name":"west"}`, 201, "", ""}, {`PUT /zones/east {"type":"Zone","name":"east"}`, 201, "", ""},
		{`PUT /zone-ingresses/i {"type":"ZoneIngress","name":"i","zone":"east","networking":{"address":"10.0.0.1","port":1}}`, 201, "", ""},
		{`PUT /zoneegresses/e {"type":"ZoneEgress","name":"e","zone":"west","networking":{"address":"10.0.0.1","port":1}}`, 201, "", ""},
		{"DELETE /zones/west", 400, "Could not delete a resource|Resource is not valid|zone|unable to delete Zone, Zone CP is still connected, please shut it down first", ""},
		{"DELETE /zones/east", 200, "", ""}, {"GET /zone-ingresses/i", 404, "Could not retrieve a resource|Not found", ""}, {"GET /zoneegresses/e", 200, "", ""},
	},
}

// TestLives plays what operators know of the lives of meshes, secrets and zones.
func TestLives(t *testing.T) {
	for name, steps := range lifeStories {
		t.Run(name, func(t *testing.T) {
			a := living(t)
			for _, s := range steps {
				method, rest, _ := strings.Cut(s.does, " ")
				path, body, _ := strings.Cut(rest, " ")
				rec := request(a.handler, method, path, body, "Content-Type", mediaJSON)
				if rec.Code != s.status {
					t.Fatalf("%s: %d %s, want %d", s.does, rec.Code, rec.Body, s.status)
				}
				if said := refusalOf(rec); said != s.refusal {
					t.Errorf("%s says %s, want %s", s.does, said, s.refusal)
				}
				if s.there == "" {
					continue
				}
				want := strings.Split(strings.TrimPrefix(s.there, "nothing"), ", ")
				slices.Sort(want)
				if diff := cmp.Diff(strings.Join(want, ", "), a.content(t, "a")); diff != "" {
					t.Errorf("after %s (-want +there):\n%s", s.does, diff)
				}
			}
		})
	}
}

// refusalOf returns what an answer says if it is an error.
func refusalOf(rec *httptest.ResponseRecorder) string {
	var e errorBody
	if rec.Code < 300 || json.Unmarshal(rec.Body.Bytes(), &e) != nil {
		return ""
	}
	parts := []string{e.Title, e.Detail}
	for _, p := range e.Parameters {
		parts = append(parts, p.Field, p.Reason)
	}
	return strings.Join(parts, "|")
}

// content lists what exists of a mesh, by type and name, over the lists of all meshes.
func (a *api) content(t *testing.T, scope string) string {
	t.Helper()
	var out []string
	for _, k := range offered() {
		if k.Scoping != model.Mesh {
			continue
		}
		for _, item := range readPage(t, request(a.handler, "GET", "/"+k.Path+"?size=1000", "")).Items {
			if item.Mesh == scope {
				out = append(out, k.Document.Type+" "+item.Name)
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// TestDefaultPolicies: what the policies of a new mesh say, as clients read it.
func TestDefaultPolicies(t *testing.T) {
	a := living(t)
	a.put(t, "/meshes/a", `{"type":"Mesh","name":"a"}`)
	const attempts = `{"numRetries":5,"perTryTimeout":"16s","backOff":{"baseInterval":"0.025s","maxInterval":"0.250s"}}`
	for path, conf := range map[string]string{
		"traffic-permissions/allow-all-a":        `null`,
		"traffic-routes/route-all-a":             `{"loadBalancer":{"roundRobin":{}},"destination":{"mesh.io/service":"*"}}`,
		"timeouts/timeout-all-a":                 `{"connectTimeout":"5s","tcp":{"idleTimeout":"3600s"},"http":{"requestTimeout":"15s","idleTimeout":"3600s","streamIdleTimeout":"1800s"}}`,
		"circuit-breakers/circuit-breaker-all-a": `{"thresholds":{"maxConnections":1024,"maxPendingRequests":1024,"maxRetries":3,"maxRequests":1024}}`,
		"retries/retry-all-a":                    `{"http":` + attempts + `,"grpc":` + attempts + `,"tcp":{"maxConnectAttempts":5}}`,
	} {
		var got struct {
			Sources, Destinations []struct{ Match map[string]string }
			Conf                  any
		}
		rec := request(a.handler, "GET", "/meshes/a/"+path, "")
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 {
			t.Fatalf("%s: %d %s", path, rec.Code, rec.Body)
		}
		var want any
		if err := json.Unmarshal([]byte(conf), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Conf); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		for _, side := range [][]struct{ Match map[string]string }{got.Sources, got.Destinations} {
			if len(side) != 1 || len(side[0].Match) != 1 || side[0].Match[mesh.TagService] != mesh.AnyValue {
				t.Errorf("%s is for %v", path, side)
			}
		}
	}
}

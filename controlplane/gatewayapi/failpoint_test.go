package gatewayapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/oauth"
	"github.com/meshgate/meshgate/controlplane/store"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// failing returns an API over a store with failpoints that holds a few resources of every
// kind.
func failing(t *testing.T, cert, key string) (*fixture, *storetest.Failpoints) {
	t.Helper()
	var points *storetest.Failpoints
	f := setupWith(t, func(o *gatewayapi.Options) {
		points = &storetest.Failpoints{Store: o.Store}
		o.Store = points
		o.Gate = admit.New(points, newRevoker(), gateway.Kinds(), o.Now)
		o.Revocations = &oauth.Revocations{Store: points, Writer: o.Gate}
	})
	quoted := func(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }
	for path, body := range map[string]string{
		"/consumers/bob":       `{"custom_id":"b","tags":["t"]}`,
		"/services/s":          `{"host":"u.example"}`,
		"/upstreams/u.example": `{}`,
		"/certificates/10000000-0000-4000-8000-00000000000c": `{"cert":"` + quoted(cert) + `","key":"` + quoted(key) + `","snis":["a.example"]}`,
	} {
		f.must("PUT", path, body)
	}
	for _, r := range [][2]string{
		{"/services/s/routes/10000000-0000-4000-8000-00000000000e", `{"name":"r","paths":["/"]}`},
		{"/consumers/bob/oauth2/10000000-0000-4000-8000-00000000000a", `{"name":"n","client_id":"app","client_secret":"x","redirect_uris":["https://a.example/"],"scopes":["read"]}`},
		{"/plugins/10000000-0000-4000-8000-00000000000f", `{"name":"oauth2","route":{"name":"r"},"config":{"enable_client_credentials":true,"provision_key":"k"}}`},
		{"/oauth2_tokens/10000000-0000-4000-8000-00000000000d", `{"access_token":"at","expires_in":0,"credential":{"client_id":"app"}}`},
		{"/upstreams/u.example/targets/10000000-0000-4000-8000-000000000001", `{"target":"10.0.0.1:80"}`},
	} {
		f.must("PUT", r[0], r[1])
	}
	return f, points
}

func (f *fixture) must(method, path, body string) {
	f.t.Helper()
	if w := f.do(method, path, body); w.Code >= 300 {
		f.t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
}

// dump returns everything that the store holds.
func (f *fixture) dump() string {
	f.t.Helper()
	var out strings.Builder
	err := f.store.View(f.t.Context(), func(r store.Reader) error {
		for _, k := range gateway.Kinds() {
			list, err := r.List(k, store.Query{Scope: model.DefaultControlPlane})
			if err != nil {
				return err
			}
			for _, res := range list {
				spec, err := json.Marshal(res.Spec)
				if err != nil {
					return err
				}
				fmt.Fprintf(&out, "%s %s %d %s\n", k.Name, res.Name, res.Version, spec)
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatal(err)
	}
	lines := strings.Split(uuids.ReplaceAllString(out.String(), "<uuid>"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestEveryStoreCallFailsOnce fails each call of the store that a request makes, one by one.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	cert, key := admittest.Certificate(t)
	const app = "10000000-0000-4000-8000-00000000000a"
	for _, tc := range []struct{ method, path, body string }{
		{"POST", "/consumers", `{"id":"20000000-0000-4000-8000-000000000000","username":"new"}`},
		{"PUT", "/consumers/new", `{"tags":["x"]}`},
		{"PUT", "/consumers/bob/oauth2/" + app, `{"name":"m","client_id":"app","client_secret":"x","redirect_uris":["https://a.example/"]}`},
		{"PATCH", "/consumers/bob/oauth2/app", `{"name":"m"}`},
		{"PATCH", "/plugins/10000000-0000-4000-8000-00000000000f", `{"config":{"anonymous":"bob"}}`},
		{"PATCH", "/certificates/10000000-0000-4000-8000-00000000000c", `{"snis":["b.example","A.example"]}`},
		{"POST", "/upstreams/u.example/targets", `{"id":"20000000-0000-4000-8000-000000000000","target":"10.0.0.2:80"}`},
		{"PUT", "/routes/r", `{"paths":["/x"],"service":{"name":"s"}}`},
		{"DELETE", "/consumers/bob", ""},
		{"DELETE", "/oauth2_tokens/at", ""},
		{"DELETE", "/consumers/bob/oauth2/app", ""},
		{"DELETE", "/consumers/bob/oauth2_tokens", ""},
		{"DELETE", "/oauth2_tokens/unknown", ""},
		{"GET", "/consumers/bob/oauth2", ""},
		{"GET", "/consumers/bob/oauth2_tokens", ""},
		{"GET", "/oauth2_tokens", ""},
		{"GET", "/certificates", ""},
		{"GET", "/upstreams/u.example/health", ""},
		{"GET", "/tags", ""},
		{"GET", "/oauth2_tokens/at/credential", ""},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			storetest.EveryCallFailsOnce(t, func() storetest.Trial {
				f, points := failing(t, cert, key)
				trial := storetest.Trial{Points: points, State: f.dump, Act: func() error {
					switch w := f.do(tc.method, tc.path, tc.body); {
					case w.Code < 300:
						return nil
					case w.Code != 500:
						t.Errorf("a failure of the store was answered %d %s", w.Code, w.Body)
						fallthrough
					default:
						return fmt.Errorf("%d %s", w.Code, w.Body)
					}
				}}
				if tc.method == "GET" {
					trial.State = nil
				}
				return trial
			})
		})
	}
}

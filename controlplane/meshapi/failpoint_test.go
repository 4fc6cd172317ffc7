package meshapi

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/admit"
	"github.com/meshgate/meshgate/controlplane/admit/admittest"
	"github.com/meshgate/meshgate/controlplane/httpkit"
	"github.com/meshgate/meshgate/controlplane/identity"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store/storetest"
)

// onFailpoints returns a seeded API over a store with failpoints, and its log.
func onFailpoints(t *testing.T, key []byte) (*api, *storetest.Failpoints, *storetest.Complaints) {
	t.Helper()
	points, log := &storetest.Failpoints{}, &storetest.Complaints{}
	a := seeded(t, func(o *Options) {
		points.Store = o.Store
		now := (&clock{now: start}).read
		o.Store, o.Writer = points, admit.New(points, &admittest.Revoker{}, o.Kinds, now).As(model.System("test"))
		o.DataplaneTokens = identity.NewDataplaneTokens(points, now)
	})
	a.put(t, "/meshes/m/secrets/dataplane-token-signing-key-m-1", `{"type":"Secret","mesh":"m","name":"dataplane-token-signing-key-m-1","data":"`+base64.StdEncoding.EncodeToString(key)+`"}`)
	a.handler = httpkit.Observe(a.handler, slog.New(log))
	if _, _, err := a.options.Census.Now(t.Context()); err != nil { // lists that do not wait for it ask the store
		t.Fatal(err)
	}
	return a, points, log
}

// ask makes a valid request. If it is refused, the reason must be a failure of the store,
// whose cause the caller must not see.
func (a *api) ask(t *testing.T, method, path, body string) error {
	t.Helper()
	rec := request(a.handler, method, path, body, "Content-Type", mediaJSON)
	if rec.Code < 300 {
		return nil
	}
	if rec.Code != http.StatusInternalServerError || strings.Contains(rec.Body.String(), "the store failed") {
		t.Errorf("%s %s: %d %s", method, path, rec.Code, rec.Body)
	}
	return fmt.Errorf("%d %s", rec.Code, rec.Body)
}

// TestEveryStoreCallFailsOnce fails each call of the store that a request makes, one by one.
func TestEveryStoreCallFailsOnce(t *testing.T) {
	key, err := identity.GenerateSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ method, path, body string }{
		{"PUT", "/meshes/n", `{"type":"Mesh","name":"n"}`},
		{"PUT", "/meshes/m", `{"type":"Mesh","name":"m","skipCreatingInitialPolicies":["*"]}`},
		{"PUT", "/meshes/m/dataplanes/web-2", dataplane("m", "web-2", "web")},
		{"PUT", "/meshes/m/dataplanes/web-1", dataplane("m", "web-1", "api")},
		{"PUT", "/meshes/m/tickets/u", goodTicket("u")},
		{"PUT", "/meshes/m/tickets/t", strings.Replace(goodTicket("t"), `"price":1`, `"price":2`, 1)},
		{"PUT", "/meshes/m/secrets/s", `{"type":"Secret","mesh":"m","name":"s","data":"eA=="}`},
		{"PUT", "/global-secrets/h", `{"type":"GlobalSecret","name":"h"}`},
		{"DELETE", "/meshes/m/tickets/t", ""},
		{"DELETE", "/meshes/m/dataplanes/web-1", ""},
		{"DELETE", "/meshes/m/secrets/s", ""},
		{"DELETE", "/global-secrets/g", ""},
		{"GET", "/meshes/m", ""},
		{"GET", "/meshes", ""},
		{"GET", "/meshes/m/tickets/t", ""},
		{"GET", "/meshes/m/tickets", ""},
		{"GET", "/tickets", ""},
		{"GET", "/dataplanes", ""},
		{"GET", "/meshes/m/dataplanes/web-1", ""},
		{"GET", "/meshes/m/dataplanes+insights/web-1", ""},
		{"GET", "/meshes/m/dataplanes+insights", ""},
		{"GET", "/dataplanes+insights", ""},
		{"GET", "/meshes/m/dataplanes/web-1/xds", ""},
		{"POST", "/tokens/dataplane", `{"mesh":"m","name":"web-1"}`},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			storetest.EveryCallFailsOnce(t, func() storetest.Trial {
				a, points, log := onFailpoints(t, key)
				trial := storetest.Trial{Points: points, Complaints: log, Act: func() error { return a.ask(t, tc.method, tc.path, tc.body) }}
				if tc.method == "PUT" || tc.method == "DELETE" {
					trial.State = func() string { return storetest.Dump(t, a.store, a.options.Kinds, "", "m") }
				}
				return trial
			})
		})
	}
}

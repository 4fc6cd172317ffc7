package gatewayapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/changes/changestest"
	"github.com/meshgate/meshgate/controlplane/gatewayapi"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// changePage holds the parts of a page that tests need.
type changePage struct {
	Data []struct {
		Number uint64
		Name   string
	}
	Next string
}

func (f *fixture) changes(target string) (p changePage) {
	f.t.Helper()
	w := f.do("GET", target, "")
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusOK {
		f.t.Fatalf("%d %s", w.Code, w.Body)
	}
	return p
}

// TestPagesOfChangesWhileOthersWrite: no change is missed or seen twice.
func TestPagesOfChangesWhileOthersWrite(t *testing.T) {
	changestest.PagesWhileOthersWrite(t, func(t *testing.T) changestest.API {
		f := setup(t, nil)
		return changestest.API{
			Write: func(n int) { f.do("POST", "/consumers", fmt.Sprint("username=c", n)) },
			Page: func(target string) (numbers []uint64, next string) {
				p := f.changes(target)
				for _, r := range p.Data {
					numbers = append(numbers, r.Number)
				}
				return numbers, p.Next
			},
		}
	})
}

// TestChangesOfThisControlPlane: changes of a mesh with the same name, and of other control
// planes, are not shown.
func TestChangesOfThisControlPlane(t *testing.T) {
	f := setup(t, nil)
	if _, err := f.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range []store.ChangeRecord{
			{Key: model.Key{Kind: "mesh_secret", Scope: model.DefaultControlPlane, Name: "of a mesh"}, Scoping: model.Mesh},
			{Key: model.Key{Kind: "service", Scope: "other", Name: "of another"}, Scoping: model.ControlPlane},
			{Key: model.Key{Kind: "mesh", Name: "global"}, Scoping: model.Global},
			{Key: model.Key{Kind: "service", Scope: model.DefaultControlPlane, Name: "own"}, Scoping: model.ControlPlane},
		} {
			r.Op, r.Actor = store.Created, model.System("test")
			tx.Record(r)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/changes", "/changes?since=0", "/changes?kind=service", "/changes?scope=default", "/changes?actor=test"} {
		if p := f.changes(target); len(p.Data) != 1 || p.Data[0].Name != "own" {
			t.Errorf("%s: %+v", target, p)
		}
	}
}

// TestChangesAreForAdministrators: without the token nothing is shown.
func TestChangesAreForAdministrators(t *testing.T) {
	f := setupWith(t, func(o *gatewayapi.Options) { o.Token = "a-token-for-this-test" })
	if w := f.do("GET", "/changes", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestLogNamesTheResource: the log line of a request says who did what to which resource. It
// has the id of the resource and never a key from a path, which may be a token.
func TestLogNamesTheResource(t *testing.T) {
	f := setup(t, nil)
	f.do("POST", "/consumers", `{"id":"b0000000-0000-4000-8000-000000000000","username":"bob"}`)
	f.do("POST", "/consumers/bob/key-auth", `{"id":"c0000000-0000-4000-8000-000000000000","key":"a-secret-key"}`)
	var requests []*http.Request
	for _, c := range [][3]string{
		{"PATCH", "/key-auths/a-secret-key", `{"tags":["x"]}`}, {"GET", "/consumers/bob/key-auth/a-secret-key", ""},
		{"GET", "/key-auths/a-secret-key/consumer", ""}, {"GET", "/key-auths", ""}, {"DELETE", "/key-auths/a-secret-key", ""},
		{"DELETE", "/key-auths/a-secret-key", ""}, {"GET", "/consumers/nobody", ""}, {"DELETE", "/consumers/bob", ""}, {"GET", "/status", ""},
	} {
		r := httptest.NewRequest(c[0], c[1], strings.NewReader(c[2]))
		r.Header.Set("Content-Type", "application/json")
		requests = append(requests, r)
	}
	key, bob := " kind=keyauth_credential name=c0000000-0000-4000-8000-000000000000", " kind=consumer name=b0000000-0000-4000-8000-000000000000"
	if diff := cmp.Diff([]string{
		"PATCH status=200 actor=user:mesh-system:admin" + key, "GET status=200 actor=user:mesh-system:admin" + key,
		"GET status=200 actor=user:mesh-system:admin" + bob, "GET status=200 actor=user:mesh-system:admin kind=keyauth_credential",
		"DELETE status=204 actor=user:mesh-system:admin" + key, "DELETE status=204 actor=user:mesh-system:admin kind=keyauth_credential",
		"GET status=404 actor=user:mesh-system:admin kind=consumer", "DELETE status=204 actor=user:mesh-system:admin" + bob,
		"GET status=200 actor=user:mesh-system:admin",
	}, changestest.Logged(t, f.api.Handler(), requests, "secret")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

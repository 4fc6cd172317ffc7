package gatewayapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/meshgate/meshgate/controlplane/gateway"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/store"
)

// elsewhere has a token for a service of control plane b, and an own service of the same id.
type elsewhere struct {
	*fixture
	service, token, app string
}

func newElsewhere(t *testing.T) *elsewhere {
	e := &elsewhere{fixture: setup(t, nil), service: uuid.NewString(), token: uuid.NewString(), app: uuid.NewString()}
	consumer, own := uuid.NewString(), model.DefaultControlPlane
	if _, err := e.store.Update(t.Context(), model.Config, func(tx store.Tx) error {
		for _, r := range []*model.Resource{
			{Kind: gateway.Services, Scope: "b", Name: e.service, Spec: &gateway.Service{Name: "theirs", Host: "b.example", Protocol: "http"}},
			{Kind: gateway.Services, Scope: own, Name: e.service, Spec: &gateway.Service{Name: "ours", Host: "a.example", Protocol: "http"}},
			{Kind: gateway.Consumers, Scope: own, Name: consumer, Spec: &gateway.Consumer{Username: "eve"}},
			{Kind: gateway.Applications, Scope: own, Name: e.app, Spec: &gateway.Application{Name: "app", ClientID: "id", ClientSecret: "s", Consumer: consumer}},
			{Kind: gateway.Tokens, Scope: own, Name: e.token, Spec: &gateway.Token{
				Credential: e.app, Service: e.service, ServicePlane: "b", AccessToken: "t", TokenType: gateway.TokenBearer, ExpiresIn: 10,
			}},
		} {
			if _, err := tx.Create(r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return e
}

// plane is where the service of the token is.
func (e *elsewhere) plane() (service, plane string) {
	e.t.Helper()
	if err := e.store.View(e.t.Context(), func(r store.Reader) error {
		res, err := r.Get(gateway.Tokens, model.DefaultControlPlane, e.token)
		if err == nil {
			token := res.Spec.(*gateway.Token)
			service, plane = token.Service, token.ServicePlane
		}
		return err
	}); err != nil {
		e.t.Fatal(err)
	}
	return service, plane
}

// TestServiceElsewhereIsNotTheOwnOne: an API of one control plane does not take its service
// for that of another which has the same id.
func TestServiceElsewhereIsNotTheOwnOne(t *testing.T) {
	e := newElsewhere(t)
	below := "/services/" + e.service + "/oauth2_tokens"
	through := "/oauth2_tokens/" + e.token + "/service"
	for _, c := range []struct{ method, target, body string }{
		{"GET", below + "/" + e.token, ""}, {"PATCH", below + "/" + e.token, `{"scope":"x"}`}, {"DELETE", below + "/" + e.token, ""},
		{"PUT", below + "/" + e.token, `{"scope":"x","credential":{"id":"` + e.app + `"},"expires_in":1}`},
		{"GET", through, ""}, {"PATCH", through, `{"host":"x.example"}`}, {"PUT", through, `{"host":"x.example"}`},
	} {
		if w := e.do(c.method, c.target, c.body); w.Code != 404 {
			t.Errorf("%s %s: %d %s", c.method, c.target, w.Code, w.Body)
		}
	}
	var page struct{ Data []any }
	if w := e.do("GET", below, ""); json.Unmarshal(w.Body.Bytes(), &page) != nil || len(page.Data) != 0 {
		t.Errorf("the own service lists %s", w.Body)
	}
	if w := e.do("GET", "/services/"+e.service, ""); !strings.Contains(w.Body.String(), "a.example") {
		t.Errorf("the own service is %s", w.Body)
	}
	if w := e.do("DELETE", "/services/"+e.service, ""); w.Code != 204 {
		t.Errorf("the own service stays: %d %s", w.Code, w.Body)
	}
	if w := e.do("GET", "/oauth2_tokens/"+e.token, ""); w.Code != 200 || strings.Contains(w.Body.String(), "plane") {
		t.Errorf("the token: %d %s", w.Code, w.Body)
	}
}

// TestWritesOfATokenForAServiceElsewhere: who does not change the service of a token leaves
// it where it is; a service that an API names otherwise is its own.
func TestWritesOfATokenForAServiceElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		method, body string
		status       int
		plane        string
		bound        bool
	}{
		"another member": {"PATCH", `{"scope":"x"}`, 200, "b", true},
		"the same id":    {"PATCH", `{"service":{"id":"%[1]s"}}`, 200, "b", true},
		"as it is shown": {"PUT", `{"service":{"id":"%[1]s"},"credential":{"id":"%[2]s"},"expires_in":5}`, 200, "b", true},
		"none":           {"PATCH", `{"service":null}`, 200, "", false},
		"replaced":       {"PUT", `{"credential":{"id":"%[2]s"},"expires_in":5}`, 200, "", false},
		"an own one":     {"PATCH", `{"service":{"id":"%[3]s"}}`, 200, "", true},
		"an unknown one": {"PATCH", `{"service":{"id":"%[4]s"}}`, 400, "b", true},
		"the place":      {"PATCH", `{"service_plane":"b"}`, 400, "b", true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newElsewhere(t)
			var own struct{ ID string }
			if w := e.do("POST", "/services", `{"name":"second","host":"h.example"}`); json.Unmarshal(w.Body.Bytes(), &own) != nil || own.ID == "" {
				t.Fatal(w.Body)
			}
			body := strings.NewReplacer("%[1]s", e.service, "%[2]s", e.app, "%[3]s", own.ID, "%[4]s", uuid.NewString()).Replace(c.body)
			if w := e.do(c.method, "/oauth2_tokens/"+e.token, body); w.Code != c.status {
				t.Fatal(fmt.Sprint(w.Code, " ", w.Body))
			}
			if service, plane := e.plane(); plane != c.plane || (service != "") != c.bound {
				t.Errorf("the token is for %q of %q", service, plane)
			}
		})
	}
}

package cloudapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/cloud"
	"github.com/meshgate/meshgate/controlplane/model"
	"github.com/meshgate/meshgate/controlplane/portal"
	"github.com/meshgate/meshgate/controlplane/store"
)

// TestJoining: a developer registers, is approved, and sets a password with the token that an
// administrator hands over.
func TestJoining(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	if got := f.site("POST", at, "", `{"email":"ada@example.com","full_name":"Ada"}`, nil); got.Code != 201 || got.Body.Len() > 0 {
		t.Fatal(got.told())
	}
	list := f.must(200, "GET", at+"/developers?filter[status]=pending", "")["data"].([]any)
	if len(list) != 1 {
		t.Fatalf("%v", list)
	}
	dev := at + "/developers/" + list[0].(map[string]any)["id"].(string)
	if got := f.site("POST", at, "", `{"email":"ADA@example.com","full_name":"Eve"}`, nil); got.Code != 201 {
		t.Errorf("a taken address is told: %s", got.told())
	}
	if doc := f.must(200, "GET", dev, ""); doc["full_name"] != "Ada" {
		t.Errorf("%v", doc)
	}
	f.must(200, "PATCH", dev, `{"status":"approved"}`)
	invited := f.must(201, "POST", dev+"/verification-token", "")
	token := invited["token"].(string)
	again := f.must(201, "POST", dev+"/verification-token", "")["token"].(string)
	body := func(token string) string { return fmt.Sprintf(`{"token":%q}`, token) }
	set := func(token, password string) string { return fmt.Sprintf(`{"token":%q,"password":%q}`, token, password) }
	const nobody = "10000000-0000-4000-8000-000000000000"
	other := f.portal("other")
	for _, test := range []struct{ at, path, body, want string }{
		{at, "/verify-email", body(token), "404 Not Found/Not Found"}, // there is a newer one
		{at, "/verify-email", body(nobody), "404 Not Found/Not Found"},
		{at, "/verify-email", body("x"), "400 Invalid Request/Invalid Parameters/token/expected a valid UUID/is_uuid"},
		{other, "/verify-email", body(again), "404 Not Found/Not Found"},
		{at, "/reset-password", set(again, password), "404 Not Found/Not Found"}, // it is the first of two
		{at, "/reset-password", set(again, "short"), "400 Invalid Request/Invalid Parameters/password/length must be at least 8/invalid"},
	} {
		if got := f.site("POST", test.at, test.path, test.body, nil).told(); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.path, test.body, got, test.want)
		}
	}
	second := map[string]string{}
	a := f.site("POST", at, "/verify-email", body(again), nil)
	if err := json.Unmarshal(a.Body.Bytes(), &second); err != nil || a.Code != 202 || second["email"] != "ada@example.com" {
		t.Fatal(a.told())
	}
	if got := f.site("POST", at, "/verify-email", body(again), nil); got.Code != 404 {
		t.Errorf("the token counts twice: %s", got.told())
	}
	if got := f.site("POST", at, "/reset-password", set(second["token"], password), nil); got.Code != 204 {
		t.Fatal(got.told())
	}
	if got := f.site("POST", at, "/reset-password", set(second["token"], password), nil); got.Code != 404 {
		t.Errorf("the token counts twice: %s", got.told())
	}
	if got := f.login(at, "ada@example.com", password); got.Code != 204 {
		t.Error(got.told())
	}
	late := f.must(201, "POST", dev+"/verification-token", "")["token"].(string)
	f.now = f.now.Add(portal.InviteLife)
	if got := f.site("POST", at, "/verify-email", body(late), nil).told(); got != "410 Gone/The token has expired" {
		t.Error(got)
	}
	f.must(200, "PATCH", other, `{"auto_approve_developers":true}`)
	f.site("POST", other, "", `{"email":"ada@example.com","full_name":"Ada"}`, nil)
	if n := len(f.must(200, "GET", other+"/developers?filter[status]=approved", "")["data"].([]any)); n != 1 {
		t.Errorf("%d are approved", n)
	}
	if got := f.site("POST", at, "", `{"email":"b@example.com","full_name":"B","status":"approved"}`, nil).told(); got != "400 Invalid Request/Invalid Parameters/status/property status should not exist/unknown_property" {
		t.Error(got)
	}
}

// TestFewRegister: strangers cannot fill a portal with developers.
func TestFewRegister(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	count := map[int]int{}
	for i := range 20 {
		count[f.site("POST", at, "", fmt.Sprintf(`{"email":"d%d@example.com","full_name":"D"}`, i), nil).Code]++
	}
	if count[201] != 5 || count[429] != 15 {
		t.Errorf("%v", count)
	}
}

// TestFewPend: strangers who wait for approval leave room for the developers whom administrators make.
func TestFewPend(t *testing.T) {
	f := setup(t)
	at := f.portal("docs")
	_, err := f.api.Gate.As(model.System("test")).Write(t.Context(), model.Config, func(tx store.Tx) error {
		for i := range cloud.MaxPending {
			dev := &cloud.Developer{Portal: strings.TrimPrefix(at, portalsPath+"/"), Email: fmt.Sprintf("d%d@example.com", i), FullName: "D", Status: cloud.Pending}
			if _, err := portal.Add(tx, dev, f.now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.site("POST", at, "", `{"email":"one@example.com","full_name":"One"}`, nil); got.Code != 409 {
		t.Errorf("one more: %d", got.Code)
	}
	f.developer(at, "ada@example.com")
}

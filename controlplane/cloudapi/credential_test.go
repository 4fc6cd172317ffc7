package cloudapi

import "testing"

// TestStoredCredential: who may change destinations, but is no administrator, leads the stored credential to
// nobody else: to no other endpoint, however alike it looks, and to nobody with any certificate.
func TestStoredCredential(t *testing.T) {
	f := setup(t)
	at := destinations + "/" + f.created("siem")
	const fine, forbidden = "200 <nil>/<nil>", "403 Forbidden/You do not have permission to perform this action"
	for _, test := range []struct{ who, body, want string }{
		{"eddie", `{"endpoint":"https://eddie.example/in"}`, forbidden},
		{"eddie", `{"endpoint":"https://siem.example:8443/in"}`, forbidden},
		{"eddie", `{"endpoint":"http://siem.example/in"}`, forbidden},
		{"eddie", `{"endpoint":"https://siem.example.eddie.example/in"}`, forbidden},
		{"eddie", `{"skip_ssl_verification":true}`, forbidden},
		{"eddie", `{"endpoint":"https://siem.example/elsewhere"}`, forbidden},
		{"eddie", `{"endpoint":"https://sİem.example/in"}`, forbidden},
		{"eddie", `{"endpoint":"https://siem.example/in","name":"new"}`, fine},
		{"eddie", `{"skip_ssl_verification":false,"log_format":"json"}`, fine},
		{"eddie", `{"endpoint":"https://eddie.example/in","authorization":"Bearer own","skip_ssl_verification":true}`, fine},
		{"eddie", `{"skip_ssl_verification":true}`, fine}, // it is so already
		{"admin", `{"endpoint":"https://other.example/in"}`, fine},
	} {
		if got := told(f.as(test.who, "PATCH", at, test.body)); got != test.want {
			t.Errorf("%s: %s: %s, want %s", test.who, test.body, got, test.want)
		}
	}
	if got := f.must(200, "GET", at, "")["endpoint"]; got != "https://other.example/in" {
		t.Error(got)
	}
}

// TestPasswordOfAnother: who may change developers, but is no administrator, decides about them and makes new
// ones, and sets no password, also not of a new one: it could log in as that one. It is refused before anything is
// computed.
func TestPasswordOfAnother(t *testing.T) {
	f := setup(t)
	at := f.portal("pets")
	dev, gone := f.developer(at, "ada@example.com"), f.developer(at, "eve@example.com")
	const fine, forbidden = "200 <nil>/<nil>", "403 Forbidden/You do not have permission to perform this action"
	accounts := f.api.Accounts
	f.api.Accounts = nil // nothing computes hashes
	for _, test := range []struct{ who, method, path, body, want string }{
		{"eddie", "PATCH", dev, `{"password":"of eddie's choice"}`, forbidden},
		{"eddie", "PATCH", dev, `{"status":"revoked","password":"of eddie's choice"}`, forbidden},
		{"eddie", "POST", dev + "/verification-token", "", forbidden},
		{"eddie", "PATCH", dev, `{"status":"approved"}`, fine},
		{"eddie", "POST", at + "/developers", `{"email":"bob@example.com","full_name":"Bob","password":"of eddie's choice"}`, forbidden},
		{"eddie", "POST", at + "/developers", `{"email":"bob@example.com","full_name":"Bob"}`, "201 <nil>/<nil>"},
		{"eddie", "DELETE", gone, "", "204 <nil>/<nil>"},
		{"eddie", "POST", at + "/developers", `{"email":"eve@example.com","full_name":"Eve","password":"of eddie's choice"}`, forbidden},
	} {
		if got := told(f.as(test.who, test.method, test.path, test.body)); got != test.want {
			t.Errorf("%s %s %s: %s, want %s", test.method, test.path, test.body, got, test.want)
		}
	}
	f.api.Accounts = accounts
	if got := f.login(at, "ada@example.com", password).Code; got != 204 {
		t.Errorf("with the password that it had: %d", got)
	}
	if got := told(f.as("admin", "PATCH", dev, `{"password":"a new password"}`)); got != fine {
		t.Errorf("an administrator: %s", got)
	}
	if got := f.login(at, "ada@example.com", "a new password").Code; got != 204 {
		t.Errorf("with the password of the administrator: %d", got)
	}
}

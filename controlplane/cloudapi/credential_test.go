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

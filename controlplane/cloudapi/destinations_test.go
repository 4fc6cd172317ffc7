package cloudapi

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/meshgate/meshgate/controlplane/outward"
)

// TestEndpointsThatLeadNowhere: an endpoint that is written as an address to which nothing is sent is refused when it
// is saved, and allowed networks are not. A change that gives no endpoint is not about the one that is stored.
func TestEndpointsThatLeadNowhere(t *testing.T) {
	f := setup(t)
	const fine, bad = "200 <nil>/<nil>", "Bad Request/Invalid endpoint/endpoint/the address is not allowed/invalid/body"
	at := destinations + "/" + f.created("siem")
	body := func(endpoint string) string {
		return `{"name":"to ` + endpoint + `","endpoint":"` + endpoint + `","authorization":"x","log_format":"cef"}`
	}
	for _, endpoint := range []string{
		"https://127.0.0.1:8443/in", "https://localhost/", "https://10.1.2.3", "https://0x7f.1/", "https://[::ffff:169.254.169.254]/", "http://10.1.2.3/",
	} {
		for method, path := range map[string]string{"POST": destinations, "PATCH": at} {
			status, doc := f.do(method, path, body(endpoint))
			if got := mistake(doc, 0); status != 400 || got != bad {
				t.Errorf("%s %s: %d %s", method, endpoint, status, got)
			}
		}
	}
	status, doc := f.do("PATCH", at, body("http://8.8.8.8/"))
	if got := mistake(doc, 0); status != 400 || got != "Bad Request/Invalid endpoint/endpoint/"+outward.ErrPlain.Error()+"/invalid/body" {
		t.Errorf("%d %s", status, got)
	}
	if got := f.must(200, "GET", at, "")["endpoint"]; got != "https://siem.example/in" {
		t.Errorf("it was changed to %v", got)
	}
	f.api.Foresee = (&outward.Options{Allowed: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}).Foresee
	for _, test := range []struct{ method, path, endpoint, want string }{
		{"POST", destinations, "http://10.1.2.3/", fine}, {"PATCH", at, "https://10.1.2.3/", fine},
		{"POST", destinations, "https://11.1.2.3/", fine}, {"POST", destinations, "https://192.168.0.1/", "400 Bad Request/Invalid endpoint/endpoint/the address is not allowed/invalid"},
	} {
		if got := told(f.do(test.method, test.path, body(test.endpoint))); got != test.want {
			t.Errorf("%s %s: %s, want %s", test.method, test.endpoint, got, test.want)
		}
	}
	f.api.Foresee = new(outward.Options).Foresee // the setting is another one after a start
	if got := told(f.do("PATCH", at, `{"log_format":"json"}`)); got != fine {
		t.Errorf("a change of something else: %s", got)
	}
}

// TestEndpointsBeyondTheSchema: where an endpoint leads is asked only if the schema accepts all that was given. It
// bounds the length, and the question costs more with each character.
func TestEndpointsBeyondTheSchema(t *testing.T) {
	f := setup(t)
	at := destinations + "/" + f.created("siem")
	var asked []string
	f.api.Foresee = func(endpoint string) error { asked = append(asked, endpoint); return nil }
	long := "https://" + strings.Repeat("ü", 2048) + ".example/"
	for method, path := range map[string]string{"POST": destinations, "PATCH": at} {
		for _, body := range []string{
			`{"name":"long","authorization":"x","log_format":"cef","endpoint":"` + long + `"}`,
			`{"name":"odd","authorization":"x","log_format":"none","endpoint":"https://siem.example/"}`,
		} {
			if status, doc := f.do(method, path, body); status != 400 {
				t.Errorf("%s: %d %v", method, status, doc)
			}
		}
	}
	if len(asked) != 0 {
		t.Errorf("asked for %d endpoints that the schema refuses", len(asked))
	}
	f.must(200, "PATCH", at, `{"endpoint":"https://other.example/"}`)
	if len(asked) != 1 || asked[0] != "https://other.example/" {
		t.Errorf("asked for %v", asked)
	}
}

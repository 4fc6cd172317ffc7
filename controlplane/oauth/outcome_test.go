package oauth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshgate/meshgate/controlplane/gateway"
)

type witness struct{ told []string }

func (w *witness) Issued(grant string) { w.told = append(w.told, "token "+grant) }
func (w *witness) CodeIssued()         { w.told = append(w.told, "code") }
func (w *witness) Refused(endpoint, grant, reason string) {
	w.told = append(w.told, endpoint+" "+grant+" "+reason)
}

// TestOutcomes: the observer is told the outcome of each request once, and never with a text
// of the client.
func TestOutcomes(t *testing.T) {
	cfg := gateway.OAuth2Config{
		EnableClientCredentials: true, EnableAuthorizationCode: true, EnableImplicitGrant: true, EnablePasswordGrant: true, Endpoints: true,
		Scopes: []string{"email"}, TokenExpiration: 60, ProvisionKey: "pk",
	}
	w := newWorld(t, cfg)
	var got witness
	w.server.Observer = &got
	const id, user = "client_id=app&client_secret=secret&", "client_id=app&provision_key=pk&authenticated_userid=u&scope=email&"
	for _, test := range []struct{ method, target, body, want string }{
		{"POST", "token", id + "grant_type=client_credentials", "token client_credentials"},
		{"POST", "token", id + "grant_type=password&provision_key=pk&authenticated_userid=u&username=u&password=p", "token password"},
		{"POST", "authorize", user + "response_type=token", "token implicit"},
		{"POST", "authorize", user + "response_type=code", "code"},
		{"POST", "token", "grant_type=client_credentials&client_id=app&client_secret=wrong", "token client_credentials invalid_client"},
		{"POST", "token", id + "grant_type=client_credentials&scope=wot", "token client_credentials invalid_scope"},
		{"POST", "token", id + "grant_type=authorization_code&code=x", "token authorization_code invalid_request"},
		{"POST", "token", id + "grant_type=refresh_token&refresh_token=x", "token refresh_token invalid_request"},
		{"POST", "token", id + "grant_type=my_own_grant", "token other unsupported_grant_type"},
		{"POST", "token", strings.Repeat("a", maxBody+1), "token none invalid_request"},
		{"POST", "authorize", user + "response_type=mine", "authorize other unsupported_response_type"},
		{"POST", "authorize", "response_type=code&client_id=nobody&provision_key=pk&authenticated_userid=u&scope=email", "authorize authorization_code invalid_client"},
		{"GET", "token", "", "token none invalid_method"},
		{"POST", "introspect", "client_id=app&client_secret=wrong&token=x", "introspect none invalid_client"},
		{"POST", "revoke", id, "revoke none invalid_request"},
		{"POST", "introspect", id + "token=x", ""},
		{"POST", "elsewhere", id, ""},
	} {
		got.told = nil
		rec := w.ask(test.method, "/x/oauth2/"+test.target, form, test.body, nil)
		if told := strings.Join(got.told, "; "); told != test.want {
			t.Errorf("%s %s %s: told %q, want %q; %d %s", test.method, test.target, test.body[:min(len(test.body), 80)], told, test.want, rec.Code, rec.Body)
		}
	}
	// Failures that are not the client's fault have reasons of their own.
	got.told = nil
	if err := w.db.Close(); err != nil {
		t.Fatal(err)
	}
	w.ask("POST", "/x/oauth2/token", form, id+"grant_type=client_credentials", nil)
	if diff := cmp.Diff([]string{"token client_credentials " + ReasonUnavailable}, got.told); diff != "" {
		t.Error(diff)
	}
}
